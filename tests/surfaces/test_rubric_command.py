"""`evalscribe rubrics` on the command line."""

import json
from pathlib import Path

import pytest

from support.command import InProcessCommand, Workspace


@pytest.fixture
def file(workspace: Workspace) -> Path:
    path = workspace.folder / "prompts/rubrics/polite.yaml"
    path.parent.mkdir(parents=True)
    path.write_text("rubric_text: Was it polite?\n")
    return path


def test_create_stores_a_new_version_for_each_change(inside: InProcessCommand, file: Path) -> None:
    first = inside.run("rubrics", "create", "polite").out
    assert first.startswith("polite version 1 (sha256:")
    assert inside.run("rubrics", "create", "polite").out == f"unchanged: {first}"
    file.write_text("rubric_text: Was it kind?\n")
    listed = inside.run("rubrics", "list").out
    assert (
        "polite        version 1, workspace file, which differs: `evalscribe rubrics create polite` makes version 2\n"
        in listed
    )
    assert "failure       not stored yet, shipped file\n" in listed
    assert inside.run("rubrics", "diff", "polite").out.endswith(
        "-rubric_text: Was it polite?\n+rubric_text: Was it kind?\n"
    )
    assert inside.run("rubrics", "create", str(file)).out.startswith("polite version 2 (sha256:")
    assert inside.run("rubrics", "show", "polite@1").out == "rubric_text: Was it polite?\n"


def test_shown_rubric_can_be_created_under_another_name(inside: InProcessCommand) -> None:
    mine = inside.folder / "mine.yaml"
    mine.write_text(inside.run("rubrics", "show", "failure").out)
    assert inside.run("rubrics", "validate", "mine.yaml").out == "1 rubric checked, 0 with problems\n"
    assert inside.run("rubrics", "create", "mine.yaml").out.startswith("mine version 1 ")
    assert inside.run("rubrics", "diff", "mine", "failure").out == "no difference\n"


def test_list_and_show_print_json(inside: InProcessCommand, file: Path) -> None:
    inside.run("rubrics", "create", "polite")
    listing = json.loads(inside.run("rubrics", "list", "--json").out)
    assert listing["collection"] == "default"
    (row,) = [row for row in listing["rubrics"] if row["name"] == "polite"]
    shown = json.loads(inside.run("rubrics", "show", "polite", "--json").out)
    assert (row["version"], row["file"], row["changed"]) == (1, "workspace", False)
    assert (shown["id"], shown["version"], shown["rubric_text"]) == ("polite", 1, "Was it polite?")


def test_validate_reports_every_invalid_file_with_its_line(workspace: Workspace, file: Path) -> None:
    """Runs in a separate process, because scripts rely on its exit code."""
    bad = "rubric_text: x\noutput_schema:\n  type: object\n  properties:\n    label: {type: strange}\n"
    (workspace.folder / "bad.yaml").write_text(bad)
    (workspace.folder / "worse.yaml").write_text("rubric_text: [\n")
    out = workspace.run(
        "rubrics", "validate", "bad.yaml", "polite", "worse.yaml", "none.yaml", code=65
    ).out.splitlines()
    assert out[0].startswith("bad.yaml:5: output_schema.properties.label")
    assert out[1].startswith("worse.yaml:")
    assert out[2:] == ["file none.yaml not found", "4 rubrics checked, 3 with problems"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("show", "rude"), 66, "rubric 'rude' not found"),
        (("show", "polite@7"), 66, "rubric 'polite' in collection 'default' not found"),
        (("create", "none.yaml"), 66, "file none.yaml not found"),
        (("create", "polite", "--collection", "c9"), 66, "collection 'c9'"),
        (("list", "--collection", "c9"), 66, "collection 'c9' not found; available: none yet"),
        (("diff", "polite", "rude"), 66, "rubric 'rude' not found"),
        (("create", "bad.yaml"), 65, "bad.yaml:1: rubric_text"),
        (("shew",), 64, "No such command"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_invalid_arguments_give_a_short_error_and_exit_code(
    inside: InProcessCommand, file: Path, arguments: tuple[str, ...], code: int, message: str
) -> None:
    (inside.folder / "bad.yaml").write_text("rubric_text: ''\n")
    inside.run("rubrics", "show", "failure")
    result = inside.run("rubrics", *arguments, code=code)
    assert message in result.err
    assert len(result.err.strip().splitlines()) <= 2
    assert result.out == ""
