"""The documentation page on experiments: its commands are run, and print what the page shows."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from markdown_it import MarkdownIt

from support.command import Workspace

PAGE = (Path(__file__).parents[2] / "agent/docs/experiments.md").read_text("utf-8")
EXIT_CODE = re.compile(r"# exit code (\d+)")
CSV = "id,question,answer\nt9,Where is order 1046?,delivered\n"
LINE = '{"input": "Where is order 1045?"}\n'


def section(title: str) -> str:
    return re.split(r"^##+ ", PAGE.partition(f"# {title}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]


def blocks(title: str, language: str) -> list[str]:
    tokens = MarkdownIt().parse(section(title))
    return [token.content for token in tokens if token.type == "fence" and token.info == language]


def run_section(workspace: Workspace, title: str, **places: str) -> str:
    """Run the commands of a section, with placeholder words replaced by `places`; return their output."""
    printed = []
    for line in "".join(blocks(title, "bash")).splitlines():
        code = EXIT_CODE.search(line)
        words = [places.get(word, word) for word in shlex.split(line, comments=True)]
        printed.append(workspace.run(*words[1:], code=int(code[1]) if code else 0).out)
    return "".join(printed)


def expected_lines(title: str) -> Iterator[re.Pattern[str]]:
    """Yield a pattern for each output line that the page shows; `…` matches any text."""
    for line in "".join(blocks(title, "text")).splitlines():
        yield re.compile(".*".join(map(re.escape, line.split("…"))))


def test_documented_walk_through_prints_what_the_page_shows(workspace: Workspace) -> None:
    (workspace.folder / "evalscribe.toml").touch()
    (workspace.folder / "agent.py").write_text(blocks("In five minutes", "python")[0])
    (workspace.folder / "items.jsonl").write_text(blocks("In five minutes", "json")[0])
    (workspace.folder / "orders.yaml").write_text(blocks("In five minutes", "yaml")[0])
    for title in ("In five minutes", "The sample"):
        printed = run_section(workspace, title)
        for pattern in expected_lines(title):
            assert pattern.search(printed), f"not printed: {pattern.pattern}"
    own, own_scorer = blocks("Step by step", "python")[0], blocks("Your own", "python")[0]
    (workspace.folder / "support_agent.py").write_text(own)
    (workspace.folder / "own_scorers.py").write_text(own_scorer)
    (workspace.folder / "tickets.jsonl").write_text(blocks("Step by step", "json")[0])
    printed = run_section(workspace, "Step by step")
    assert "gate failed: pass rate 1/2" in printed
    assert "FAILED  t2" in printed
    (workspace.folder / "table.csv").write_text(CSV)
    workspace.run("datasets", "upload", "tickets", "tickets.jsonl")
    run_section(workspace, "Datasets", **{"RUN": "first", "-": "tickets.jsonl"})
    run_section(workspace, "Your own")
