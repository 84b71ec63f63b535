"""One run item as a judge is shown it: documents with line numbers, which it can cite."""

import json
from collections.abc import Sequence

from pydantic import JsonValue

from evalscribe.judging.scorers.model.selectors import role_of, selected
from evalscribe.judging.subject.failures import document_mark
from evalscribe.judging.subject.item import Item, Subject
from evalscribe.model.evidence import Document
from evalscribe.model.result import CitationTarget
from evalscribe.model.score import ScorerRequest
from evalscribe.redaction.redact import redact


def of_request(names: Sequence[str], request: ScorerRequest, where_recorded: Sequence[str] = ()) -> Subject:
    """`task input`, `output output`, `expected expected`, `task input.context` …: the parts of these names, in order.

    `where_recorded`: more of them, each left out where it is not there. Raises `CannotScore` where another one is not.
    """
    names = [*names, *(name for name in where_recorded if getattr(request, name) is not None)]
    return Subject.of("run item", [_item(name, selected(name, request)) for name in dict.fromkeys(names)])


def mark(name: str) -> str:
    """How the part of this name is cited."""
    return document_mark(Document(role=role_of(name), path=name, text=""))


def _item(name: str, value: JsonValue) -> Item:
    role = role_of(name)
    text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
    target = CitationTarget(kind="document", item=mark(name), role=role, path=name)
    return Item(mark=mark(name), about="", text=redact(text), target=target, numbered=True)
