"""The rules judge: its interface, its key and its limits."""

import time

import pytest

from evalscribe.judging.rules.engine import RULES, VERSION, RulesJudge
from evalscribe.model.finding import Precedent
from evalscribe.model.protocols import Estimate, Judge
from support.rules_failure import decide, make_failure, pytest_log

CASE = make_failure(log=pytest_log(("test_a", "AssertionError: assert 1 == 2")), output={"a.py": "x = 1\n"})
PRECEDENT = Precedent(report="r.md", eval="basics/001-made", classification="MODEL_FAULT", by_person=True)


async def test_rules_judge_is_a_judge_without_cost() -> None:
    judge: Judge = RulesJudge()
    verdict = await judge.judge(CASE)
    assert judge.id == f"rules@{VERSION}"
    assert judge.estimate(CASE) == Estimate()
    assert verdict == RulesJudge().decide(CASE)


def test_key_depends_on_evidence_and_reviewed_precedents() -> None:
    judge = RulesJudge()
    other = make_failure(log=pytest_log(("test_a", "AssertionError: assert 1 == 3")), output={"a.py": "x = 1\n"})
    assert judge.key(CASE) == judge.key(CASE.model_copy())
    assert judge.key(CASE) != judge.key(other)
    assert judge.key(CASE) != judge.key(CASE.model_copy(update={"precedents": (PRECEDENT,)}))
    unreviewed = PRECEDENT.model_copy(update={"by_person": False})
    assert judge.key(CASE) == judge.key(CASE.model_copy(update={"precedents": (unreviewed,)}))


def test_rules_are_documented_and_have_unique_names() -> None:
    assert all(rule.__doc__ for rule in RULES)
    assert len({rule.__name__ for rule in RULES}) == len(RULES)


def test_why_is_at_most_90_characters() -> None:
    long = make_failure(
        log=pytest_log((f"test_{'very_' * 40}long", f"AssertionError: {'x ' * 400}")), output={"a.py": "x = 1\n"}
    )
    assert len(decide(long).why) <= 90


@pytest.mark.benchmark
def test_four_times_larger_file_takes_less_than_20_times_as_long() -> None:
    def seconds(lines: int) -> float:
        output = "".join(f"const v{i} = ctx.call{i}.run({i});\n" for i in range(lines))
        case = make_failure(
            "types",
            log="[error] types: failed",
            output={"a.ts": output},
            expected={"a.ts": output.replace("run", "go")},
            gaps="a:\n- Uses `take`",
        )
        start = time.process_time()
        decide(case)
        return time.process_time() - start

    assert seconds(4000) < 20 * max(seconds(1000), 0.05)
