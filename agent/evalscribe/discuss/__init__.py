"""Questions about a report, answered from its findings and their evidence. Nothing is written."""

from evalscribe.discuss.answer import Answer, Cited
from evalscribe.discuss.conversation import Bounds, Conversation
from evalscribe.discuss.dossier import MOST_LOOKED_AT, Dossier
from evalscribe.discuss.lookup import Lookup
from evalscribe.discuss.wishes import ends, wanted

__all__ = ["MOST_LOOKED_AT", "Answer", "Bounds", "Cited", "Conversation", "Dossier", "Lookup", "ends", "wanted"]
