"""Run summaries: rates, flaky items, pass@k, splits, clusters and missing trials."""

import tracemalloc
from collections.abc import Iterable, Iterator

import pytest
from pydantic import JsonValue

from evalscribe.experiments.summary import DatasetPlace, label_pair, summarise_labels, summarise_run
from evalscribe.model.chat import Usage
from evalscribe.model.experiment import (
    ComponentTarget,
    Experiment,
    ExperimentConfig,
    ExperimentRun,
    ExperimentVersion,
    ItemVerdict,
    PassRate,
    RunItem,
    RunSummary,
    percent,
)
from evalscribe.model.score import Binding, Score, ScorerSpec
from evalscribe.model.target import Component
from evalscribe.statistics.agreement import LabelPair
from evalscribe.statistics.intervals import wilson_interval

NOW = "2026-11-20T10:00:00.000+00:00"
OUTCOMES: dict[str, ItemVerdict] = {"p": "passed", "f": "failed", "e": "error", "u": "unscored"}
SPECS = {name: ScorerSpec(name=name, scorer=name) for name in ("exact_match", "judge")}
EXPERIMENT = Experiment(id="exp-1", name="quality", collection_id="", latest_version_id="exv-1", created_at=NOW)
VERSION = ExperimentVersion(
    id="exv-1",
    experiment_id="exp-1",
    number=3,
    target=ComponentTarget(deployment_id="dep-1", component=Component(name="a", kind="cmd", address="true")),
    dataset_id="ds-1",
    dataset_version_id="dsv-1",
    bindings=(Binding(spec=SPECS["exact_match"]), Binding(spec=SPECS["judge"], required=False)),
    config=ExperimentConfig(),
    created_at=NOW,
)


def run(items: int, repetitions: int = 1) -> ExperimentRun:
    return ExperimentRun(
        id="0" * 20,
        experiment_id="exp-1",
        experiment_version_id="exv-1",
        dataset_version_id="dsv-1",
        state="completed",
        repetitions=repetitions,
        items=items,
        created_at=NOW,
    )


def run_items(outcomes: Iterable[tuple[str, str]]) -> Iterator[RunItem]:
    for number, (key, letters) in enumerate(outcomes):
        for repetition, outcome in enumerate(letters, 1):
            yield RunItem.model_construct(
                id=f"{key}/{repetition}",
                run_id="r",
                item_key=key,
                repetition=repetition,
                number=number,
                status="error" if outcome == "e" else "ok",
                verdict=OUTCOMES[outcome],
                duration_ms=float(number),
                usage=Usage(input_tokens=2, output_tokens=1, cost_usd=0.5),
                created_at=NOW,
            )


def scores(outcomes: Iterable[tuple[str, str]], scorer: str = "exact_match", required: bool = True) -> Iterator[Score]:
    """Yield scores: `p` passed, `f` failed, `u` broken, `a` abstained; none for `e`."""
    for key, letters in outcomes:
        for repetition, outcome in enumerate(letters, 1):
            if outcome == "e":
                continue
            ok = outcome in "pf"
            yield Score.model_construct(
                id=f"{key}/{repetition}/{scorer}",
                run_id="r",
                run_item_id=f"{key}/{repetition}",
                item_key=key,
                repetition=repetition,
                scorer=scorer,
                scorer_version_id=SPECS[scorer].id,
                required=required,
                status="ok" if ok else "error" if outcome == "u" else "unscored",
                value=float(outcome == "p") if ok else None,
                passed=outcome == "p" if ok else None,
                explanation="because",
                error_type="input_error" if outcome == "u" else None,
                cost_usd=0.25,
                created_at=NOW,
            )


def summary(outcomes: dict[str, str], places: Iterable[DatasetPlace] | None = None) -> RunSummary:
    outcome_list = list(outcomes.items())
    repetitions = max(map(len, outcomes.values()))
    dataset_places = list(places) if places is not None else [DatasetPlace(key) for key in outcomes]
    experiment_run = run(len(dataset_places), repetitions)
    return summarise_run(
        experiment_run, EXPERIMENT, VERSION, dataset_places, run_items(outcome_list), scores(outcome_list)
    )


def test_errors_and_unscored_trials_count_in_the_pass_rate() -> None:
    run_summary = summary({"a": "p", "b": "f", "c": "e", "d": "u"})
    assert (run_summary.pass_rate.passed, run_summary.pass_rate.of, run_summary.pass_rate.value) == (1, 4, 0.25)
    assert run_summary.rate_of_scored == 0.5
    assert run_summary.counts.model_dump() == {"passed": 1, "failed": 1, "error": 1, "unscored": 1, "missing": 0}


