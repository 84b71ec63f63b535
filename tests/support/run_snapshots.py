"""Generate runs with the form and size of real runs, so that tests of commands need no real data."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

RUN_ID = "jn7made0run0of0failures0in0code0"
MODEL = "sample-model-2"
PROVIDER = "example"
CATEGORIES = ("000-fundamentals", "001-data_modeling", "002-queries", "003-mutations", "004-actions")
Failure = tuple[str, str, str]
"""Name of the failed step, its reason as the deployment records it, and the log of the runner."""


def eval_id(n: int) -> str:
    return f"jh7{n:05d}yvaask9c22wej0dnknk4jk213"


def eval_path(n: int) -> str:
    return f"{CATEGORIES[n % len(CATEGORIES)]}/{n:03d}-task_{n}"


def summary(count: int, **changes: Any) -> dict[str, Any]:
    """Return the deployment's summary of a run with `count` failures and as many passed evals.

    `changes` replaces fields of the summary. Its key `run` replaces fields of the run.
    """
    run = {
        "_id": RUN_ID,
        "experiment": "default",
        "model": MODEL,
        "provider": PROVIDER,
        "status": {"kind": "completed", "durationMs": 1098261},
    } | changes.pop("run", {})
    counts = {"failedCount": count, "passedCount": count, "totalEvals": 2 * count}
    return {"failedEvals": [_listed(n) for n in range(count)], "run": run, **counts, **changes}


def payload(n: int) -> dict[str, Any]:
    """Return the deployment's payload of failure `n`: task, output, reference, grader and log."""
    step, reason, log = _failure(n)
    return {
        "eval": {
            "_id": eval_id(n),
            "category": eval_path(n).partition("/")[0],
            "evalPath": eval_path(n),
            "name": eval_path(n).partition("/")[2],
            "status": {"kind": "failed", "failureReason": f"{step} fail", "outputStorageId": "kg29"},
            "task": _task(n),
        },
        "steps": _steps(step, reason),
        "outputFiles": {
            "convex/index.ts": _code(n, wrong=True),
            "convex/schema.ts": _schema(n),
            "package.json": '{\n  "name": "app",\n  "dependencies": {"convex": "^1.31.7"}\n}\n',
            "run.log": f"=== Eval: {eval_path(n)} ===\n{INSTALL}{log}",
        },
        "evalSourceFiles": {
            "TASK.txt": _task(n),
            "answer/convex/index.ts": _code(n, wrong=False),
            "answer/convex/schema.ts": _schema(n),
            "grader.test.ts": _grader(n),
        },
    }


def write(folder: Path, count: int, **changes: Any) -> Path:
    """Write a snapshot of a run with `count` failures, and return its folder."""
    (folder / "debug").mkdir(parents=True)
    for n in range(count):
        (folder / "debug" / f"{eval_id(n)}.json").write_text(json.dumps(payload(n)))
    (folder / "failed_evals.json").write_text(json.dumps(summary(count, **changes)))
    return folder


INSTALL = """\
[ok] filesystem
[cmd] bun install
[install] bun install v1.3.8 (b64edcb4)
[install] + typescript@5.9.3
[install] + convex@1.31.7
[install] 5 packages installed [1327.00ms]
[ok] install
"""
UNTIL_TESTS = """\
[cmd] bunx convex dev --once --url http://localhost:40603
[ok] deploy
[cmd] bunx tsc -noEmit -p convex
[ok] tsc
[cmd] bunx eslint -c eslint.config.mjs convex
[ok] eslint
"""


WORDS = ("archive", "billing", "comment", "digest", "export", "follow", "gallery", "history", "invite", "journal")
HELPERS = (
    """\
export const NAME = mutation({
  args: { text: v.string(), owner: v.id("users") },
  handler: async (ctx, args) => {
    const existing = await ctx.db.get(args.owner);
    if (!existing) {
      throw new Error("owner not found");
    }
    return await ctx.db.insert("NAMEs", { text: args.text, owner: args.owner, done: false });
  },
});""",
    """\
export const NAME = internalAction({
  args: { url: v.string() },
  returns: v.object({ status: v.number(), body: v.string() }),
  handler: async (_ctx, { url }) => {
    const response = await fetch(url, { headers: { accept: "application/json" } });
    return { status: response.status, body: await response.text() };
  },
});""",
    """\
async function NAME(ctx: QueryCtx, limit: number) {
  const rows = [];
  for await (const row of ctx.db.query("NAMEs").withIndex("by_time", (q) => q.gt("time", Date.now() - 3600))) {
    rows.push({ ...row, age: Math.round((Date.now() - row.time) / 1000) });
    if (rows.length >= limit) break;
  }
  return rows.sort((left, right) => left.age - right.age);
}""",
    """\
export const NAME = query({
  args: { cursor: v.union(v.string(), v.null()), size: v.number() },
  handler: async (ctx, args) => {
    const page = await ctx.db.query("NAMEs").paginate({ cursor: args.cursor, numItems: args.size });
    return { next: page.continueCursor, done: page.isDone, items: page.page.map((item) => item.text) };
  },
});""",
    """\
http.route({
  path: "/NAME",
  method: "POST",
  handler: httpAction(async (ctx, request) => {
    const { message } = await request.json();
    await ctx.runMutation(internal.index.NAME, { message });
    return new Response(JSON.stringify({ ok: true }), { status: 201 });
  }),
});""",
)


