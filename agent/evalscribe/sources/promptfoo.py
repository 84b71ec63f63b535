"""Read results of promptfoo from its JSON files (versions 1 to 3), JSON lines, CSV exports and SQLite database."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import NamedTuple

from evalscribe.errors import DataError
from evalscribe.ids import content_id
from evalscribe.model.evidence import Document
from evalscribe.model.run import EvalStatus, Step
from evalscribe.sources.address import RunOverrides
from evalscribe.sources.files import FileReader
from evalscribe.sources.items import csv_rows
from evalscribe.sources.recognition import FileStart, Format, has
from evalscribe.sources.records import (
    MAX_HELD_NAME,
    MAX_RUNS,
    EvalReader,
    HashTable,
    SourceEval,
    SourceRun,
    as_text,
    dicts,
    distinct_names,
    figure,
    first_lines,
    object_of,
    safe_name,
    score_number,
    scores_log,
    text_of,
)
from evalscribe.sources.sqlite import SqliteFile
from evalscribe.sources.streams import JsonStream, decode_json, json_lines

NAME = "promptfoo"
MAX_NAME = 80
"""Maximum number of characters in an eval's name that is derived from the variables of its test."""
MAX_LABEL = 40
ERROR = 2
"""Value of `failureReason` that means that the provider failed. The value 1 means that an assertion failed."""
_APIS = frozenset(("chat", "messages", "completion", "completions", "responses", "realtime", "text-generation"))
"""Names that can stand in the middle of a provider id, such as `chat` in `openai:chat:gpt-4o`."""
_CODE = frozenset(("exec", "file", "golang", "http", "https", "package", "python", "ruby", "webhook", "ws", "wss"))
"""Beginnings of provider ids that refer to the user's own code, such as `python` in `python:agent.py`."""
_RAISED = re.compile(
    r"(?:Custom function threw error|(?:Python|Ruby) (?:code execution|assertion) failed|Could not extract JSON from)\b"
)
"""Matches the beginning of a reason that says that an assertion's own code or model failed."""
_REFERENCES = frozenset(
    ("equals", "similar", "levenshtein", "rouge-n", "bleu", "gleu", "meteor", "factuality", "model-graded-factuality")
)
"""Types of assertions whose value is a reference answer."""
_USED = frozenset(("cost", "error", "failureReason", "gradingResult", "metadata", "namedScores", "prompt", "promptIdx"))
_USED |= {"provider", "response", "score", "success", "testCase", "tokenUsage", "vars"}
"""Fields of a row that are read. All other fields become metadata."""
_SEVERAL = 1
_UNREAD = frozenset(("version", "shareableUrl", "vars", "runtimeOptions", "table"))
"""Fields of a file that are not read, because they contain settings or repeat the content of the rows."""
_FILE_FIELDS = frozenset(("evalId", "timestamp", "prompts", "stats", "metadata"))
_ROW = {
    "id": "id",
    "prompt_idx": "promptIdx",
    "test_idx": "testIdx",
    "test_case": "testCase",
    "prompt": "prompt",
    "prompt_id": "promptId",
    "provider": "provider",
    "latency_ms": "latencyMs",
    "cost": "cost",
    "response": "response",
    "error": "error",
    "failure_reason": "failureReason",
    "success": "success",
    "score": "score",
    "grading_result": "gradingResult",
    "named_scores": "namedScores",
    "metadata": "metadata",
}
"""Columns of the database table `eval_results`, with the names that the same fields have in files."""
_ORDER = frozenset(("eval_id", "test_idx", "prompt_idx", "id"))
"""Columns by which rows are selected and sorted.

They must be ordinary columns, because a generated column can take arbitrarily long to compute.
"""
_JSON_COLUMNS = frozenset(("test_case", "prompt", "provider", "response", "grading_result", "named_scores", "metadata"))
_CSV_STATUS = ["Status", "Score", "Named Scores"]
"""Columns that follow each output in a CSV export.

In newer versions, a column with the reasoning precedes these columns. Columns with metrics follow after them.
"""
_CSV_END = ["Grader Reason", "Comment"]
MAX_OUTPUTS = 200
"""Maximum number of outputs in one line of a CSV export.

Each output becomes a row that repeats the variables of the test.
"""
MAX_HEADER_CHARACTERS = 200_000
"""Maximum number of characters in the header of a CSV export. Every row repeats the header's names."""
_SEPARATOR = "\n---\n"
"""Separator between error and output in CSV files that were exported from promptfoo's web page."""
_decode = partial(bytes.decode, errors="replace")


