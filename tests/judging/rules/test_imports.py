"""Names imported from another module than in the reference."""

import pytest

from support.machine_speed import cpu_below
from support.rules_failure import decide, make_failure

SILENT = "[error] types: failed"


def rule(ours: str, theirs: str, path: str = "a.ts") -> str | None:
    return decide(make_failure("types", log=SILENT, output={path: ours}, expected={path: theirs})).rule


@pytest.mark.parametrize(
    ("path", "ours", "theirs"),
    [
        ("a.ts", "import { page } from './lib';\n", "import { page } from 'pages/server';\n"),
        ("a.ts", "import {\n  page,\n  Doc,\n} from './datamodel';\n", "import { Doc } from './dataModel';\n"),
        ("a.py", "from typing import TypedThing\n", "from typing_extensions import TypedThing\n"),
    ],
)
def test_import_from_another_module_is_the_cause(path: str, ours: str, theirs: str) -> None:
    verdict = decide(make_failure("types", log=SILENT, output={path: ours}, expected={path: theirs}))
    assert (verdict.rule, verdict.classification, verdict.uncertain) == ("cannot-load", "MODEL_FAULT", False)
    assert {c.role for c in verdict.citations} == {"output", "expected", "log"}


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("import { a } from './x.js';\nb();\n", "import { a } from './x';\n"),
        ("import { a } from '../lib/x';\nb();\n", "import { a } from './x';\n"),
        ("import { hash } from 'node:crypto';\nb();\n", "import { hash } from 'crypto';\n"),
        ("import { a } from './x';\nimport { b } from './y';\n", "import { c } from './z';\n"),
        ("// import { a } from 'y'\nb();\n", "import { a } from './x';\n"),
    ],
)
def test_equivalent_or_unrelated_import_is_not_the_cause(ours: str, theirs: str) -> None:
    assert rule(ours, theirs) != "cannot-load"


def test_compiler_error_in_the_log_takes_precedence_over_imports() -> None:
    log = "[cmd] tsc\na.ts:2:1 - error TS2304: Cannot find name 'b'.\n[error] types: failed"
    output = {"a.ts": "import { a } from './y';\nb();\n"}
    verdict = decide(make_failure("types", log=log, output=output, expected={"a.ts": "import { a } from 'x';\n"}))
    assert verdict.rule == "does-not-compile"


@pytest.mark.benchmark
@pytest.mark.parametrize("text", ["import { " * 20_000, "from a import (" * 20_000, "import {a} from " * 20_000])
def test_broken_imports_are_read_within_three_cpu_seconds(text: str) -> None:
    with cpu_below(3):
        rule(text + "\n", "import { a } from './x';\n")
        rule("\n".join(text.split(" ")), "from x import a\n", "a.py")