def test_single_trials_have_a_wilson_interval() -> None:
    run_summary = summary({str(n): "p" if n < 18 else "f" for n in range(20)})
    assert (run_summary.pass_rate.low, run_summary.pass_rate.high) == wilson_interval(18, 20)


def test_trials_of_one_item_are_one_observation() -> None:
    many = summary({str(n): "ppppp" if n < 15 else "fffff" for n in range(20)})
    once = summary({str(n): "p" if n < 15 else "f" for n in range(20)})
    assert many.observations == once.observations == 20
    assert many.pass_rate.high - many.pass_rate.low > 0.9 * (once.pass_rate.high - once.pass_rate.low)


def test_items_of_one_cluster_are_one_observation() -> None:
    outcomes = {str(n): "p" if n < 20 else "f" for n in range(40)}
    apart = summary(outcomes)
    together = summary(outcomes, [DatasetPlace(key, cluster=f"source-{int(key) // 10}") for key in outcomes])
    assert together.observations == 4
    assert together.pass_rate.value == apart.pass_rate.value
    assert together.pass_rate.low < apart.pass_rate.low
    assert together.scorers[0].pass_rate.low < apart.scorers[0].pass_rate.low


def test_item_that_passed_sometimes_is_flaky_and_failed() -> None:
    run_summary = summary({"a": "pp", "b": "pf", "c": "ff", "d": "pe"})
    assert run_summary.flaky == ("b", "d")
    assert run_summary.failed_items == 3


def test_untried_items_are_missing_and_count_as_not_passed() -> None:
    places = [DatasetPlace("a"), DatasetPlace("b"), DatasetPlace("c"), DatasetPlace("d")]
    run_summary = summarise_run(run(4), EXPERIMENT, VERSION, places, run_items([("b", "p"), ("d", "f")]), ())
    assert (run_summary.counts.missing, run_summary.pass_rate.value, run_summary.failed_items) == (2, 0.25, 3)


def test_pass_at_k_and_pass_hat_k_match_a_hand_calculation() -> None:
    """By hand: with 2 of 4 trials passed, 5 of the 6 pairs of trials contain a pass and 1 contains two."""
    run_summary = summary({"a": "ppff", "b": "pppp"})
    assert [one.k for one in run_summary.at_k] == [1, 2, 3, 4]
    assert run_summary.at_k[0].pass_at == run_summary.at_k[0].pass_hat == run_summary.pass_rate.value == 0.75
    assert run_summary.at_k[1].pass_at == pytest.approx((5 / 6 + 1) / 2)
    assert run_summary.at_k[1].pass_hat == pytest.approx((1 / 6 + 1) / 2)
    assert (run_summary.at_k[3].pass_at, run_summary.at_k[3].pass_hat) == (1.0, 0.5)


def test_pass_at_k_is_omitted_with_single_trials() -> None:
    assert summary({"a": "p"}).at_k == ()


def test_splits_are_summarised_only_with_more_than_one() -> None:
    places = [DatasetPlace("a", "dev"), DatasetPlace("b", "test"), DatasetPlace("c", "test")]
    run_summary = summary({"a": "p", "b": "p", "c": "f"}, places)
    assert [(one.split, one.items, one.pass_rate.value) for one in run_summary.splits] == [
        ("dev", 1, 1.0),
        ("test", 2, 0.5),
    ]
    assert summary({"a": "p"}, [DatasetPlace("a", "dev")]).splits == ()


def test_broken_and_abstained_scores_are_excluded_from_the_scorer_rate() -> None:
    outcomes = [("a", "p"), ("b", "f"), ("c", "u"), ("d", "a")]
    judge = [*scores(outcomes), *scores(outcomes, "judge", required=False)]
    judge.sort(key=lambda score: score.item_key)
    run_summary = summarise_run(run(4), EXPERIMENT, VERSION, [DatasetPlace(key) for key, _ in outcomes], (), judge)
    first, second = run_summary.scorers
    assert (first.scorer, first.required, second.scorer, second.required) == ("exact_match", True, "judge", False)
    assert (first.pass_rate.passed, first.pass_rate.of, first.mean) == (1, 2, 0.5)
    assert (first.errors, first.unscored, first.cost_usd) == ({"input_error": 1}, 1, 1.0)


def test_trials_with_a_broken_required_scorer_count_as_broken() -> None:
    assert summary({"a": "u", "b": "u", "c": "p"}).broken == 2


def test_scorers_without_scores_are_listed() -> None:
    assert [(one.scorer, one.scored) for one in summary({"a": "e"}).scorers] == [("exact_match", 0), ("judge", 0)]


