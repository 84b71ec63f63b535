"""Decode the payloads of a Convex deployment into a run and the evidence of its failures."""

import asyncio
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from evalscribe import text as prose
from evalscribe.errors import DataError
from evalscribe.json_data import (
    JsonObject,
    clean_json,
    count_field,
    id_field,
    optional_text_field,
    require_list,
    require_object,
    text_field,
)
from evalscribe.model.evidence import Document, Evidence, Role, UnreadableEvidence
from evalscribe.model.run import Eval, Run, RunStatus, Step, StepStatus
from evalscribe.redaction.redact import redact_json, safe_message
from evalscribe.sources import records
from evalscribe.sources.address import Links

# The first pattern that matches is used, so the special cases of `[infrastructure]` come before it.
_MEANINGS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), meaning)
    for pattern, meaning in (
        (
            r"\[infrastructure\] \[preflight\]",
            "stopped before the first eval, because a test request to the provider failed",
        ),
        (
            r"\[infrastructure\] \[zero_tokens\]",
            "all evals ran, but one of them used no tokens, so the runner discards the whole result",
        ),
        (
            r"\[infrastructure\] \[(?:install|deploy|tsc|eslint|tests|filesystem)\]",
            "stopped in the middle by an outage in one step, so later evals never ran",
        ),
        (
            r"\[infrastructure\] Convex backend health check",
            "stopped in the middle, because the local Convex backend no longer answered, so later evals never ran",
        ),
        (r"\[infrastructure\]", "stopped by an outage of the infrastructure, not by the model"),
        (r"\[rate_limit\]", "stopped by the provider's rate limit, so later evals never ran"),
        (
            r"\[answer_validation\]",
            "a check of the reference answers without a model, so its failures are the eval's",
        ),
        (
            r'Run stuck in "pending" state',
            "the runner stopped without a message and the run was closed later",
        ),
        (r"Only \d+/\d+ evals completed", "ended before all its evals had"),
    )
)


def explain_state(reason: str) -> str:
    """Return the runner's reason for the state of a run.

    If the reason matches a known pattern, an explanation precedes it.
    """
    meaning = next((meaning for pattern, meaning in _MEANINGS if pattern.match(reason)), None)
    return f"{meaning}; the runner says: {reason}" if meaning else reason


STEPS = ("filesystem", "install", "deploy", "tsc", "eslint", "tests")
"""The runner's steps in the order in which they run."""
_STOPPING = ("filesystem", "install", "deploy")
"""Steps whose failure ends the eval, so that later steps do not run."""
_MARK = re.compile(r"\[(?:cmd|ok|error|setup)\](?: |$)")
_OK = re.compile(r"\[ok\] (filesystem|install|deploy|tsc|eslint|tests)\s*")
_ERROR = re.compile(
    r"\[error\] (?P<label>filesystem|install|deploy|tsc|eslint|tests|vitest|Installing dependencies \(bun install\)"
    r"|Deploying generated backend on port \d+|Typechecking \(tsc\)|Linting \(eslint\)): (?P<text>.*)"
)
_TESTS_RAN = re.compile(r"\[cmd\] (?!\(answer\)).*\bvitest run\b")
_LABELS = {
    "vitest": "tests",
    "Installing": "install",
    "Deploying": "deploy",
    "Typechecking": "tsc",
    "Linting": "eslint",
}
_SHORT = re.compile(
    r"(?:(?P<step>filesystem|install|deploy|tsc|eslint|tests)|(?P<dev>convex dev)) fail(?: \((?P<rate>\d+%)\))?"
)
_FILESYSTEM = re.compile(
    r"\[infrastructure\] empty provider response|empty parsed model output\b|Error: Invalid filesystem output\b"
)
_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")


