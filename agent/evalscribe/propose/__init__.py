"""A recommendation into a patch for the eval suite: what it may touch, and what a model proposes."""

from evalscribe.propose.files import Files
from evalscribe.propose.proposal import Proposer
from evalscribe.propose.question import Concern
from evalscribe.propose.record import action, branches, is_of, message, told, with_action
from evalscribe.propose.scope import Scope, scope

__all__ = [
    "Concern",
    "Files",
    "Proposer",
    "Scope",
    "action",
    "branches",
    "is_of",
    "message",
    "scope",
    "told",
    "with_action",
]
