"""What other models' runs make of a verdict: a failure that most models share is hardly each one's own fault."""

from evalscribe.across import in_words
from evalscribe.judging.rules import precedents
from evalscribe.model.finding import UNCERTAIN_CONFIDENCE, CrossModelFailures, Verdict

SAID = precedents.people_said_before.__name__.replace("_", "-")


def beside_others(verdict: Verdict, across: CrossModelFailures | None) -> Verdict:
    """The verdict, in doubt where it blames this model for what at least half do; only then does it say why.

    A label that people gave to this very failure stands: they could weigh more than a count.
    """
    if across is None or not across.most_fail or verdict.classification != "MODEL_FAULT" or verdict.rule == SAID:
        return verdict
    return verdict.model_copy(
        update={
            "reasoning": f"{verdict.reasoning} {in_words(across)} So the eval itself may be at fault.",
            "uncertain": True,
            "confidence": min(verdict.confidence, UNCERTAIN_CONFIDENCE),
        }
    )