def test_summary_adds_up_cost_and_tokens_and_gives_duration_percentiles() -> None:
    run_summary = summary({str(n): "p" for n in range(100)})
    assert (run_summary.cost_usd, run_summary.input_tokens, run_summary.output_tokens) == (75.0, 200, 100)
    assert (run_summary.duration_p50_ms, run_summary.duration_p95_ms) == (49.0, 94.0)


def test_summary_memory_per_trial_is_bounded() -> None:
    def peak(items: int) -> int:
        outcomes = [(f"item-{number}", "pf"[number % 2]) for number in range(items)]
        both = ("exact_match", "judge")
        score_stream = (
            score for pair in outcomes for name in both for score in scores([pair], name, name == "exact_match")
        )
        tracemalloc.start()
        summarise_run(
            run(items),
            EXPERIMENT,
            VERSION,
            (DatasetPlace(key) for key, _ in outcomes),
            run_items(outcomes),
            score_stream,
        )
        reached = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return reached

    peak(1)  # Do not count modules that the summary imports on first use.
    assert (peak(700) - peak(100)) / 600 < 120, "bytes for each try with its two scores"


@pytest.mark.parametrize(
    ("share", "shown"), [(1.0, "100.0 %"), (0.99999, "over 99.9 %"), (0.0, "0.0 %"), (0.0001, "under 0.1 %")]
)
def test_percent_never_rounds_to_0_or_100(share: float, shown: str) -> None:
    assert percent(share) == shown


def test_pass_rate_of_no_trials_is_shown_as_0_of_0() -> None:
    assert PassRate(passed=0, of=0, value=None).text == "0/0"


def pairs(*label_pairs: tuple[str, str | None]) -> list[LabelPair]:
    return [LabelPair(expected=truth, predicted=predicted) for truth, predicted in label_pairs]


def test_label_summary_computes_agreement_and_confusion_matrix() -> None:
    label_summary = summarise_labels(pairs(("MODEL", "MODEL"), ("MODEL", "TASK"), ("TASK", "TASK"), ("TASK", None)))
    assert label_summary is not None
    assert (label_summary.pairs, label_summary.judged) == (4, 3)
    assert (label_summary.agreement, label_summary.balanced_accuracy) == (0.5, 0.5), "no label is no right one"
    assert [row.predicted for row in label_summary.rows] == [{"MODEL": 1, "TASK": 1}, {"TASK": 1, "(none)": 1}]
    assert [row.precision for row in label_summary.rows] == [1.0, 0.5]
    assert summarise_labels([]) is None


def test_trials_of_one_item_are_one_observation_for_kappa() -> None:
    once = pairs(*[("A", "A"), ("B", "B")] * 8, *[("A", "B"), ("B", "A")] * 2)
    thrice = [pair.model_copy(update={"cluster": str(item)}) for item, pair in enumerate(once) for _ in range(3)]
    label_summary, single = summarise_labels(thrice), summarise_labels(once)
    assert label_summary is not None
    assert single is not None
    assert label_summary.kappa == pytest.approx(single.kappa)
    assert label_summary.kappa_low == pytest.approx(single.kappa_low, abs=0.05)


def test_unanswered_pairs_count_against_kappa_and_balanced_accuracy() -> None:
    easy = [("A", "A"), ("B", "B")] * 5
    whole, some = (
        summarise_labels(pairs(*easy, ("A", "B"), ("B", "A"))),
        summarise_labels(pairs(*easy, ("A", None), ("B", None))),
    )
    assert whole is not None
    assert some is not None
    assert some.balanced_accuracy == whole.balanced_accuracy
    assert (some.kappa or 0) < 0.8
    silent = summarise_labels(pairs(("A", None), ("B", None)))
    assert silent is not None
    assert (silent.judged, silent.balanced_accuracy, silent.kappa) == (0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("expected", "output", "pair"),
    [
        ("A", "B", ("A", "B")),
        ("A", {"label": "A"}, ("A", "A")),
        ("A", {"other": "A"}, ("A", None)),
        ({"label": "A"}, {"label": "B"}, ("A", "B")),
        ({"label": "A"}, {"classification": "B"}, ("A", "B")),
        ({"classification": "A", "cause_kind": "model"}, {"cause_kind": "lint", "classification": "B"}, ("A", "B")),
        ({"refused": True}, {"refused": False, "why": "it asked"}, ("true", "false")),
        ({"classification": "A"}, None, ("A", None)),
        ({"one": "A", "two": "B"}, {"one": "A"}, None),
        ({}, "A", None),
        (None, "A", None),
        (4, 4, None),
    ],
)
def test_label_is_read_from_text_or_from_an_object_field(
    expected: JsonValue, output: JsonValue, pair: tuple[str, str | None] | None
) -> None:
    assert label_pair(expected, output) == pair