class Column(NamedTuple):
    """A combination of provider and prompt.

    Each combination is a column in promptfoo's table, and becomes a run.
    """

    provider: str
    label: str
    prompt: str


class Promptfoo(EvalReader):
    """Reads a promptfoo file or database.

    A separate pass comes first, because data that every row needs can come after the rows.
    """

    format = NAME

    def __init__(self, path: Path, overrides: RunOverrides) -> None:
        super().__init__(path, overrides)
        self._about: dict[str, dict[str, object]] = {}
        """Data about each evaluation, by its id. The id is empty for a file with only one evaluation."""
        self._columns: dict[tuple[str, str], Column] = {}
        self._prompts: dict[tuple[str, str], dict[str, int]] = {}
        """Numbers of the prompts, for each combination of evaluation and provider.

        The numbers start at 1, in the order in which the prompts first appear.
        """
        self._labels: dict[tuple[str, Column], set[str]] = {}
        """All labels that occur with a combination of evaluation, provider and prompt.

        In the key, the column's field `label` is empty.
        """
        self._tests: HashTable | None = None
        """Maps each possible name of a test to the test.

        The key is a hash of the evaluation and the name. The value is a hash of the test, or `_SEVERAL` if several
        tests can have this name.
        """

    def evals(self) -> Iterator[SourceEval]:
        if self._tests is None:
            self._tests = HashTable()
            with suppress(DataError):
                for evaluation, row, _ in self._rows():
                    self._add_column(evaluation, row)
                    digest, names = _candidates(row)
                    # The last name contains the digest, so no other test can have it.
                    for name in names[:-1]:
                        key = hash((evaluation, name))
                        if self._tests.setdefault(key, hash(digest)) != hash(digest):
                            self._tests[key] = _SEVERAL
        for evaluation, row, place in self._rows():
            yield self._eval(evaluation, row, place)

    def _add_column(self, evaluation: str, row: Mapping[str, object]) -> None:
        key = (evaluation, _column_key(row))
        if key in self._columns or len(self._columns) >= MAX_RUNS:
            return
        column = self._columns[key] = _column(row)
        prompts = self._prompts.setdefault((evaluation, column.provider), {})
        prompts.setdefault(column.prompt, len(prompts) + 1)
        self._labels.setdefault((evaluation, column._replace(label="")), set()).add(column.label)

    def _rows(self) -> Iterator[tuple[str, Mapping[str, object], str]]:
        start = FileStart(self._path)
        if start.is_sqlite:
            yield from self._database_rows()
        elif start.line is not None and _is_row(start.line):
            with self._open(self._path) as reading:
                for number, line, *_ in json_lines(reading):
                    yield from self._row(line, f"line {number}")
        elif start.character == "{":
            yield from self._file_rows(self._about.setdefault("", {}))
        else:
            yield from self._csv_rows()

    def _row(self, value: object, place: str) -> Iterator[tuple[str, Mapping[str, object], str]]:
        if isinstance(value, dict):
            yield "", value, place
        else:
            self._omit("a result that is not an object", place, lost=True)

    def _file_rows(self, about: dict[str, object]) -> Iterator[tuple[str, Mapping[str, object], str]]:
        """Yield the rows of a file.

        Rows are in `results.results`, or in `results` if the file contains only the summary. Other fields of the file
        are added to `about`.
        """
        with self._open(self._path) as reading:
            text, number = JsonStream(reading, str(self._path)), 0
            for name, value in text.members(("results",), inside=("results",), unread=_UNREAD):
                if name == "results":
                    yield from self._row(value, f"results[{number}]")
                    number += 1
                elif name == "config":
                    about[name] = text_of(object_of(value).get("description"))
                elif name in _FILE_FIELDS:
                    about[name] = value
                else:
                    self._omit(f"the file's field `{name}`")
            text.end()

    def _csv_rows(self) -> Iterator[tuple[str, Mapping[str, object], str]]:
        """Yield a row for each output in a CSV export. Each line of the export has all outputs of one test."""

        def refuse(number: int, problem: str) -> None:
            self._omit(f"a row that cannot be read: {problem}", f"line {number}", lost=True)

        with self._open(self._path) as reading:
            lines = csv_rows(reading, ",", f"{self._path}:{{}}".format, refuse, _decode)
            _, names = next(lines)
            outputs = _csv_outputs(names)
            for number, cells in lines:
                if len(cells) != len(names):
                    refuse(number, f"{len(cells)} cells in place of {len(names)}")
                    continue
                for n, columns in enumerate(outputs[:MAX_OUTPUTS]):
                    # In a filtered export, outputs can be empty.
                    if any(cells[at] for at in columns):
                        yield "", _csv_row(names, cells, outputs, n), f"line {number}"
                if omitted := len(outputs[MAX_OUTPUTS:]):
                    self._omit(f"an output after the first {MAX_OUTPUTS}", f"line {number}", omitted, lost=True)

    def _database_rows(self) -> Iterator[tuple[str, Mapping[str, object], str]]:
        with closing(SqliteFile(self._path)) as database:
            available = database.columns("eval_results")
            columns = [name for name in _ROW if name in available]
            stored = [name for name in ("results", "prompts", "config") if name in database.columns("evals")]
            query = f"SELECT id, created_at, {', '.join(stored)} FROM evals"  # noqa: S608 - our own names
            for number, (id, created, *texts) in enumerate(database.rows(f"{query} ORDER BY created_at, id")):
                evaluation = str(id or number)
                fields = dict(zip(stored, map(_decoded, texts), strict=True))
                summary = object_of(fields.get("results"))
                # All rows of the previous evaluation have been read. It is replaced, so that only one is in memory.
                self._about = {
                    evaluation: {
                        "evalId": id,
                        "timestamp": _time(created) or summary.get("timestamp"),
                        "prompts": fields.get("prompts") or summary.get("prompts"),
                        "stats": {"durationMs": summary.get("durationMs")},
                        "config": text_of(object_of(fields.get("config")).get("description")),
                    }
                }
                # Versions before 0.97 stored the rows here.
                for n, row in enumerate(dicts(summary.get("results"))):
                    yield evaluation, row, f"{id}, results[{n}]"
                if columns and available >= _ORDER:
                    query = f"SELECT {', '.join(columns)} FROM eval_results WHERE eval_id = ?"  # noqa: S608 - our own names
                    for values in database.rows(f"{query} ORDER BY test_idx, prompt_idx, id", id):
                        row = {
                            _ROW[name]: _decoded(value) if name in _JSON_COLUMNS else value
                            for name, value in zip(columns, values, strict=True)
                        }
                        # SQLite has no booleans.
                        if row.get("success") in (0, 1):
                            row["success"] = bool(row["success"])
                        yield evaluation, row, f"{id}, {row.get('id')}"

    def _eval(self, evaluation: str, row: Mapping[str, object], place: str) -> SourceEval:
        test, graded = object_of(row.get("testCase")), object_of(row.get("gradingResult"))
        response = object_of(row.get("response"))
        checks = _checks(graded)
        status, reason = _status(row, checks)
        steps, scores = _steps(checks)
        if status == "failed" and not any(step.status == "failed" for step in steps):
            lowest = min(checks, key=lambda check: check.score or 0, default=None)
            lowest_check = f"; lowest: `{lowest.name}`, {lowest.reason}" if lowest and lowest.reason else ""
            steps.append(
                Step(name="threshold", status="failed", error=f"{reason or 'below the threshold'}{lowest_check}")
            )
        finish = text_of(response.get("finishReason"))
        if status == "failed" and finish in ("length", "max_tokens"):
            steps.append(Step(name="limit", status="failed", error=f"the token limit cut the answer off ({finish})"))
        score = figure(row.get("score"))
        if score is not None and status != "error":
            scores = {"score": score, **(scores or _named_scores(row))}
        usage = object_of(row.get("tokenUsage")) or object_of(response.get("tokenUsage"))
        if not usage and row.get("failureReason") == ERROR:
            # For an error, files state 0 tokens, and databases state none. Both must lead to the same eval.
            usage = {"prompt": 0, "completion": 0}
        metadata = object_of(row.get("metadata")) or object_of(test.get("metadata"))
        error = as_text(row.get("error")) or as_text(response.get("error"))
        return SourceEval(
            run=self._run(evaluation, row),
            name=self._name(evaluation, row),
            category=text_of(metadata.get("pluginId")),
            status=status,
            reason=reason,
            place=place,
            steps=steps,
            documents=(
                *_documents(row, test),
                *(() if status == "error" else (scores_log(steps, scores),)),
                Document(role="log", path="error.log", text=error if status == "error" else ""),
            ),
            conversations=((None, _messages(row, response)),),
            scores=scores,
            metadata={
                **{name: value for name, value in row.items() if name not in _USED},
                "metadata": {name: value for name, value in metadata.items() if name != "_promptfooFileMetadata"},
                "vars": _vars(row),
                "provider": self._column(evaluation, row).label,
                "response": {
                    name: value
                    for name, value in response.items()
                    if name not in ("output", "raw", "error", "tokenUsage", "cost") and value not in (None, {}, [])
                },
            },
            missing=[
                f"the grader `{check.name}` raised an error" for check in checks if check.raised and status == "failed"
            ],
            input_tokens=usage.get("prompt"),
            output_tokens=usage.get("completion"),
            cost_usd=row.get("cost") if row.get("cost") is not None else response.get("cost"),
        )

    def _name(self, evaluation: str, row: Mapping[str, object]) -> str:
        """Return the shortest name of a row's test that no other test of the evaluation can have."""
        digest, names = _candidates(row)
        tests = self._tests or HashTable()
        return next((name for name in names if tests[hash((evaluation, name))] == hash(digest)), names[-1])

    def _column(self, evaluation: str, row: Mapping[str, object]) -> Column:
        return self._columns.get((evaluation, _column_key(row))) or _column(row)

    def _run(self, evaluation: str, row: Mapping[str, object]) -> SourceRun:
        about, key = self._about.get(evaluation, {}), _column_key(row)
        column = self._column(evaluation, row)
        provider, model = _provider_and_model(column)
        id = text_of(about.get("evalId"))
        begun = text_of(about.get("timestamp")) or text_of(object_of(about.get("metadata")).get("evaluationCreatedAt"))
        metrics = self._metrics(about, row)
        usage = object_of(metrics.get("tokenUsage"))
        return SourceRun(
            key=f"{evaluation}\0{key}",
            id=content_id([id, key]).removeprefix("sha256:")[:22] if id else None,
            provider=provider,
            model=model,
            experiment=self._experiment(evaluation, column),
            started_at=begun or None,
            ended_at=_later(begun, object_of(about.get("stats")).get("durationMs")),
            input_tokens=usage.get("prompt"),
            output_tokens=usage.get("completion"),
            cost_usd=metrics.get("cost"),
        )

    def _metrics(self, about: Mapping[str, object], row: Mapping[str, object]) -> dict[str, object]:
        """Return the metrics that the source states for the combination of prompt and provider of a row."""
        prompts, at = about.get("prompts"), row.get("promptIdx")
        if isinstance(prompts, list) and isinstance(at, int) and 0 <= at < len(prompts):
            return object_of(object_of(prompts[at]).get("metrics"))
        return {}

    def _experiment(self, evaluation: str, column: Column) -> str:
        """Return the description of the evaluation as the experiment's name.

        The prompt is added if there are several prompts for the provider. The provider's label is added if several
        labels occur.
        """
        prompts = self._prompts.get((evaluation, column.provider), {})
        labels = self._labels.get((evaluation, column._replace(label="")), ())
        parts = [text_of(self._about.get(evaluation, {}).get("config")) or "default"]
        if len(prompts) > 1:
            short = len(column.prompt) <= MAX_LABEL and column.prompt
            parts.append(column.prompt if short else f"prompt {prompts.get(column.prompt, len(prompts) + 1)}")
        if len(labels) > 1:
            parts.append(column.label)
        return ", ".join(parts)


