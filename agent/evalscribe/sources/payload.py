"""What the two debug functions answer, decoded into a run and evidence. Pure.

A document's role comes from where it stands in the payload: nothing among the output files can become a task, a
reference or a known-gaps note. Input is expected cleaned and redacted (`payload_source`).
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from evalscribe import prose
from evalscribe.errors import DataError
from evalscribe.evidence import Document, Evidence, Role, Unreadable
from evalscribe.run import Eval, Run, RunStatus, Step, StepStatus
from evalscribe.sources.json_value import Members, count, identity, items, members, optional_text, text
from evalscribe.sources.links import Links
from evalscribe.sources.run_log import is_short, reconciled, step_of, without_colours
from evalscribe.sources.run_state import explained
from evalscribe.sources.shown import shown

BINARY = "<binary file>"
"""What the deployment sends in place of a file that is no text."""
LOG = "run.log"
_RUN_STATUS: dict[str, RunStatus] = {
    "completed": "completed",
    "failed": "failed",
    "running": "running",
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
"""A local backend's database beside the reference of three evals; not part of the answer."""
_MOST_NAMED = 5
"""Most files named in one phrase about missing text."""


def decode_run(payload: object, links: Links) -> Run:
    """The run with its failed evals, in the source's order. Raises `DataError` naming the key that is wrong."""
    summary = members(payload, "the run's summary")
    run = members(summary.get("run"), "`run`")
    run_id, experiment = identity(run, "_id", "`run`"), optional_text(run, "experiment") or "default"
    kind, reason = _status(run)
    model = text(run, "model", "`run`")
    return Run(
        id=run_id,
        provider=_name(_vendor(model) or optional_text(run, "provider") or "unknown"),
        model=_name(model),
        experiment=_name(experiment),
        status=_RUN_STATUS.get(kind, "unknown"),
        status_reason=explained(shown(reason)) if reason else None if kind in _RUN_STATUS else f"status {_name(kind)}",
        passed=count(summary, "passedCount", "the run's summary"),
        failed=count(summary, "failedCount", "the run's summary"),
        total=count(summary, "totalEvals", "the run's summary"),
        failures=_failures(summary, run_id, experiment, links),
        url=links.run(run_id, experiment),
    )


def decode_evidence(payload: object, eval: Eval) -> Evidence | Unreadable:
    """The evidence of one failed eval; what is wrong with its payload concerns this eval only."""
    try:
        return _evidence(members(payload, "the answer"), eval)
    except DataError as error:
        return Unreadable(eval=eval, reason=str(error))


def refusal(payload: object, eval: Eval) -> Unreadable | None:
    """Why there is nothing about the eval, where the answer says so in place of it."""
    if not isinstance(payload, dict) or "eval" in payload:
        return None
    reason = payload.get("error")
    return Unreadable(eval=eval, reason=shown(reason if isinstance(reason, str) else "the answer has no `eval`"))


def _evidence(payload: Members, eval: Eval) -> Evidence | Unreadable:
    if refused := refusal(payload, eval):
        return refused
    info = members(payload["eval"], "`eval`")
    outputs, lost = _outputs(payload, info, eval)
    sources, gone = _sources(payload, info)
    log = next((document.text for document in outputs if document.role == "log"), None)
    _, recorded = _status(info)
    steps = reconciled(_steps(payload), log, recorded or eval.reason)
    return Evidence(
        eval=_with_step(eval, steps, recorded), steps=steps, documents=sources + outputs, missing=gone + lost
    )


def _with_step(eval: Eval, steps: Sequence[Step], recorded: str | None) -> Eval:
    """Fill in the failed step and its error if the run's list of failures lacks them."""
    failed = {step.name: step.error for step in steps if step.status == "failed"}
    name = eval.failed_step or step_of(recorded) or next(iter(failed), None)
    reason = eval.reason or recorded
    if name in failed and is_short(reason):
        reason = failed[name] or reason
    return eval.model_copy(update={"failed_step": name, "reason": reason})


def _vendor(model: str) -> str | None:
    """Return the vendor of a model by its slug: `anthropic` for `anthropic/claude-opus-4.6`.

    The recorded provider is the host that served the run and differs from run to run: `openrouter`, `google-vertex`,
    `amazon-bedrock/us-east`. Reports are filed under the vendor.
    """
    vendor, _, name = model.partition("/")
    return vendor if vendor and name.strip("/") else None


def _failures(summary: Members, run_id: str, experiment: str, links: Links) -> tuple[Eval, ...]:
    listed: dict[str, Members] = {}
    for item in items(summary.get("failedEvals"), "`failedEvals`"):
        entry = members(item, "an entry of `failedEvals`")
        listed.setdefault(identity(entry, "_id", "an entry of `failedEvals`"), entry)
    names = {eval_id: _category_and_name(entry) for eval_id, entry in listed.items()}
    trials = Counter(_printed(*name) for name in names.values())
    last: Counter[str] = Counter()
    taken: set[str] = set()
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
        failures.append(_apart(eval, taken))
        last[printed] = failures[-1].trial
    return tuple(failures)


