"""The model judge: a sub-agent that reads the evidence of one failure with tools and submits a verdict."""

from evalscribe.judging.classifier.first_pass import FirstPass
from evalscribe.judging.classifier.investigation import Bounds
from evalscribe.judging.classifier.judge import ModelJudge

__all__ = ["Bounds", "FirstPass", "ModelJudge"]