def step_of(reason: str | None) -> str | None:
    """Return the step that an eval's failure reason names; None if the reason names no step.

    The reason `convex dev fail` refers to the step `deploy`.
    """
    if not reason:
        return None
    if match := _SHORT.fullmatch(reason.strip()):
        return match["step"] or "deploy"
    return "filesystem" if _FILESYSTEM.match(reason) else None


def is_short(reason: str | None) -> bool:
    """Return True if a failure reason names only the step, and no error."""
    return not reason or _SHORT.fullmatch(reason.strip()) is not None


def strip_colours(text: str) -> str:
    """Remove terminal escape codes from a text.

    The CLI colours type errors with such codes, and the stored errors of steps contain them.
    """
    return _ANSI.sub("", text) if "\x1b" in text else text


def parse_steps(log: str) -> tuple[Step, ...]:
    """Return the outcomes of the steps that the log names, in the runner's order.

    Lines about the reference answer, which are marked `(answer)`, are ignored. If the log reports both a failure and a
    success of a step, the step failed. Steps after a failure that ends the eval are ignored. The last two rules are
    needed because an error text can contain lines that look like the runner's marks.
    """
    lines = log.split("\n")
    failed: dict[str, str] = {}
    passed: set[str] = set()
    for at, line in enumerate(lines):
        if match := _ERROR.fullmatch(line.rstrip("\r")):
            label = match["label"]
            step = _LABELS.get(label.partition(" ")[0], label)
            # The runner writes an error twice: first with a label such as `Typechecking (tsc)`, then with the name of
            # the step.
            if step not in failed:
                failed[step] = _block(match["text"], lines, at)
        elif match := _OK.fullmatch(line):
            passed.add(match[1])
        elif _TESTS_RAN.match(line):
            # Failed tests also have an `[error]` line, which takes precedence over this line.
            passed.add("tests")
    last = next((at for at, name in enumerate(STEPS) if name in failed and name in _STOPPING), len(STEPS))
    return tuple(
        Step(name=name, status="failed" if name in failed else "passed", error=failed.get(name))
        for name in STEPS[: last + 1]
        if name in failed or name in passed
    )


def reconcile_steps(rows: Sequence[Step], log: str | None, reason: str | None) -> tuple[Step, ...]:
    """Deduplicate and order the recorded steps, and fill in missing steps.

    A step that is missing or still `running` is taken from the log. If the eval's failure reason names a step that
    the log does not name, this step counts as failed. If any recorded step has an unknown name, the steps are returned
    unchanged.
    """
    if any(row.name not in STEPS for row in rows):
        return tuple(rows)
    steps_by_name: dict[str, Step] = {}
    # The runner does not wait when it sends rows, so a row can be missing, late, out of order or sent twice.
    for row in rows:
        steps_by_name[row.name] = min(steps_by_name.get(row.name, row), row, key=_rank)
    logged = {step.name: step for step in parse_steps(log or "")}
    reason_step = step_of(reason)
    if reason_step and reason_step not in logged:
        logged[reason_step] = Step(name=reason_step, status="failed")
    for name, step in logged.items():
        if name not in steps_by_name or steps_by_name[name].status == "running":
            steps_by_name[name] = _with_rate(step, reason)
    return tuple(steps_by_name[name] for name in STEPS if name in steps_by_name)


def _rank(row: Step) -> tuple[int, bool]:
    return ("failed", "passed", "skipped", "running").index(row.status), row.error is None


def _with_rate(step: Step, reason: str | None) -> Step:
    """Shorten the error of failed tests to the pass rate in `reason`. The log states the same rate with more digits."""
    match = _SHORT.fullmatch((reason or "").strip())
    if step.name == "tests" and match and match["rate"] and (step.error or "").startswith("Error: Tests failed (ratio"):
        return step.model_copy(update={"error": f"tests failed ({match['rate']})"})
    return step