def _failed_step(entry: Members) -> tuple[str | None, str | None]:
    """Return the failed step and why it failed.

    `failedStep` is the first failed row to arrive and is absent if that row was lost; the eval's own reason names the
    step that failed first.
    """
    row = members(entry.get("failedStep") or {}, "`failedStep`")
    name, recorded = _optional_name(row, "name"), optional_text(entry, "failureReason")
    named = step_of(recorded)
    if named and named != name:
        return named, recorded
    reason = optional_text(row, "failureReason") or recorded
    return name, without_colours(reason) if reason else None


def _apart(eval: Eval, taken: set[str]) -> Eval:
    """The eval as the next trial whose printed path no other eval has; the path is added to `taken`."""
    while (printed := prose.path(eval.path)) in taken:
        eval = eval.model_copy(update={"trial": eval.trial + 1, "trials": max(2, eval.trials)})
    taken.add(printed)
    return eval


def _printed(category: str, name: str) -> str:
    """Evals that differ only in what no report prints are trials of one: every path names one eval."""
    return prose.path(f"{category}/{name}")


def _category_and_name(entry: Members) -> tuple[str, str]:
    category, name = optional_text(entry, "category"), optional_text(entry, "name")
    if name is None:
        before, _, name = text(entry, "evalPath", "an entry of `failedEvals`").rpartition("/")
        category = category or before
    return _name(category or ""), _name(name)


def _status(holder: Members) -> tuple[str, str | None]:
    status = members(holder.get("status") or {}, "`status`")
    return optional_text(status, "kind") or "unknown", optional_text(status, "failureReason")


def _steps(payload: Members) -> tuple[Step, ...]:
    steps = []
    for item in items(payload.get("steps") or [], "`steps`"):
        entry = members(item, "a step")
        kind, reason = _status(entry)
        name = _name(text(entry, "name", "a step"))
        error = without_colours(reason) if reason else None
        steps.append(Step(name=name, status=_STEP_STATUS.get(kind, "skipped"), error=error))
    return tuple(steps)


def _outputs(payload: Members, info: Members, eval: Eval) -> tuple[tuple[Document, ...], tuple[str, ...]]:
    if payload.get("outputFiles") is None:
        stored = optional_text(members(info.get("status") or {}, "`status`"), "outputStorageId")
        return (), (_DELETED if stored else "output files were never stored",)
    files, missing = _texts(payload, "outputFiles", "output")
    documents = [_document("output", path, content) for path, content in files.items() if path != LOG]
    if LOG in files:
        path = optional_text(info, "evalPath") or f"{eval.category}/{eval.name}"
        before, log = _split_log(files[LOG], path)
        documents += [_document("output", LOG, before)] if before.strip() else []
        documents += [_document("log", LOG, log)] if log else []
        missing += () if log else ("the runner wrote nothing to run.log",)
        missing += (_CHANGED,) if _CHANGES.search(log) else ()
    else:
        missing += ("run.log was not stored" if payload["outputFiles"] else _EMPTY,)
    return tuple(documents), missing


def _split_log(content: str, eval_path: str) -> tuple[str, str]:
    """What stands in run.log before the runner's last header, and what the runner wrote from there on.

    The model may have put a `run.log` among its files, to which the runner then appended: without a header nothing in
    it is known to be the runner's.
    """
    lines = content.split("\n")
    header = f"=== Eval: {eval_path} ==="
    starts = [n for n, line in enumerate(lines) if line.rstrip() == header]
    first = starts[-1] if starts else len(lines)
    return "\n".join(lines[:first]), "\n".join(lines[first:])


def _sources(payload: Members, info: Members) -> tuple[tuple[Document, ...], tuple[str, ...]]:
    task = optional_text(info, "task")
    files: dict[str, str] = {}
    missing: tuple[str, ...] = ("reference answer and grader are not stored",)
    if payload.get("evalSourceFiles") is not None:
        files, missing = _texts(payload, "evalSourceFiles", "source")
    documents = [_source(path, content) for path, content in files.items()]
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


def _texts(payload: Members, key: str, what: str) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the text files under `key`, sorted by path, and phrases for the files that are not text.

    Sorted, because a deployment sends keys sorted while a snapshot may have another order, and both must be the same
    evidence.
    """
    files = dict(sorted(members(payload[key], f"`{key}`").items()))
    texts = {path: content for path, content in files.items() if isinstance(content, str) and content != BINARY}
    binary = [path for path, content in files.items() if content == BINARY and not path.startswith(_LOCAL_STATE)]
    other = [path for path, content in files.items() if not isinstance(content, str)]
    missing = (
        *([f"{_counted(binary, what)} not stored as text: {_names(binary)}"] if binary else []),
        *([f"{_counted(other, what)} not text: {_names(other)}"] if other else []),
    )
    return texts, missing


def _counted(paths: Sequence[str], what: str) -> str:
    return f"1 {what} file is" if len(paths) == 1 else f"{len(paths)} {what} files are"


def _names(paths: Iterable[str]) -> str:
    return prose.some_of([f"`{_name(path)}`" for path in paths], _MOST_NAMED)


def _document(role: Role, path: str, content: str) -> Document:
    return Document(role=role, path=path, text=content)


def _optional_name(holder: Members, key: str) -> str | None:
    found = optional_text(holder, key)
    return _name(found) if found else None


def _name(name: str) -> str:
    """One line of bounded length without control characters: names are printed where a line break is structure."""
    return prose.cut(prose.printable(name), _NAME_LENGTH)
