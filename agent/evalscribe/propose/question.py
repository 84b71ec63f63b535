"""What the model is asked: the same instructions always, and the recommendation with its findings as delimited data."""

from collections.abc import Iterable, Sequence

from evalscribe.ids import Frozen, canonical_json, content_id
from evalscribe.judging import prompt_text
from evalscribe.judging.prompt_text import Delimiter, bar_lines, number_lines, one_line, quote_json
from evalscribe.model.evidence import PackedEvidence
from evalscribe.model.finding import Recommendation
from evalscribe.model.report import ReportEntry
from evalscribe.prompts.templates import Prompts
from evalscribe.propose.files import Files
from evalscribe.propose.scope import Scope

FOLDER = "propose"
SHOWN_FILES = 8_000
"""Tokens of the files that are shown at once; the others are read with tools."""
MOST_SHOWN = 40
MOST_NAMED = 100


class Concern(Frozen):
    """One finding that the recommendation is about."""

    entry: ReportEntry
    packed: PackedEvidence | None = None
    """None where its evidence is not in the store, or others were enough."""


def fence_of(recommendation: Recommendation, concerns: Sequence[Concern], scope: Scope, files: Files) -> Delimiter:
    texts = [text for _, text in _shown(scope, files)]
    contents = canonical_json([recommendation, list(concerns), list(scope.files), texts])
    return Delimiter(content_id(contents), (contents, *texts))


def instructions(prompts: Prompts) -> str:
    return prompts.render(f"{FOLDER}/system.md.j2")


def question(
    prompts: Prompts,
    recommendation: Recommendation,
    concerns: Sequence[Concern],
    scope: Scope,
    files: Files,
    fence: Delimiter,
) -> str:
    group = "eval improvement" if recommendation.group == "eval" else "lint or configuration change"
    return prompts.render(
        f"{FOLDER}/recommendation.md.j2",
        tag=fence.tag,
        group=group,
        recommendation=fence.block("the recommendation", one_line(recommendation.text)),
        findings=[fence.block("a finding", _finding(concern.entry)) for concern in concerns],
        excerpts=list(_excerpts(concerns, fence)),
        changeable=fence.block("files that may be changed", _listed(scope.files)) if scope.files else "",
        folders=fence.block("folders for new files", _listed(scope.folders)) if scope.folders else "",
        files=[
            fence.block(f"file {quote_json(path)}", number_lines(1, text.removesuffix("\n")))
            for path, text in _shown(scope, files)
        ],
    )


def _finding(entry: ReportEntry) -> str:
    facts = {
        "Evals": ", ".join(entry.paths[:MOST_NAMED]),
        "Failed step": entry.step or "none: grading never began",
        "Label": f"{entry.classification or 'UNCLASSIFIED'}{f' ({entry.cause_kind})' if entry.cause_kind else ''}",
        "Error": entry.error,
        "Cause": entry.cause or "",
        "Reasoning": entry.reasoning,
        "Reviewers say": " / ".join(entry.reviewer),
    }
    return "\n".join(f"{name}: {one_line(text)}" for name, text in facts.items() if text)


def _excerpts(concerns: Iterable[Concern], fence: Delimiter) -> Iterable[str]:
    for concern in concerns:
        for one in concern.packed.excerpts if concern.packed else ():
            about = f"{one.role} {quote_json(one.path)} of {quote_json(concern.entry.paths[0])}"
            yield fence.block(about, number_lines(one.first, one.text))
        if concern.packed and concern.packed.differences:
            yield fence.block("differences between output and reference", bar_lines(concern.packed.differences))


def _shown(scope: Scope, files: Files) -> list[tuple[str, str]]:
    """The first of the files that may be changed, with their whole text as far as they are short."""
    room = SHOWN_FILES
    found = []
    for path in scope.files[:MOST_SHOWN]:
        text = files.text(path)
        if text is not None and (cost := prompt_text.estimate_tokens(text)) <= room:
            room -= cost
            found.append((path, text))
    return found


def _listed(paths: Sequence[str]) -> str:
    more = [f"and {len(paths) - MOST_NAMED} more; see list_files"] if len(paths) > MOST_NAMED else []
    return "\n".join([*map(quote_json, paths[:MOST_NAMED]), *more])
