"""A recommendation into a patch for the eval suite: what it may touch, and what a model proposes."""

from evalscribe.propose.files import Files
from evalscribe.propose.proposal import Proposer
from evalscribe.propose.question import Concern
from evalscribe.propose.record import action, branches, committed_line, is_of, message, with_action
from evalscribe.propose.scope import Scope, scope

__all__ = [
    "Concern",
    "Files",
    "Proposer",
    "Scope",
    "action",
    "branches",
    "committed_line",
    "is_of",
    "message",
    "scope",
    "with_action",
]