class _Check(NamedTuple):
    """An assertion, with its result."""

    name: str
    passed: bool
    reason: str
    score: float | None
    raised: bool
    """True if the assertion's own code or model failed."""
    counts: bool
    """True if the assertion can make the test fail.

    Members of an assertion set that passed as a whole cannot make the test fail.
    """


def _checks(graded: Mapping[str, object]) -> list[_Check]:
    """Return the assertions of a test. Assertions that could have decided the test come first.

    The result of an assertion set contains the results of its members. In newer versions, the members' results are
    repeated after the set and are counted only once.
    """
    results: list[tuple[dict[str, object], bool]] = []
    # Digests are counted, because comparing thousands of assertions with all members of a set takes quadratic time.
    repeated: Counter[str] = Counter()
    for result in dicts(graded.get("componentResults")):
        members = dicts(result.get("componentResults"))
        if members:
            results += [(member, result.get("pass") is not True) for member in members]
            repeated.update(map(content_id, members))
        elif repeated and repeated[key := content_id(result)] > 0:
            repeated[key] -= 1
        else:
            results.append((result, True))
    names = distinct_names(_check_name(result) for result, _ in results)
    checks = [
        _Check(
            name=name,
            passed=result.get("pass") is True,
            reason=text_of(result.get("reason")).strip(),
            score=figure(result.get("score")),
            raised=result.get("pass") is not True and _raised(result),
            counts=counts,
        )
        for name, (result, counts) in zip(names, results, strict=True)
    ]
    return sorted(checks, key=lambda check: not check.counts)