def _tsc(n: int) -> Failure:
    # Line 6 is only in the model's output. An error at a line of the reference would make the rules uncertain.
    log = f"convex/index.ts:6:16 - error TS2304: Cannot find name 'listItems{n}'.\n"
    return (
        "deploy",
        "deploy failed",
        f"[error] Deploying generated backend: Error: Failed to deploy:\n{log}\nFound 1 error\n",
    )


def _tests(n: int) -> Failure:
    said = [
        "[error] vitest: Error: Tests failed (ratio: 0.5)",
        "[vitest]  RUN  v3.0.4 /home/runner/work/evals",
        f"[vitest]  ❯ evals/{eval_path(n)}/grader.test.ts (2 tests | 1 failed) {40 + n}ms",
        "[vitest]    ✓ compare schema",
        f"[vitest]    × item {n} is listed {n % 90}ms",
        f"[vitest]      → expected {n} to equal {n + 1}",
        f"[vitest]  FAIL  evals/{eval_path(n)}/grader.test.ts > item {n} is listed",
        f"[vitest] AssertionError: expected {n} to equal {n + 1}",
        f"[vitest]  ❯ evals/{eval_path(n)}/grader.test.ts:12:20",
    ]
    return "tests", "tests failed (50%)", UNTIL_TESTS + "\n".join(said) + "\n"


def _lint(n: int) -> Failure:
    log = f"/tmp/out/convex/index.ts\n  6:34  error  'unused{n}' is defined but never used  no-unused-vars\n"
    said = f"[error] Linting (eslint): Error: Failed to lint code:\n\n{log}\n✖ 1 problem (1 error, 0 warnings)\n"
    return "eslint", "eslint failed", f"{said}[vitest]  ✓ evals/{eval_path(n)}/grader.test.ts (2 tests) {n}ms\n"


def _silent(n: int) -> Failure:
    return "tests", "tests failed (0%)", UNTIL_TESTS + "[error] vitest: Error: Tests failed (ratio: 0)\n"


KINDS: tuple[Callable[[int], Failure], ...] = (_tsc, _tests, _lint, _silent)


def _failure(n: int) -> Failure:
    return KINDS[n % len(KINDS)](n)


def _listed(n: int) -> dict[str, Any]:
    step, reason, _ = _failure(n)
    category, _, name = eval_path(n).partition("/")
    return {
        "_id": eval_id(n),
        "category": category,
        "evalPath": eval_path(n),
        "name": name,
        "failureReason": f"{step} fail",
        "failedStep": {"name": step, "failureReason": reason},
    }


def _steps(failed: str, reason: str) -> list[dict[str, Any]]:
    names = ["filesystem", "install", "deploy", "tsc", "eslint", "tests"]
    before = [{"name": name, "status": {"kind": "passed", "durationMs": 9.0}} for name in names[: names.index(failed)]]
    after = [{"name": "tests", "status": {"kind": "passed"}}] if failed == "eslint" else []
    return [*before, {"name": failed, "status": {"kind": "failed", "failureReason": reason}}, *after]


def _task(n: int) -> str:
    return (
        f"Write convex/index.ts with a query `listItems{n}` that returns the items of table `items{n}`, newest first.\n"
    )


def _schema(n: int) -> str:
    return (
        f"export default defineSchema({{\n  items{n}: defineTable({{ text: v.string(), owner: v.string() }}),\n}});\n"
    )


def _code(n: int, *, wrong: bool) -> str:
    order = "" if wrong else '.order("desc")'
    body = [
        'import { query } from "./_generated/server";',
        'import { v } from "convex/values";',
        "",
        f"export const listItems{n} = query({{",
        "  args: { owner: v.string() },",
        f'  handler: async (ctx, args) => ctx.db.query("items{n}"){order}.collect(),',
        "});",
    ]
    for nth in range(4 + n % 6):
        body += ["", *HELPERS[(n + nth) % len(HELPERS)].replace("NAME", f"{WORDS[nth]}{n}").splitlines()]
    return "\n".join(body) + "\n"


def _grader(n: int) -> str:
    return (
        'import { expect, test } from "vitest";\n\n'
        f'test("item {n} is listed", async () => {{\n'
        f"  const found = await client.query(api.index.listItems{n}, {{ owner: owner }});\n"
        f"  expect(found.length).toEqual({n + 1});\n"
        "});\n"
    )
