"""Questions that people ask about runs and results: what the model is shown, and what its answer comes to."""

from evalscribe.judging.requests.answer import Answer, Questioner
from evalscribe.judging.requests.question import Known, Question

__all__ = ["Answer", "Known", "Question", "Questioner"]