def _raised(result: Mapping[str, object]) -> bool:
    marked = object_of(result.get("metadata")).get("graderError") is True
    return marked or _RAISED.match(text_of(result.get("reason"))) is not None


def _check_name(result: Mapping[str, object]) -> str:
    assertion = object_of(result.get("assertion"))
    return text_of(assertion.get("metric")) or text_of(assertion.get("type")) or "assertion"


def _steps(checks: Sequence[_Check]) -> tuple[list[Step], dict[str, float]]:
    steps = [
        Step(name=check.name, status="passed")
        if check.passed
        # A grader that raised an error has not judged the answer.
        else Step(name=check.name, status="skipped" if check.raised else "failed", error=check.reason or None)
        for check in checks
    ]
    return steps, {check.name: check.score for check in checks if check.score is not None and not check.raised}


def _status(row: Mapping[str, object], checks: Sequence[_Check]) -> tuple[EvalStatus, str | None]:
    success, code = row.get("success"), row.get("failureReason")
    graded = object_of(row.get("gradingResult"))
    message = as_text(row.get("error")) or as_text(object_of(row.get("response")).get("error"))
    # If an assertion failed (code 1), `error` is set too and repeats the reason of the assertion. Without a code, a
    # message without a grading means that the provider failed.
    if code == ERROR or (code != 1 and success is not True and not graded and message):
        return "error", first_lines(message) or "the provider failed and does not say why"
    if success is True:
        return "passed", None
    if success is not False:
        return "incomplete", "the result has no `success`"
    failed = [check for check in checks if not check.passed and check.counts]
    if failed and all(check.raised for check in failed):
        return "error", f"the grader `{failed[0].name}` raised: {first_lines(failed[0].reason)}"
    if failed:
        return "failed", first_lines(next(check.reason for check in failed if not check.raised)) or None
    return "failed", first_lines(text_of(graded.get("reason")) or message) or None


