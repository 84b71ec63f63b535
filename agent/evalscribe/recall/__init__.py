"""Earlier reports of a model, ours or in any free form: what they say, and what it means for a run of today."""

from evalscribe.recall.across_models import AcrossModels, AlikeRow, ModelSeen, across_models
from evalscribe.recall.afterwards import actions_in
from evalscribe.recall.follow_ups import follow_ups
from evalscribe.recall.history import History, history
from evalscribe.recall.past import PastReport
from evalscribe.recall.reading import read
from evalscribe.recall.recurring import ActionSeen, Recurring, RecurringRow, recurring

__all__ = [
    "AcrossModels",
    "ActionSeen",
    "AlikeRow",
    "History",
    "ModelSeen",
    "PastReport",
    "Recurring",
    "RecurringRow",
    "across_models",
    "actions_in",
    "follow_ups",
    "history",
    "read",
    "recurring",
]
