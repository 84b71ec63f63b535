"""`experiments runs compare`: text output, JSON output and exit codes."""

import json
from collections.abc import Iterator

import pytest

from evalscribe.model.score import Binding, ScorerSpec
from support.command import InProcessCommand
from support.stored_experiment import BINDINGS, StoredExperiment, make_items

KEYS = [f"q{number:02}" for number in range(20)]


@pytest.fixture
def experiment(inside: InProcessCommand) -> Iterator[StoredExperiment]:
    stored = StoredExperiment(inside.folder / ".evalscribe", make_items(*KEYS))
    yield stored
    stored.close()


def compare(inside: InProcessCommand, *more: str, code: int = 0) -> str:
    return inside.run("experiments", "runs", "compare", "base", "candidate", *more, code=code).out


def test_comparison_shows_verdict_then_rates_scorers_and_changed_items(
    inside: InProcessCommand, experiment: StoredExperiment
) -> None:
    experiment.run("p" * 20, name="base")
    experiment.run("f" * 8 + "p" * 11 + "e", name="candidate", outputs={"q00": "no\nidea"})
    lines = compare(inside).splitlines()
    assert lines[0].startswith("Regressed: the pass rate fell from 100.0 % to 57.9 % (-42.1 points, 95 %: ")
    assert lines[1] == "! Only in the candidate, 1 item gave no answer: q19."
    assert lines[4].split() == ["base", "base", "quality", "20", "0", "0", "0", "0", "100.0", "%", "100.0", "%"]
    assert "19 of 20 items judged in both (95.0 % of the trials)" in lines
    scorers = lines.index("scorers (p corrected for 2)")
    assert lines[scorers + 1] == "  exact_match: 100.0 % to 57.9 %, p 0.016; 8 fell, 0 rose of 19 items"
    assert lines[scorers + 2].startswith("  json_valid (not required): 100.0 % to 100.0 %, p 1;")
    flipped = lines.index("regressed (8)")
    assert lines[flipped + 1 : flipped + 4] == [
        "  q00: passed, failed now",
        "    base       said | exact_match: compared as text",
        "    candidate  no idea | exact_match: compared as text",
    ]


def test_regression_exits_0_without_assert_and_2_with_it(
    inside: InProcessCommand, experiment: StoredExperiment
) -> None:
    experiment.run("p" * 20, name="base")
    experiment.run("f" * 8 + "p" * 12, name="candidate")
    compare(inside)
    compare(inside, "--assert", code=2)
    inside.run("experiments", "runs", "compare", "candidate", "base", "--assert")


def test_assert_with_too_few_common_trials_exits_3(inside: InProcessCommand, experiment: StoredExperiment) -> None:
    """Without this rule a candidate that crashes would pass."""
    experiment.run("p" * 20, name="base")
    experiment.run("p" * 15 + "e" * 5, name="candidate")
    assert "only 75.0 % of the trials" in compare(inside, "--assert", code=3)
    experiment.run("p" * 19, name="candidate", state="cancelled")
    compare(inside, "--assert", code=3)


def test_runs_with_different_scorers_are_not_comparable(inside: InProcessCommand, experiment: StoredExperiment) -> None:
    experiment.run("p" * 20, name="base")
    strict = Binding(spec=ScorerSpec(name="exact_match", scorer="exact_match", config={"case_sensitive": False}))
    experiment.run("f" * 20, name="candidate", bindings=(strict, BINDINGS[1]))
    output = compare(inside, code=65)
    assert output.startswith("Not comparable: scorer exact_match differs: version scv-")
    assert "%" not in output
    shown = json.loads(compare(inside, "--format", "json", code=65))
    assert (shown["verdict"], shown["passes"], shown["base"]["rate"]) == ("not-comparable", None, None)
    assert "They share no required scorer." in compare(inside, "--allow-mismatch", code=65)


def test_repetitions_show_flaky_items_and_pass_rates_for_k_trials(
    inside: InProcessCommand, experiment: StoredExperiment
) -> None:
    experiment.run(dict.fromkeys(KEYS, "ppp"), name="base")
    experiment.run(dict.fromkeys(KEYS, "ppp") | {"q03": "pfp"}, name="candidate")
    lines = compare(inside).splitlines()
    assert lines[0].startswith("Inconclusive: 1 item got worse and none better")
    assert "  q03: passed 3 of 3, now 2 of 3" in lines
    assert "  k = 3      100.0 % to 100.0 %   100.0 % to 95.0 %" in lines
    assert "A/A: flip rate 1.7 % is this experiment's noise floor." in lines


def test_running_identical_or_unknown_runs_cannot_be_compared(
    inside: InProcessCommand, experiment: StoredExperiment
) -> None:
    experiment.run("p" * 20, name="base")
    experiment.run("p", name="candidate", state="running")
    assert (
        "is running: runs can be compared once they have ended"
        in inside.run("experiments", "runs", "compare", "base", "candidate", code=64).err
    )
    assert "are the same run" in inside.run("experiments", "runs", "compare", "base", "base", code=64).err
    inside.run("experiments", "runs", "compare", "base", "nobody", code=66)
    inside.run("experiments", "runs", "compare", "base", "candidate", "--asert", code=64)
