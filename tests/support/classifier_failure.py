"""A failure in the form in which the model judge receives it."""

from collections.abc import Awaitable, Callable

from evalscribe.model.evidence import Document, Evidence, Excerpt, PackedEvidence
from evalscribe.model.finding import Failure, Unclassified, Verdict
from evalscribe.model.run import Eval, Step
from support.messages_server import MessagesServer

OUTPUT = "def twice(n):\n    return n + n + 1\n"
EXPECTED = "def twice(n):\n    return 2 * n\n"
QUOTE = {"role": "output", "path": "twice.py", "first": 2, "last": 2, "text": "    return n + n + 1"}

JudgeFailure = Callable[..., Awaitable[tuple[Verdict | Unclassified, MessagesServer]]]


def make_evidence(**extra: Document) -> Evidence:
    documents = (
        Document(role="task", path="TASK.txt", text="Write twice(n), which returns n doubled.\n"),
        Document(role="output", path="twice.py", text=OUTPUT),
        Document(role="expected", path="answer/twice.py", text=EXPECTED),
        Document(role="grader", path="test_twice.py", text="def test_twice():\n    assert twice(1) == 2\n"),
        Document(role="log", path="run.log", text="FAILED test_twice.py::test_twice - assert 3 == 2\n"),
        *extra.values(),
    )
    failed = Eval(id="e1", category="basics", name="001-twice", failed_step="tests", reason="tests failed")
    steps = (Step(name="lint", status="passed"), Step(name="tests", status="failed", error="tests failed"))
    return Evidence(eval=failed, steps=steps, documents=documents)


def make_packed_failure(known: Evidence | None = None) -> Failure:
    known = known or make_evidence()
    excerpts = tuple(Excerpt(role=d.role, path=d.path, first=1, text=d.text) for d in known.documents)
    return Failure(evidence=known, packed=PackedEvidence(excerpts=excerpts))