def _documents(row: Mapping[str, object], test: Mapping[str, object]) -> Iterator[Document]:
    yield Document(role="task", path="prompt", text=_task(row))
    assertions = list(_flat(test.get("assert")))
    references = dict.fromkeys(
        (text_of(assertion.get("type")), value)
        for assertion in assertions
        if text_of(assertion.get("type")) in _REFERENCES and (value := as_text(assertion.get("value")))
    )
    for type, value in references:
        yield Document(role="expected", path="expected" if len(references) == 1 else type, text=value)
    yield Document(role="grader", path="assertions", text="\n".join(map(_assertion, assertions)))


def _flat(assertions: object) -> Iterator[dict[str, object]]:
    for assertion in dicts(assertions):
        members = dicts(assertion.get("assert"))
        yield from members or [assertion]


def _assertion(assertion: Mapping[str, object]) -> str:
    """Return an assertion as text, such as `contains (correct, weight 3): Nairobi`."""
    details_parts = [text_of(assertion.get("metric"))]
    details_parts += [f"{name} {value:g}" for name in ("threshold", "weight") if (value := figure(assertion.get(name)))]
    details = ", ".join(filter(None, details_parts))
    head = f"{text_of(assertion.get('type')) or 'assertion'}{f' ({details})' if details else ''}"
    text = as_text(assertion.get("value")).strip()
    if "\n" in text:
        return f"{head}:\n" + "\n".join(f"  {line}" for line in text.split("\n"))
    return f"{head}: {text}" if text else head


