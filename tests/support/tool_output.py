"""Failure output of test tools, and a failed eval whose log contains such output."""

from evalscribe.model.evidence import Document, Evidence
from evalscribe.model.run import Eval, Step

VITEST = """\
[error] vitest: Error: Tests failed (ratio: 0.5)
[cmd] bunx vitest run grader.test.ts
[vitest]  RUN  v3.0.4 /home/someone
[vitest]
[vitest] stdout | grader.test.ts > prints
[vitest]    × not a test 1ms
[vitest]      → invented
[vitest]
[vitest]  ❯ grader.test.ts (3 tests | 2 failed) 54ms
[vitest]    ✓ works
[vitest]    × rejects empty input 16ms
[vitest]      → [SERVER Q(index:get)] [Request ID: c1a148a787bbace6] Server Error
[vitest] ValidationError: Object contains extra field `pageStatus`.
[vitest]     at handler (../src/app.ts:11:13)
[vitest]    × counts rows 2ms
[vitest]      → expected 400 to be 200 // Object.is equality
[vitest]
[vitest]  Test Files  1 failed (1)
[vitest]       Tests  2 failed | 1 passed (3)
"""
PYTEST = """\
[cmd] pytest
============================= test session starts ==============================
.F                                                                       [100%]
=================================== FAILURES ===================================
_________________________________ test_range ___________________________________

    def test_range():
>       assert between(1, 3) == [1, 2, 3]
E       assert [1, 2] == [1, 2, 3]
E         Right contains one more item: 3

src/app.py:9: AssertionError
=========================== short test summary info ============================
FAILED test_grader.py::test_range - assert [1, 2] == [1, 2, 3]
========================= 1 failed, 7 passed in 0.12s ==========================
[error] tests: pytest failed
"""
JEST = """\
FAIL src/app.test.ts
  ● adds › two numbers

    expect(received).toBe(expected) // Object.is equality

    Expected: 4
    Received: 3

      at Object.<anonymous> (src/app.ts:5:3)

Tests:       1 failed, 2 passed, 3 total
"""
UNITTEST = """\
.F
======================================================================
FAIL: test_sum (test_app.Case)
----------------------------------------------------------------------
Traceback (most recent call last):
  File "/tmp/x/src/app.py", line 4, in test_sum
    self.assertEqual(1, 2)
AssertionError: 1 != 2

----------------------------------------------------------------------
Ran 2 tests in 0.001s

FAILED (failures=1)
"""
GO = """\
=== RUN   TestSum
    sum_test.go:7: got 1, want 2
--- FAIL: TestSum (0.00s)
    sum_test.go:9: wrong sum
--- PASS: TestOther (0.00s)
FAIL
"""
# MOCHA has the form of mocha's spec reporter. The next three are shortened output of Node 20 and cargo.
MOCHA = """\
  orders
    ✔ works
    1) pages


  1 passing (5ms)
  1 failing

  1) orders
       pages:

      AssertionError [ERR_ASSERTION]: Expected values to be strictly equal:

1 !== 2

      + expected - actual

      -1
      +2

      at Context.<anonymous> (src/app.ts:5:10)
"""
TAP = """\
TAP version 13
# Subtest: adds numbers
ok 1 - adds numbers
  ---
  duration_ms: 6.814684
  ...
# Subtest: rejects empty input
not ok 2 - rejects empty input
  ---
  duration_ms: 1.379205
  location: '/tmp/runners/a.test.js:3:1'
  failureType: 'testCodeFailure'
  error: |-
    Expected values to be strictly equal:

    '' !== 'x'

  code: 'ERR_ASSERTION'
  name: 'AssertionError'
  ...
# Subtest: orders
    # Subtest: pages
    not ok 1 - pages
      ---
      duration_ms: 1.416653
      failureType: 'testCodeFailure'
      error: 'The page is empty'
      ...
    1..1
not ok 3 - orders
  ---
  duration_ms: 1.676353
  type: 'suite'
  failureType: 'subtestsFailed'
  error: '1 subtest failed'
  ...
1..3
# tests 3
# suites 1
# pass 1
# fail 2
# duration_ms 370.223565
"""
NODE = """\
✔ adds numbers (1.096836ms)
✖ rejects empty input (1.15275ms)
  AssertionError [ERR_ASSERTION]: Expected values to be strictly equal:

  '' !== 'x'

      at TestContext.<anonymous> (/tmp/runners/a.test.js:3:44)

ℹ tests 2
ℹ suites 0
ℹ pass 1
ℹ fail 1
ℹ duration_ms 504.175254

✖ failing tests:

test at a.test.js:3:1
✖ rejects empty input (1.15275ms)
  AssertionError [ERR_ASSERTION]: Expected values to be strictly equal:

  '' !== 'x'

      at TestContext.<anonymous> (/tmp/runners/src/app.ts:3:44)
      at Test.runInAsyncScope (node:async_hooks:206:9) {
    generatedMessage: true,
    code: 'ERR_ASSERTION'
  }
"""
CARGO = """\
   Compiling orders v0.1.0 (/tmp/runners/crate)
     Running unittests src/lib.rs (target/debug/deps/orders-300cfb589640ba2b)

running 3 tests
test tests::raises ... FAILED
test tests::adds ... FAILED
test tests::works ... ok

failures:

---- tests::raises stdout ----

thread 'tests::raises' (7276) panicked at src/lib.rs:6:52:
called `Option::unwrap()` on a `None` value
stack backtrace:
   0: __rustc::rust_begin_unwind
             at /rustc/59807616e1fa/library/std/src/panicking.rs:689:5

---- tests::adds stdout ----

thread 'tests::adds' (7275) panicked at src/lib.rs:4:21:
assertion `left == right` failed
  left: 4
 right: 3


failures:
    tests::adds
    tests::raises

test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.28s

error: test failed, to rerun pass `--lib`
"""
TSC = """\
[error] Deploying backend on port 33229: Error: Failed to deploy:
src/app.ts:34:16 - error TS2339: Property 'index' does not exist on type '{}'.

34       internal.index.store,
                  ~~~~~

Found 1 error in src/app.ts:34
"""
ESLINT = """\
[error] Linting (eslint): Error: Failed to lint code:

/tmp/evals/output/model/src/app.ts
   3:7  warning  Unused eslint-disable directive (no problems were reported from 'no-x')
  11:34  error  'React' is not defined                no-undef
  12:1   error  Unsafe use of `any`  @typescript-eslint/no-unsafe-call

✖ 2 problems (2 errors, 0 warnings)
[cmd] bunx vitest run
[vitest]  RUN  v3.0.4 /x
[vitest]       Tests  3 passed (3)
"""
RUFF_FULL = """\
PLW2901 `for` loop variable `x` overwritten by assignment target
  --> src/app.py:12:9
   |
12 |         x = x.strip()
"""
TRACEBACK = """\
Traceback (most recent call last):
  File "/tmp/run-1/src/app.py", line 3, in <module>
    main()
KeyError: 'name'
"""


def evidence(
    log: str | None, step: str | None = "build", outputs: tuple[str, ...] = ("src/app.py", "src/app.ts"), **more: str
) -> Evidence:
    documents = [
        Document(role="output", path=path, text="\n".join(f"line {n}" for n in range(1, 60))) for path in outputs
    ]
    documents += [Document(role="log", path="run.log", text=log)] if log is not None else []
    steps = (Step(name=step, status="failed", error=f"{step} failed"),) if step else ()
    one = Eval(id="e1", category="c", name="n", failed_step=step, reason=more.get("reason", f"{step} failed"))
    return Evidence(eval=one, steps=steps, documents=tuple(documents))
