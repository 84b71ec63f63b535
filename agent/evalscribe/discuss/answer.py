"""What a question in a discussion comes to."""

from evalscribe.ids import Frozen
from evalscribe.model.chat import Usage
from evalscribe.model.result import ResolvedCitation


class Cited(Frozen):
    """One citation of an answer, and whether it holds."""

    finding: int | None
    """Number of the finding whose evidence it is of; None for the report itself, or where none was named."""
    citation: ResolvedCitation
    """Its offsets count the characters of `Answer.text`."""


class Answer(Frozen):
    question: str
    text: str
    """As it was shown: every citation with the place where it really stands, or marked as unverified."""
    citations: tuple[Cited, ...] = ()
    usage: Usage = Usage()
    broken_off: str | None = None
    """Why the answer is not whole, or not there; None where it is."""

    @property
    def unverified(self) -> int:
        return sum(cited.citation.status == "unverified" for cited in self.citations)