def _task(row: Mapping[str, object]) -> str:
    messages = _chat(_prompt(row))
    if messages is None:
        return _prompt(row)
    return "\n\n".join(as_text(message.get("content")) for message in messages if message.get("role") != "assistant")


def _prompt(row: Mapping[str, object]) -> str:
    prompt = row.get("prompt")
    return as_text(object_of(prompt).get("raw")) or as_text(object_of(prompt).get("display")) or text_of(prompt)


def _chat(prompt: str) -> list[dict[str, object]] | None:
    """Return the messages of a prompt that is a chat in JSON form; None for any other prompt."""
    if prompt.lstrip()[:1] != "[":
        return None
    with suppress(DataError):
        messages = dicts(decode_json(prompt))
        return messages if messages and all(isinstance(message.get("role"), str) for message in messages) else None
    return None


def _messages(row: Mapping[str, object], response: Mapping[str, object]) -> list[object]:
    """Return the messages of a row.

    The messages of an attack with several turns are in the metadata of the row or of the response.
    """
    metadata = {**object_of(row.get("metadata")), **object_of(response.get("metadata"))}
    history = [turn for turn in dicts(metadata.get("redteamHistory")) if turn.get("prompt") and turn.get("output")]
    if history:
        return [
            {"role": role, "content": as_text(turn[name])}
            for turn in history
            for role, name in (("user", "prompt"), ("assistant", "output"))
        ]
    prompt = _prompt(row)
    messages: list[object] = list(_chat(prompt) or ([{"role": "user", "content": prompt}] if prompt else []))
    output = response.get("output")
    if output is not None and row.get("failureReason") != ERROR:
        calls = [call for call in dicts(output) if "function" in call]
        only_calls = isinstance(output, list) and calls and len(calls) == len(output)
        answer = {"content": "", "tool_calls": calls} if only_calls else {"content": as_text(output)}
        messages.append({"role": "assistant", **answer})
    return messages


def _named_scores(row: Mapping[str, object]) -> dict[str, float]:
    scores = ((name, score_number(value)) for name, value in object_of(row.get("namedScores")).items())
    return {name: value for name, value in scores if value is not None}


def _csv_outputs(names: Sequence[str]) -> list[range]:
    """Return the range of columns that belongs to each output in a CSV export; empty if the table is not a CSV export.

    `names` is the header of the table.
    """
    column_ranges: list[range] = []
    if sum(map(len, names)) > MAX_HEADER_CHARACTERS:
        return column_ranges
    for at in range(1, len(names)):
        if names[at : at + 3] == _CSV_STATUS:
            end = at + 3
            while end < len(names) and names[end].startswith("Metric: "):
                end += 1
            if names[end : end + 2] == _CSV_END:
                column_ranges.append(range(at - 2 if at > 1 and names[at - 1] == "Reasoning" else at - 1, end + 2))
    return column_ranges


