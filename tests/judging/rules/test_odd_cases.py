"""Unusual runs as the current Convex runner writes them get the right label or an uncertain one."""

from functools import cache
from pathlib import Path

import pytest

from evalscribe.judging.rules.engine import RulesJudge
from evalscribe.model.evidence import PackedEvidence
from evalscribe.model.finding import Failure, Verdict
from support.real_runs import CURRENT, payloads

OUTAGE = ("KNOWN_GAP", "infrastructure")
HARNESS = ("OVERLY_STRICT", "harness")
MODEL = ("MODEL_FAULT", "model")
LINT = ("OVERLY_STRICT", "lint")
UNDECIDED = (None, None)
STATIC = "007-components/004-choose_aggregate"

INFRASTRUCTURE = {
    "000-fundamentals/000-empty_functions": (OUTAGE, True),
    "000-fundamentals/001-basic_schema": (MODEL, False),
    "000-fundamentals/002-basic_http_endpoint": (OUTAGE, False),
    "000-fundamentals/003-crons": (OUTAGE, False),
    "000-fundamentals/004-scheduler": (OUTAGE, False),
    "000-fundamentals/005-function_calling": (OUTAGE, False),
    "000-fundamentals/006-database_crud": (OUTAGE, False),
    "000-fundamentals/007-basic_file_storage": (MODEL, False),
    "000-fundamentals/008-helper_fns": (OUTAGE, False),
    "000-fundamentals/009-returns_validator": (OUTAGE, False),
    "000-fundamentals/010-staged_index": (UNDECIDED, True),
    "001-data_modeling/000-simple_datatypes": (OUTAGE, True),
    "001-data_modeling/001-compound_datatypes": (OUTAGE, False),
    "001-data_modeling/002-foreign_key": (UNDECIDED, True),
    "001-data_modeling/003-single_column_index": (HARNESS, False),
    "001-data_modeling/004-multi_column_index": (HARNESS, False),
    "001-data_modeling/005-many_to_many": (HARNESS, False),
}
"""Label, kind and whether the verdict is uncertain; UNDECIDED allows any label."""
DEPLOY = {
    "001-data_modeling/006-literals": "Cron job name must be unique: daily",
    "001-data_modeling/007-schema_evolution": "Duplicate index name by_user in table posts",
    "001-data_modeling/008-nullable_partial": "@convex-dev/aggregate/convex.config",
    "001-data_modeling/009-normalize_json": 'Expected ";" but found ")"',
    "001-data_modeling/010-discriminated_union": "TS2339: Property 'index' does not exist on type '{}'.",
    "001-data_modeling/011-deconstruct_validators": "fetch failed",
}
TESTS = {
    "001-data_modeling/012-denormalize_for_index": "5,000 ms",
    "001-data_modeling/013-unbounded_array": "same-code-as-reference",
    "001-data_modeling/014-heartbeat_isolation": "same-code-as-reference",
    "001-data_modeling/015-validator_composition": "1 of 2 tests fail",
    "001-data_modeling/016-schema_document_validator": "All 2 tests fail",
    "002-queries/000-all_rows": "All 2 tests fail",
}


@cache
def odd(data: Path, name: str) -> dict[str, Verdict]:
    run_evidence = (evidence for _, evidence in payloads(data / CURRENT / "odd" / name))
    judge = RulesJudge()
    return {e.eval.path: judge.decide(Failure(evidence=e, packed=PackedEvidence(excerpts=()))) for e in run_evidence}


@pytest.mark.parametrize("path", INFRASTRUCTURE)
def test_infrastructure_case_has_the_expected_label_and_certainty(real_data: Path, path: str) -> None:
    expected, uncertain = INFRASTRUCTURE[path]
    verdict = odd(real_data, "infrastructure")[path]
    assert expected in (UNDECIDED, (verdict.classification, verdict.cause_kind))
    assert verdict.uncertain is uncertain


@pytest.mark.parametrize("path", DEPLOY)
def test_failed_deploy_names_its_error(real_data: Path, path: str) -> None:
    verdict = odd(real_data, "deploy")[path]
    assert DEPLOY[path] in verdict.error
    label = OUTAGE if "fetch failed" in verdict.error else MODEL
    assert (verdict.classification, verdict.cause_kind) == label


@pytest.mark.parametrize("path", TESTS)
def test_silent_test_failure_is_an_uncertain_harness_fault(real_data: Path, path: str) -> None:
    verdict = odd(real_data, "tests")[path]
    assert (verdict.classification, verdict.cause_kind, verdict.uncertain) == (*HARNESS, True)
    assert TESTS[path] in f"{verdict.reasoning} {verdict.cause}"
    assert "RUN v" not in verdict.error


def test_static_eval_blames_the_package_that_was_not_chosen(real_data: Path) -> None:
    verdict = odd(real_data, "tests")[STATIC]
    assert (verdict.classification, verdict.uncertain) == ("MODEL_FAULT", False)
    assert "@convex-dev/aggregate" in verdict.why


def test_step_and_reason_are_found_for_any_set_of_recorded_rows(real_data: Path) -> None:
    for _, evidence in payloads(real_data / CURRENT / "odd" / "steps"):
        verdict = odd(real_data, "steps")[evidence.eval.path]
        if evidence.eval.name == "013-async_iterator_filter":
            assert (evidence.eval.failed_step, verdict.error[:6]) == ("tsc", "TS7022")
        else:
            assert evidence.eval.failed_step == "eslint"
            assert (verdict.classification, verdict.cause_kind) == LINT