def _block(first: str, lines: Sequence[str], at: int) -> str:
    """Return the error text that begins in line `at` and ends before the runner's next mark."""
    block = [first]
    # Indices are used because copying the rest of the log for every error would take quadratic time.
    for below in range(at + 1, len(lines)):
        if _MARK.match(lines[below]) or lines[below].startswith("[vitest] "):
            break
        block.append(lines[below].rstrip("\r"))
    return "\n".join(block).rstrip()


BINARY = "<binary file>"
"""Placeholder that a deployment sends in place of a file that is not text."""
LOG = "run.log"
_RUN_STATUS: dict[str, RunStatus] = {
    "completed": "completed",
    "failed": "failed",
    "running": "running",
    # A run stays `pending` until it ends.
    "pending": "running",
}
_STEP_STATUS: dict[str, StepStatus] = {
    "passed": "passed",
    "failed": "failed",
    "running": "running",
    "pending": "running",
    "skipped": "skipped",
}
_NAME_LENGTH = 200
_DELETED = "the model's output is no longer stored, nor is run.log"
_EMPTY = "the stored output is empty: no file of the model, no run.log"
_CHANGED = "the model's original tsconfig files: the runner changed them before it checked types"
_CHANGES = re.compile(r"^\[setup\] (?:dropped|normalized) \S.*tsconfig", re.MULTILINE)
_LOCAL_STATE = "answer/convex_local_"
"""Prefix of the paths of a local backend's database.

The database was stored with three reference answers but is not part of them.
"""
_MOST_NAMED = 5
"""Maximum number of files that are named in one phrase about files that are not text."""


def decode_run(payload: object, links: Links) -> Run:
    """Decode a run and its failed evals. The evals keep the order of the source.

    Raises `DataError` with the name of the invalid key.
    """
    summary = require_object(payload, "the run's summary")
    run = require_object(summary.get("run"), "`run`")
    run_id, experiment = id_field(run, "_id", "`run`"), optional_text_field(run, "experiment") or "default"
    kind, reason = _status(run)
    model = text_field(run, "model", "`run`")
    status = _object(run.get("status"))
    usage = _object(status.get("usage"))
    milliseconds = records.figure(status.get("durationMs"))
    return Run(
        id=run_id,
        provider=_name(_vendor(model) or optional_text_field(run, "provider") or "unknown"),
        model=_name(model),
        experiment=_name(experiment),
        status=_RUN_STATUS.get(kind, "unknown"),
        status_reason=explain_state(safe_message(reason))
        if reason
        else None
        if kind in _RUN_STATUS
        else f"status {_name(kind)}",
        passed=count_field(summary, "passedCount", "the run's summary"),
        failed=count_field(summary, "failedCount", "the run's summary"),
        total=count_field(summary, "totalEvals", "the run's summary"),
        failures=_failures(summary, run_id, experiment, links),
        url=links.run(run_id, experiment),
        duration_s=None if milliseconds is None else milliseconds / 1000,
        input_tokens=records.count(usage.get("inputTokens")),
        output_tokens=records.count(usage.get("outputTokens")),
        cost_usd=records.figure(_object(usage.get("raw")).get("cost")),
    )


