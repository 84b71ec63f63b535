"""An example report that contains a finding of each form."""

from evalscribe.model.finding import Pattern, Recommendation, Recurrence
from evalscribe.model.report import EvalRef, JudgeLabel, Report, ReportEntry, RunHeader, Snippet

EARLIER = "smp5c1zz_2026-10-12.md"


def ref(path: str, number: int) -> EvalRef:
    return EvalRef(path=path, url=f"https://evals.example/run/smp7q2ka/e{number}")


def example_report() -> Report:
    return Report(
        run=RunHeader(
            id="smp7q2kax0d4m81v", provider="example", model="sample-model-1", passed=31, failed=3, total=35, listed=3
        ),
        date="2026-11-02",
        revision=2,
        judges=("rules@1",),
        evidence="sha256:3f9a1c07",
        earlier=(EARLIER,),
        entries=(
            ReportEntry(
                evals=(ref("basics/003-schedule", 1),),
                step="tests",
                classification="MODEL_FAULT",
                cause="missing-empty-args",
                cause_kind="model",
                judge=JudgeLabel(id="rules@1", classification="MODEL_FAULT", confidence=0.9),
                why="leaves out the required empty `args`",
                error="TypeError: every() missing 1 required argument: 'args'",
                reasoning="The task asks for a job without argument; `every()` still wants an empty `args`.",
                recurrence=Recurrence(kind="repeat", reports=(EARLIER,)),
                snippets=(
                    Snippet(role="output", path="schedule.py", first=20, text='every("s", run=noop)'),
                    Snippet(role="expected", path="schedule.py", first=18, text='every("s", run=noop, args={})\nx'),
                ),
            ),
            ReportEntry(
                evals=(ref("http/001-retry", 2),),
                step="tests",
                classification="OVERLY_STRICT",
                cause="wrong-grader-port",
                cause_kind="harness",
                judge=JudgeLabel(id="rules@1", classification="MODEL_FAULT", confidence=0.55),
                why="grader asks a port that nothing listens on",
                error="ConnectionRefusedError: 127.0.0.1:35276",
                reasoning="Both tests fail before any assertion.",
                recurrence=Recurrence(kind="fix-in-doubt", reports=(EARLIER,), action="retry added to the grader"),
                snippets=(
                    Snippet(role="log", path="run.log", first=31, text="listening on 35275", status="unverified"),
                ),
                reviewer=("the server logs 35275, the grader asks port + 1",),
                notes=("An aside.\n\n```\ncode\n```",),
            ),
            ReportEntry(
                evals=(ref("a/1", 3), ref("a/2", 4), EvalRef(path="b/1")),
                classification=None,
                why="no answer",
                reasoning="The judge timed out.",
            ),
        ),
        patterns=(Pattern(name="Lint decides", kind="rule", evals=("http/001-retry", "a/1"), text="all tests pass."),),
        resolved=("basics/001-hello", "query/002-sort"),
        recommendations=(
            Recommendation(id="R1", group="eval", text="read the port", evals=("http/001-retry",), would_pass=True),
            Recommendation(group="model", text="Leaves out arguments.", evals=("basics/003-schedule",)),
            Recommendation(group="none", text="run it again", evals=("a/1", "a/2", "b/1")),
        ),
    )