def _csv_row(names: Sequence[str], cells: Sequence[str], outputs: Sequence[range], n: int) -> dict[str, object]:
    """Return one output from a line of a CSV export, in the form that a row has in a JSON file."""
    output, *_ = columns = outputs[n]
    cells_by_name = dict(zip(names[: outputs[0].start], cells, strict=False))
    description = cells_by_name.pop("Description", "")
    output_cells = {names[index]: cells[index] for index in columns[1:]}
    status, reason, text = output_cells["Status"], output_cells["Grader Reason"], cells[output]
    error, separator, output_text = text.partition(_SEPARATOR)
    text = output_text if separator and error == reason else text
    label_parts = re.fullmatch(r"\[(.*?)\] (.*)", names[output], re.DOTALL)
    provider, label = label_parts.groups() if label_parts else ("", names[output])
    prompt = re.sub(r"\{\{ *(\w+) *\}\}", lambda match: cells_by_name.get(match[1], match[0]), label)
    variables = "\n".join(f"{name}: {value}" for name, value in cells_by_name.items())
    check = {"pass": status == "PASS", "reason": reason, "assertion": {"metric": "assertions"}}
    after = range(outputs[-1].stop, len(names))
    return {
        "promptIdx": n,
        "vars": cells_by_name,
        "testCase": {"description": description},
        # A CSV export contains only the label of the prompt. By default, the label is the prompt's template.
        "prompt": {"label": label, "raw": prompt if prompt != label else variables or label},
        "provider": provider,
        "response": {"output": text},
        "success": {"PASS": True, "FAIL": False}.get(status),
        "failureReason": {"PASS": 0, "FAIL": 1, "ERROR": ERROR}.get(status),
        "score": _decoded(output_cells["Score"]),
        "namedScores": _decoded(output_cells["Named Scores"]),
        "gradingResult": {"reason": reason, "componentResults": [] if status == "ERROR" else [check]},
        "error": error or reason if status == "ERROR" else None,
        "metadata": {names[index]: cells[index] for index in after if cells[index]},
        **{name.lower(): output_cells[name] for name in ("Reasoning", "Comment") if output_cells.get(name)},
    }


def _is_row(row: Mapping[str, object]) -> str | None:
    return has(row, "promptIdx", "success", "prompt") or has(row, "gradingResult", "success", "prompt")


def _vars(row: Mapping[str, object]) -> dict[str, object]:
    return object_of(row.get("vars")) or object_of(object_of(row.get("testCase")).get("vars"))


def _candidates(row: Mapping[str, object]) -> tuple[str, list[str]]:
    """Return a digest of a row's test, and the names that the test can have, from the shortest to the longest.

    All repeats of a test have the same digest.
    """
    test, variables = object_of(row.get("testCase")), _vars(row)
    # promptfoo gives each repeat of a test an index of its own, and nothing else marks repeats. They have equal
    # variables and assertions.
    digest = content_id([variables, test.get("assert")]).removeprefix("sha256:")
    values = [f"{name}={as_text(value)}" for name, value in variables.items()]
    values_text = _short(as_text(next(iter(variables.values()))) if len(variables) == 1 else ", ".join(values))
    description = text_of(test.get("description")) or text_of(row.get("description"))
    name = description or values_text or _short(_prompt(row)) or "test"
    return digest, [name, *([f"{name} ({values_text})"] if description and values_text else []), f"{name} {digest[:6]}"]


def _short(text: str) -> str:
    """Return a text on one line.

    A long text is cut, and a digest is appended so that different texts stay distinct.
    """
    line = " ".join(text.split())
    if len(line) <= MAX_NAME:
        return line
    return f"{line[: MAX_NAME - 10].rstrip()}… {content_id(text).removeprefix('sha256:')[:8]}"


def _column_key(row: Mapping[str, object]) -> str:
    # The index counts combinations of prompt and provider, not prompts.
    at = row.get("promptIdx")
    return str(at) if isinstance(at, int) else "\0".join(_column(row))


def _column(row: Mapping[str, object]) -> Column:
    stated_provider, prompt = row.get("provider"), object_of(row.get("prompt"))
    provider = object_of(stated_provider)
    id = text_of(stated_provider) or text_of(provider.get("id"))
    label = text_of(provider.get("label")) or id
    prompt_label = text_of(prompt.get("label")) or text_of(prompt.get("display"))
    # All columns stay in memory, so a long prompt is replaced by its hash.
    return Column(
        _bounded(id), _bounded(label), prompt_label if len(prompt_label) <= MAX_LABEL else content_id(prompt_label)
    )


def _bounded(name: str) -> str:
    return name if len(name) <= MAX_HELD_NAME else safe_name(name)


