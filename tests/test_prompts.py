"""Templates: which file is in force, and that nothing but their own words is a template."""

from pathlib import Path

import pytest

from evalscribe.errors import UsageError
from evalscribe.prompts import Prompts, shipped


def put(workspace: Path, name: str, text: str) -> None:
    path = workspace / "prompts" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_the_shipped_templates_are_found_and_nobodys_own() -> None:
    prompts = Prompts()
    assert "MODEL_FAULT" in prompts.source("classify/system.md.j2")
    assert prompts.own() == ()


def test_a_workspace_wins_file_by_file_and_says_so(tmp_path: Path) -> None:
    put(tmp_path, "classify/system.md.j2", "Judge {{ 1 + 1 }}.")
    prompts = Prompts(tmp_path)
    assert prompts.render("classify/system.md.j2") == "Judge 2."
    assert prompts.source("classify/case.md.j2") == Prompts().source("classify/case.md.j2")
    assert prompts.own() == ("classify/system.md.j2",)
    assert prompts.own("classify") == ("classify/system.md.j2",)
    assert prompts.digest("classify") != Prompts().digest("classify")


def test_an_equal_copy_is_not_the_workspaces_own(tmp_path: Path) -> None:
    put(tmp_path, "classify/system.md.j2", Prompts().source("classify/system.md.j2"))
    assert Prompts(tmp_path).own() == ()
    assert Prompts(tmp_path).digest("classify") == Prompts().digest("classify")


def test_the_checkout_is_no_workspace_of_its_own() -> None:
    assert Prompts(shipped("prompts").parent).own() == ()


def test_an_added_template_is_the_workspaces_own(tmp_path: Path) -> None:
    put(tmp_path, "classify/more.md.j2", "more")
    assert Prompts(tmp_path).own() == ("classify/more.md.j2",)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("{{ nobody }}", id="undefined"),
        pytest.param("{% if %}", id="syntax"),
        pytest.param("{{ ''.__class__.__mro__ }}", id="sandbox"),
        pytest.param("{% include 'no/such.md.j2' %}", id="include"),
        pytest.param("{{ 'a' + 1 }}", id="types"),
        pytest.param("{{ 1 / 0 }}", id="arithmetic"),
    ],
)
def test_a_broken_template_is_named(tmp_path: Path, text: str) -> None:
    put(tmp_path, "classify/system.md.j2", text)
    with pytest.raises(UsageError, match="template"):
        Prompts(tmp_path).render("classify/system.md.j2")


def test_data_is_never_a_template(tmp_path: Path) -> None:
    put(tmp_path, "classify/system.md.j2", "<{{ text }}>")
    text = "{{ 1 + 1 }}{% raw %}</b>&"
    assert Prompts(tmp_path).render("classify/system.md.j2", text=text) == f"<{text}>"


def test_a_template_that_is_no_text_is_refused(tmp_path: Path) -> None:
    put(tmp_path, "classify/system.md.j2", "")
    (tmp_path / "prompts/classify/system.md.j2").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="UTF-8"):
        Prompts(tmp_path).render("classify/system.md.j2")


def test_a_missing_template_is_named() -> None:
    with pytest.raises(UsageError, match=r"no template classify/none\.md\.j2"):
        Prompts().source("classify/none.md.j2")


@pytest.mark.parametrize(
    "name", ["../secret.txt", "{top}/secret.txt", "classify/../../secret.txt", "classify/link.md.j2"]
)
def test_no_template_leads_out_of_its_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    put(tmp_path, "classify/system.md.j2", f"{{% include '{name.format(top=tmp_path)}' %}}")
    (tmp_path / "prompts/link.md.j2").symlink_to(tmp_path / "secret.txt")
    prompts = Prompts(tmp_path)
    assert prompts.own() == ("classify/system.md.j2",)
    with pytest.raises(UsageError, match="no template"):
        prompts.render("classify/system.md.j2")
