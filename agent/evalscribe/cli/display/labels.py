"""What people said about findings, at the command line."""

from collections.abc import Iterator

from evalscribe.app.reports.review import Disagreement, Exported, Opinion, Pending, Synced
from evalscribe.cli.display.finish import print_json, say
from evalscribe.judging.calibration_text import NONE, confusion, share, side_by_side, span
from evalscribe.reports.agreement import AgreementStats, ReviewerRow, calibration
from evalscribe.text import pluralise

MOST = 20
"""How many of one kind are told."""
HEADS = ("refs/remotes/", "refs/heads/")


def synced(found: Synced, *, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    say(f"{_held(found)}: {_change(found)}")
    if found.shallow:
        say("The clone is shallow: what older commits said seems to come from its oldest. Run: git fetch --unshallow")
    _some("People disagree", map(_disagreement, found.disagreements))
    _some("Not merged yet, so no labels", map(_pending, found.pending))
    _some("Not read", (f"{one.report}: {one.problem}" for one in found.unread))


def _held(found: Synced) -> str:
    merged = f"merged into {_short(found.ref)}"
    if not found.labels:
        return f"Nobody has corrected or confirmed a finding in the reports {merged}"
    people = pluralise(len(found.reviewers), "reviewer")
    return f"{pluralise(found.labels, 'label')} by {people} from {pluralise(found.reports, 'report')} {merged}"


def _change(found: Synced) -> str:
    if found.unchanged:
        return "unchanged"
    return f"{found.new} new, {found.changed} changed, {found.withdrawn} withdrawn"


def _disagreement(one: Disagreement) -> str:
    more = f" and {pluralise(one.more, 'eval')} of its group" if one.more else ""
    return f"{one.eval}{more} ({one.report}): {', '.join(map(_opinion, one.opinions))}"


def _opinion(one: Opinion) -> str:
    return f"{one.reviewer} says {one.label}{'' if one.in_force else ' (overruled)'}"


def _pending(one: Pending) -> str:
    where = _short(one.branch) if one.branch else "the working tree"
    return f"{pluralise(one.corrections, 'correction')} in {one.report} ({where})"


def _some(title: str, told: Iterator[str]) -> None:
    lines = list(told)
    if lines:
        say(f"{title}:")
    for line in lines[:MOST]:
        say(f"  {line}")
    if len(lines) > MOST:
        say(f"  and {len(lines) - MOST} more; see --json")


def _short(ref: str) -> str:
    return next((ref.removeprefix(head) for head in HEADS if ref.startswith(head)), ref)


def statistics(found: AgreementStats, *, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    covered = found.coverage
    say(f"{pluralise(found.labels, 'label')} in force by {', '.join(found.reviewers)}")
    say(f"Reviewed: {covered.reviewed} of {pluralise(covered.findings, 'failed eval')} in reports of judges")
    columns = {row.judge: calibration(row) for row in found.judges}
    if columns:
        say()
    for line in side_by_side(columns) if columns else ():
        say(line)
    for name, figures in columns.items():
        say(f"\n{name} in columns, people in rows:")
        for line in confusion(figures, ""):
            say(line)
    if found.between:
        say()
    _some("Reviewers of the same failures", map(_between, found.between))


def _between(pair: ReviewerRow) -> str:
    one, other = pair.reviewers
    kappa = f"{share(pair.kappa.value)} [{span(pair.kappa.interval)}]" if pair.kappa else NONE
    return f"{one} and {other} agree on {pair.agreed} of {pair.shared}, Cohen's kappa {kappa}"


def exported(found: Exported) -> None:
    say(f"{pluralise(found.subjects, 'labelled failure')} in {found.path}")
    if found.alike:
        say(f"Left out: {found.alike} that one label answers for together with a failure that is in it")
    if found.contradicted:
        say(f"Left out: {found.contradicted} that two reports of their run label differently")
    if found.elsewhere:
        say(f"Left out: {found.elsewhere} whose run is not in the store; analyze it to have them")
    say(f"Next: evalscribe judge-eval failure {found.path} --judge rules")