def _provider_and_model(column: Column) -> tuple[str | None, str | None]:
    """Split a provider id such as `openai:chat:gpt-4o` into provider and model.

    If the provider is the user's own code, the provider's label is used as the model. Without a label, the name of the
    code is used.
    """
    vendor, colon, rest = column.provider.partition(":")
    if vendor in _CODE and colon:
        name = re.split(r"[\\/\s]", column.provider.rstrip("/"))[-1]
        return vendor, (column.label if column.label != column.provider else name) or None
    if not colon or not rest or not re.fullmatch(r"[a-z0-9_-]+", vendor):
        return None, column.provider or None
    api, _, model = rest.partition(":")
    return vendor, model if api in _APIS and model else rest


def _decoded(text: object) -> object:
    """Parse JSON text. Returns None if the value is not a text, or if the text is not valid JSON."""
    with suppress(DataError):
        return decode_json(text) if isinstance(text, str) else None
    return None


def _time(milliseconds: object) -> str | None:
    number = figure(milliseconds)
    with suppress(OverflowError, ValueError, OSError):
        return _iso(datetime.fromtimestamp(number / 1000, UTC)) if number else None
    return None


def _later(begun: str, milliseconds: object) -> str | None:
    number = figure(milliseconds)
    with suppress(OverflowError, ValueError):
        return _iso(datetime.fromisoformat(begun) + timedelta(milliseconds=number)) if begun and number else None
    return None


def _iso(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _recognise(start: FileStart, _: RunOverrides) -> str | None:
    if start.is_sqlite:
        with suppress(DataError), closing(SqliteFile(start.path)) as database:
            if database.columns("evals") >= {"id", "created_at", "config"} and database.columns("eval_results"):
                return "it has the tables `evals` and `eval_results`"
        return None
    if not start.is_zip and start.character not in "{<":
        with FileReader(start.path) as reading, suppress(DataError):
            rows = csv_rows(reading, ",", str, lambda *_: None, _decode)
            return "its header has outputs with `Status`" if _csv_outputs(next(rows, (0, []))[1]) else None
        return None
    if start.line is not None and (feature := _is_row(start.line)):
        return feature
    if start.top.keys() >= {"results", "stats", "timestamp"}:
        return has(start.top, "results", "stats", "timestamp")
    if not start.top.keys() & {"results"} or not start.top.keys() & {"evalId", "config", "shareableUrl"}:
        return None
    return "its `results` have `results`" if _has_summary(start.path) else None


def _has_summary(path: Path) -> bool:
    with FileReader(path) as reading, suppress(DataError):
        text = JsonStream(reading, str(path))
        for name in text.names():
            if name == "results" and text.peek() == "{":
                for inner in text.names():
                    if inner == "results" and text.peek() == "[":
                        return True
                    text.skip()
                return False
            text.skip()
    return False


FORMATS = (
    Format(
        name=NAME,
        title="promptfoo",
        open=Promptfoo,
        recognise=_recognise,
        a_run="a prompt with a provider",
        an_eval="a test; its repeats are trials",
        passed="`success`; in a red-team run this means that the attack failed",
        versions="0.118.0, 0.121.20",
        names=("evalId", "results", "config", "shareableUrl", "metadata"),
        fields={
            "prompt.raw, response.output": "task and transcript; attacks of several turns are in `redteamHistory`",
            "gradingResult.componentResults": "steps, each assertion once; a broken assertion is skipped",
            "failureReason": "2: error; 1: failed, unless every failed assertion broke",
            "testCase.assert": "grader; the value of `equals`, `similar` and the like is the expected answer",
            "testCase.description, vars": "name",
            "score, namedScores": "scores",
            "provider, prompt.label": "provider and model; experiment, if there are several prompts",
            "config.description": "experiment",
            "tokenUsage, cost, results.timestamp": "tokens, cost, dates",
            "metadata.pluginId": "category of red-team runs",
            "metadata, response.metadata": "metadata",
            "CSV: Status, Grader Reason, Named Scores": "status; one step with its reason; scores",
            "CSV: prompt": "task: the prompt's label with the variables filled in, else the variables",
        },
    ),
)
