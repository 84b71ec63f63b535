"""One example of each kind of object about analyses that a store contains."""

from evalscribe.model.chat import Usage
from evalscribe.model.evidence import Citation, Document, Evidence, FailureFingerprint
from evalscribe.model.finding import HumanLabel, Unclassified, Verdict
from evalscribe.model.repository import Edit, Proposal
from evalscribe.model.run import Eval, Run, Step

EVAL = Eval(id="e1", category="basics", name="001", failed_step="tests", reason="Tests failed", url="https://x.example")
EVIDENCE = Evidence(
    eval=EVAL,
    steps=(Step(name="tests", status="failed", error="x\x00y"),),
    documents=(Document(role="output", path="../../etc/passwd\x07", text="zeile\r\n\u2028 ünï \U0001f600" * 50),),
    missing=("log",),
)
RUN = Run(id="../r1 '; drop table runs", provider="example", model="m", failures=(EVAL,), evals=("a/b",), failed=1)
USAGE = Usage(calls=1, input_tokens=10, output_tokens=5, cache_read_tokens=3, cache_write_tokens=2, cost_usd=0.25)
VERDICT = Verdict(
    classification="MODEL_FAULT",
    cause="some-cause",
    cause_kind="model",
    confidence=0.75,
    error="TypeError",
    why="wrong",
    reasoning="It is wrong.",
    judge="scripted@1",
    citations=(Citation(role="log", path="run.log", first=1, last=2, text="a\nb", status="verified"),),
    usage=USAGE,
)
ANOTHER = VERDICT.model_copy(update={"why": "new"})
BUSY = Unclassified(reason="overloaded", judge="scripted@1")
REFUSED = Unclassified(reason="refused", judge="scripted@1", final=True)
SIGHTING = FailureFingerprint(
    run="r1",
    provider="example",
    model="m",
    experiment="default",
    eval="basics/001",
    eval_id="e1",
    step="tests",
    signature="tests: <n> is not \x00 ünï",
    task="sha256:1",
    grader="sha256:2",
    method=1,
)
LABEL = HumanLabel(
    run="r1",
    provider="example",
    model="m",
    experiment="default",
    eval="basics/001",
    label="KNOWN_GAP",
    cause_kind="lint",
    note="two\nlines \U0001f600",
    reviewer="Ada Ö",
    email="ada@example.org",
    commit="c1",
    date="2026-11-02",
    report="example/m/r1.md",
    judge="rules@1",
    judged="MODEL_FAULT",
)
PROPOSAL = Proposal(edits=(Edit(path="a.py", old="x\r\n", new=""),), summary="less")