def _object(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def decode_evidence(payload: object, eval: Eval) -> Evidence | UnreadableEvidence:
    """Decode the evidence of one failed eval. If the payload is invalid, return the reason as `UnreadableEvidence`."""
    try:
        return _evidence(require_object(payload, "the answer"), eval)
    except DataError as error:
        return UnreadableEvidence(eval=eval, reason=str(error))


def refusal(payload: object, eval: Eval) -> UnreadableEvidence | None:
    """Return the reason why an answer contains no evidence for an eval; None if it contains evidence."""
    if not isinstance(payload, dict) or "eval" in payload:
        return None
    reason = payload.get("error")
    return UnreadableEvidence(
        eval=eval, reason=safe_message(reason if isinstance(reason, str) else "the answer has no `eval`")
    )


def _evidence(payload: JsonObject, eval: Eval) -> Evidence | UnreadableEvidence:
    if refused := refusal(payload, eval):
        return refused
    info = require_object(payload["eval"], "`eval`")
    outputs, missing_outputs = _outputs(payload, info, eval)
    sources, missing_sources = _sources(payload, info)
    log = next((document.text for document in outputs if document.role == "log"), None)
    _, recorded = _status(info)
    steps = reconcile_steps(_steps(payload), log, recorded or eval.reason)
    return Evidence(
        eval=_with_step(eval, steps, recorded),
        steps=steps,
        documents=sources + outputs,
        missing=missing_sources + missing_outputs,
    )


def _with_step(eval: Eval, steps: Sequence[Step], recorded: str | None) -> Eval:
    """Add the failed step and its error to an eval if the run's list of failures does not state them."""
    failed = {step.name: step.error for step in steps if step.status == "failed"}
    name = eval.failed_step or step_of(recorded) or next(iter(failed), None)
    reason = eval.reason or recorded
    if name in failed and is_short(reason):
        reason = failed[name] or reason
    return eval.model_copy(update={"failed_step": name, "reason": reason})


def _vendor(model: str) -> str | None:
    """Return the vendor in a model's name, such as `anthropic` in `anthropic/claude-opus-4.6`; None if there is none.

    Reports are filed under the vendor. The recorded provider is not suitable, because it is the host that served the
    model and can differ from run to run: `openrouter`, `google-vertex`, `amazon-bedrock/us-east`.
    """
    vendor, _, name = model.partition("/")
    return vendor if vendor and name.strip("/") else None


def _failures(summary: JsonObject, run_id: str, experiment: str, links: Links) -> tuple[Eval, ...]:
    listed: dict[str, JsonObject] = {}
    for item in require_list(summary.get("failedEvals"), "`failedEvals`"):
        entry = require_object(item, "an entry of `failedEvals`")
        listed.setdefault(id_field(entry, "_id", "an entry of `failedEvals`"), entry)
    names = {eval_id: _category_and_name(entry) for eval_id, entry in listed.items()}
    trials = Counter(_printed(*name) for name in names.values())
    last: Counter[str] = Counter()
    printed_paths: set[str] = set()
    failures = []
    for eval_id, entry in listed.items():
        category, name = names[eval_id]
        printed = _printed(category, name)
        step, reason = _failed_step(entry)
        eval = Eval(
            id=eval_id,
            category=category,
            name=name,
            trial=last[printed] + 1,
            trials=trials[printed],
            failed_step=step,
            reason=reason,
            url=links.eval(run_id, experiment, category, eval_id),
        )
        failures.append(_with_free_path(eval, printed_paths))
        last[printed] = failures[-1].trial
    return tuple(failures)


def _failed_step(entry: JsonObject) -> tuple[str | None, str | None]:
    """Return the step that failed first, and the reason for the failure.

    The eval's own failure reason names this step. `failedStep` can name a different step, because it is the failed step
    that was recorded first. `failedStep` is missing if the record of that step was lost.
    """
    row = require_object(entry.get("failedStep") or {}, "`failedStep`")
    name, recorded = _optional_name(row, "name"), optional_text_field(entry, "failureReason")
    reason_step = step_of(recorded)
    if reason_step and reason_step != name:
        return reason_step, recorded
    reason = optional_text_field(row, "failureReason") or recorded
    return name, strip_colours(reason) if reason else None


def _with_free_path(eval: Eval, printed_paths: set[str]) -> Eval:
    """Return the eval, with its trial number increased until its printed path is not in `printed_paths`.

    The printed path is then added to `printed_paths`.
    """
    while (printed := prose.path(eval.path)) in printed_paths:
        eval = eval.model_copy(update={"trial": eval.trial + 1, "trials": max(2, eval.trials)})
    printed_paths.add(printed)
    return eval


def _printed(category: str, name: str) -> str:
    """Return an eval's path, without a trial number, as reports print it.

    If several evals have the same printed path, they become trials of one eval, so that every full path is unique.
    """
    return prose.path(f"{category}/{name}")


def _category_and_name(entry: JsonObject) -> tuple[str, str]:
    category, name = optional_text_field(entry, "category"), optional_text_field(entry, "name")
    if name is None:
        before, _, name = text_field(entry, "evalPath", "an entry of `failedEvals`").rpartition("/")
        category = category or before
    return _name(category or ""), _name(name)


def _status(holder: JsonObject) -> tuple[str, str | None]:
    status = require_object(holder.get("status") or {}, "`status`")
    return optional_text_field(status, "kind") or "unknown", optional_text_field(status, "failureReason")


def _steps(payload: JsonObject) -> tuple[Step, ...]:
    steps = []
    for item in require_list(payload.get("steps") or [], "`steps`"):
        entry = require_object(item, "a step")
        kind, reason = _status(entry)
        name = _name(text_field(entry, "name", "a step"))
        error = strip_colours(reason) if reason else None
        # An unknown status is not a verdict on the step.
        steps.append(Step(name=name, status=_STEP_STATUS.get(kind, "skipped"), error=error))
    return tuple(steps)


def _outputs(payload: JsonObject, info: JsonObject, eval: Eval) -> tuple[tuple[Document, ...], tuple[str, ...]]:
    if payload.get("outputFiles") is None:
        # The id of the output stays in the status when the output is deleted.
        stored = optional_text_field(require_object(info.get("status") or {}, "`status`"), "outputStorageId")
        return (), (_DELETED if stored else "output files were never stored",)
    files, missing = _texts(payload, "outputFiles", "output")
    documents = [_document("output", path, content) for path, content in files.items() if path != LOG]
    if LOG in files:
        path = optional_text_field(info, "evalPath") or f"{eval.category}/{eval.name}"
        before, log = _split_log(files[LOG], path)
        documents += [_document("output", LOG, before)] if before.strip() else []
        documents += [_document("log", LOG, log)] if log else []
        missing += () if log else ("the runner wrote nothing to run.log",)
        missing += (_CHANGED,) if _CHANGES.search(log) else ()
    else:
        missing += ("run.log was not stored" if payload["outputFiles"] else _EMPTY,)
    return tuple(documents), missing


def _split_log(content: str, eval_path: str) -> tuple[str, str]:
    """Split run.log at the last header of the runner.

    Return the text before the header, and the header with the text after it. The model might have written its own
    `run.log`, and the runner then appends to this file. If there is no header, the whole file is returned as the text
    before the header, because nothing shows which part the runner wrote.
    """
    lines = content.split("\n")
    header = f"=== Eval: {eval_path} ==="
    starts = [n for n, line in enumerate(lines) if line.rstrip() == header]
    first = starts[-1] if starts else len(lines)
    return "\n".join(lines[:first]), "\n".join(lines[first:])


def _sources(payload: JsonObject, info: JsonObject) -> tuple[tuple[Document, ...], tuple[str, ...]]:
    task = optional_text_field(info, "task")
    files: dict[str, str] = {}
    missing: tuple[str, ...] = ("reference answer and grader are not stored",)
    if payload.get("evalSourceFiles") is not None:
        files, missing = _texts(payload, "evalSourceFiles", "source")
    documents = [_source(path, content) for path, content in files.items()]
    # The task is also a source file of the eval. It becomes two documents only if the texts differ.
    if task and files.get("TASK.txt", "").strip() != task.strip():
        documents.insert(0, _document("task", "TASK", task))
    if not any(document.role == "task" for document in documents):
        missing += ("the task's text is not stored",)
    order: tuple[Role, ...] = ("task", "known_gaps", "expected", "grader")
    return tuple(sorted(documents, key=lambda document: (order.index(document.role), document.path))), missing


def _source(path: str, content: str) -> Document:
    if path.startswith("answer/"):
        return _document("expected", path.removeprefix("answer/"), content)
    roles: dict[str, Role] = {"TASK.txt": "task", "GAPS.txt": "known_gaps"}
    return _document(roles.get(path, "grader"), path, content)


def _texts(payload: JsonObject, key: str, kind: str) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the text files under `key`, sorted by path, and phrases about the files that are not text."""
    # A snapshot and a deployment can list the files in different orders, but must produce equal evidence.
    files = dict(sorted(require_object(payload[key], f"`{key}`").items()))
    texts = {path: content for path, content in files.items() if isinstance(content, str) and content != BINARY}
    binary = [path for path, content in files.items() if content == BINARY and not path.startswith(_LOCAL_STATE)]
    not_text = [path for path, content in files.items() if not isinstance(content, str)]
    missing = (
        *([f"{_counted(binary, kind)} not stored as text: {_names(binary)}"] if binary else []),
        *([f"{_counted(not_text, kind)} not text: {_names(not_text)}"] if not_text else []),
    )
    return texts, missing


def _counted(paths: Sequence[str], kind: str) -> str:
    return f"1 {kind} file is" if len(paths) == 1 else f"{len(paths)} {kind} files are"


def _names(paths: Iterable[str]) -> str:
    return prose.join_first([f"`{_name(path)}`" for path in paths], _MOST_NAMED)


def _document(role: Role, path: str, content: str) -> Document:
    return Document(role=role, path=path, text=content)


def _optional_name(holder: JsonObject, key: str) -> str | None:
    text = optional_text_field(holder, key)
    return _name(text) if text else None


def _name(name: str) -> str:
    """Return a name on one line, cut to a maximum length and without control characters.

    A line break in a name would change the structure of a report.
    """
    return prose.cut(prose.printable(name), _NAME_LENGTH)


class EvalPayloadError(Exception):
    """Raised if the payload of one eval is not available, for a reason that does not affect other evals."""


class PayloadReader(Protocol):
    """Reads raw answers in the format that the functions of convex-evals return."""

    async def summary(self) -> object:
        """Return the raw answer with the run and its failed evals. Raises `EvalscribeError`."""

    async def debug(self, eval_id: str) -> object:
        """Return the raw answer with the details of one eval.

        Raises `EvalPayloadError`, or `EvalscribeError` if the problem affects all evals.
        """

    async def close(self) -> None: ...


class PayloadSource:
    """Reads, redacts and decodes the payloads of a run.

    `summary` and `payload` return the payloads redacted but not decoded. Snapshots store the payloads in this form.
    """

    def __init__(self, payloads: PayloadReader, links: Links, origin: str) -> None:
        """Store the arguments. `origin` is the name that error messages use for the summary."""
        self._payloads = payloads
        self._links = links
        self._origin = origin

    async def run(self) -> Run:
        summary = await self.summary()
        try:
            return decode_run(summary, self._links)
        except DataError as error:
            raise DataError(f"{self._origin}: {error}") from None

    async def evidence(self, eval: Eval) -> Evidence | UnreadableEvidence:
        payload = await self.payload(eval)
        return payload if isinstance(payload, UnreadableEvidence) else decode_evidence(payload, eval)

    async def summary(self) -> object:
        """Return the redacted answer that `run` decodes into a run."""
        # Redacting a large answer in the event loop would delay the other calls.
        return await asyncio.to_thread(_safe, await self._payloads.summary())

    async def payload(self, eval: Eval) -> object | UnreadableEvidence:
        """Return the redacted answer that `evidence` decodes into evidence."""
        try:
            payload = await asyncio.to_thread(_safe, await self._payloads.debug(eval.id))
        except (EvalPayloadError, DataError) as failure:
            return UnreadableEvidence(eval=eval, reason=str(failure))
        return refusal(payload, eval) or payload

    async def close(self) -> None:
        await self._payloads.close()


def _safe(payload: object) -> object:
    return redact_json(clean_json(payload))
