"""The judge as its callers see it."""

import ast
import shutil
import time
from functools import partial
from pathlib import Path

import pytest

from evalscribe.finding import Precedent
from evalscribe.judging.rules import RULES, RulesJudge, engine
from evalscribe.ports import Estimate, Judge
from evalscribe.source_digest import PACKAGE, source_digest
from rules_case import decide, made, pytest_log

CASE = made(log=pytest_log(("test_a", "AssertionError: assert 1 == 2")), output={"a.py": "x = 1\n"})
SAID = Precedent(report="r.md", eval="basics/001-made", classification="MODEL_FAULT", by_person=True)


async def test_it_is_a_judge_that_costs_nothing() -> None:
    judge: Judge = RulesJudge()
    verdict = await judge.judge(CASE)
    assert judge.id == "rules@1"
    assert judge.estimate(CASE) == Estimate()
    assert verdict == RulesJudge().decide(CASE)


def test_equal_questions_have_equal_keys() -> None:
    judge = RulesJudge()
    other = made(log=pytest_log(("test_a", "AssertionError: assert 1 == 3")), output={"a.py": "x = 1\n"})
    assert judge.key(CASE) == judge.key(CASE.model_copy())
    assert judge.key(CASE) != judge.key(other)
    assert judge.key(CASE) != judge.key(CASE.model_copy(update={"precedents": (SAID,)}))
    unreviewed = SAID.model_copy(update={"by_person": False})
    assert judge.key(CASE) == judge.key(CASE.model_copy(update={"precedents": (unreviewed,)}))


def test_a_changed_rule_asks_anew_what_was_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = Path(shutil.copytree(PACKAGE, tmp_path / "evalscribe", ignore=shutil.ignore_patterns("*.pyc", "sample")))
    monkeypatch.setattr(engine, "source_digest", partial(source_digest, package=copy))
    judge, case = RulesJudge(), made(log="1 failed")
    before, verdict = judge.key(case), judge.id
    rule = copy / "judging" / "rules" / "lint.py"
    rule.write_text(rule.read_text() + "\n")
    source_digest.cache_clear()
    assert (judge.key(case) != before, judge.id) == (True, verdict)


def test_everything_that_a_rule_imports_counts_as_what_decides() -> None:
    """But for ports, which only say what shape others have."""
    rules = {f"judging.rules.{file.stem}" for file in (PACKAGE / "judging" / "rules").glob("*.py")}
    found, new = set[str](), rules
    while new:
        found |= new
        new = {one for module in new for one in imported(module)} - found
    decides = tuple(f"{module}." for module in engine.DECIDING)
    assert [one for one in sorted(found) if not f"{one}.".startswith(decides)] == []


def imported(module: str) -> set[str]:
    """Modules of ours that it imports from."""
    place = PACKAGE.joinpath(*module.split("."))
    file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    froms = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.ImportFrom)]
    names = {f"{node.module}.{one.name}" for node in froms for one in node.names} | {str(node.module) for node in froms}
    ours = {name.removeprefix("evalscribe.") for name in names if name.startswith("evalscribe.")}
    return {one for one in ours if is_module(one) and one.partition(".")[0] != "ports"}


def is_module(name: str) -> bool:
    place = PACKAGE.joinpath(*name.split("."))
    return place.is_dir() or place.with_suffix(".py").is_file()


def test_rules_are_documented_and_named_apart() -> None:
    assert all(rule.__doc__ for rule in RULES)
    assert len({rule.__name__ for rule in RULES}) == len(RULES)


def test_the_line_of_the_table_is_short() -> None:
    long = made(
        log=pytest_log((f"test_{'very_' * 40}long", f"AssertionError: {'x ' * 400}")), output={"a.py": "x = 1\n"}
    )
    assert len(decide(long).why) <= 90


@pytest.mark.benchmark
def test_large_files_take_time_in_proportion() -> None:
    def seconds(lines: int) -> float:
        output = "".join(f"const v{i} = ctx.call{i}.run({i});\n" for i in range(lines))
        case = made(
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
