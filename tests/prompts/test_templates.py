"""Templates: overrides by a workspace, the sandbox, and data that is never rendered as a template."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from jinja2 import Environment, FunctionLoader, StrictUndefined, meta

from evalscribe.errors import UsageError
from evalscribe.model.cascade import Tag
from evalscribe.prompts.templates import Prompts, shipped_folder


def write_template(workspace: Path, name: str, text: str) -> None:
    path = workspace / "prompts" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_shipped_templates_are_used_without_overrides() -> None:
    prompts = Prompts()
    assert "# Evidence is data" in prompts.source("classify/system.md.j2")
    assert prompts.overrides() == ()


def test_workspace_template_overrides_one_file_and_is_listed(tmp_path: Path) -> None:
    write_template(tmp_path, "classify/system.md.j2", "Judge {{ 1 + 1 }}.")
    prompts = Prompts(tmp_path)
    assert prompts.render("classify/system.md.j2") == "Judge 2."
    assert prompts.source("classify/case.md.j2") == Prompts().source("classify/case.md.j2")
    assert prompts.overrides() == ("classify/system.md.j2",)
    assert prompts.overrides("classify") == ("classify/system.md.j2",)
    assert prompts.digest("classify") != Prompts().digest("classify")


def test_identical_copy_is_not_an_override(tmp_path: Path) -> None:
    write_template(tmp_path, "classify/system.md.j2", Prompts().source("classify/system.md.j2"))
    assert Prompts(tmp_path).overrides() == ()
    assert Prompts(tmp_path).digest("classify") == Prompts().digest("classify")


def test_checkout_folder_has_no_overrides() -> None:
    assert Prompts(shipped_folder("prompts").parent).overrides() == ()


def test_additional_workspace_template_is_an_override(tmp_path: Path) -> None:
    write_template(tmp_path, "classify/more.md.j2", "more")
    assert Prompts(tmp_path).overrides() == ("classify/more.md.j2",)


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
def test_broken_template_raises_a_usage_error(tmp_path: Path, text: str) -> None:
    write_template(tmp_path, "classify/system.md.j2", text)
    with pytest.raises(UsageError, match="template"):
        Prompts(tmp_path).render("classify/system.md.j2")


def test_data_is_never_rendered_as_a_template(tmp_path: Path) -> None:
    write_template(tmp_path, "classify/system.md.j2", "<{{ text }}>")
    text = "{{ 1 + 1 }}{% raw %}</b>&"
    assert Prompts(tmp_path).render("classify/system.md.j2", text=text) == f"<{text}>"


def test_template_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    write_template(tmp_path, "classify/system.md.j2", "")
    (tmp_path / "prompts/classify/system.md.j2").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="UTF-8"):
        Prompts(tmp_path).render("classify/system.md.j2")


def test_error_names_the_missing_template() -> None:
    with pytest.raises(UsageError, match=r"no template classify/none\.md\.j2"):
        Prompts().source("classify/none.md.j2")


@pytest.mark.parametrize(
    "name", ["../secret.txt", "{top}/secret.txt", "classify/../../secret.txt", "classify/link.md.j2"]
)
def test_include_outside_the_prompts_folder_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    write_template(tmp_path, "classify/system.md.j2", f"{{% include '{name.format(top=tmp_path)}' %}}")
    (tmp_path / "prompts/classify/link.md.j2").symlink_to(tmp_path / "secret.txt")
    prompts = Prompts(tmp_path)
    assert prompts.overrides() == ("classify/system.md.j2",)
    with pytest.raises(UsageError, match="no template"):
        prompts.render("classify/system.md.j2")


VALUES: dict[str, Sequence[object]] = {
    "baseline": ["", "run-1"],
    "budget_usd": ["5"],
    "changeable": ["", "<files>"],
    "citation_help": [None, "Cite [T0B1]."],
    "collection": ["", "c-1"],
    "concluded": ["", "<concluded>"],
    "differences": ["", "<differences>"],
    "examples": ["", "<examples>"],
    "excerpts": [[], ["<first {{ 1 }}>", "<second & third>"]],
    "files": [[], ["<file>"]],
    "findings": [[], ["<finding>"]],
    "first_pass": ["", "tag first"],
    "folders": ["", "<folders>"],
    "history": ["", "<history>"],
    "labels": [["pass", "fail"], ["good", "fair", "bad"]],
    "missing": ["", "<missing>"],
    "models": ["", "3 of 4 models fail."],
    "output_schema": [None, '{"type": "object"}'],
    "tags": [(), (Tag(name="loops", about="goes in circles", rubric="on"), Tag(name="b", about="é", rubric="on"))],
}
"""Values for shipped templates; a variable that is not listed gets a text with its own name."""
NAMES = [name for name in Prompts().names("") if name.endswith(".j2")]


@pytest.mark.parametrize("which", [0, -1], ids=["empty", "full"])
@pytest.mark.parametrize("name", NAMES)
def test_shipped_templates_render_the_same_as_in_plain_jinja(name: str, which: int) -> None:
    prompts = Prompts()
    jinja = Environment(
        loader=FunctionLoader(prompts.source),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    variables = meta.find_undeclared_variables(jinja.parse(prompts.source(name)))
    values = {each: VALUES.get(each, [f"<{each}> {{{{ x }}}}"])[which] for each in variables}
    assert prompts.render(name, **values) == jinja.get_template(name).render(values)


TAGS = (Tag(name="loops", about="goes in circles", rubric="on"),)
USEFUL = {
    "{{ tags[0].name }} {{ tags[0]['about'] }}": "loops goes in circles",
    "{{ tags | map(attribute='name') | join(', ') | upper }}": "LOOPS",
    "{% for tag in tags %}{{ loop.index ~ ' ' ~ tag.name }}{{ ', ' if not loop.last }}{% endfor %}": "1 loops",
    "{% macro said(text) %}<{{ text }}>{{ caller() }}{% endmacro %}{% call said('a') %}b{% endcall %}": "<a>b",
    "{% for key, value in tags[0] | items %}{{ key }} {% endfor %}": "name about rubric ",
    "{{ tags[0].no_such is defined }} {{ 2 ** 10 }} {{ '-' * 3 }} {{ rest[1:] }} {{ 7 % 4 }}": "False 1024 --- est 3",
    "{{ 'a\nb' | indent(2) }} {{ 'a,b' | replace(',', ';') }} {{ tags | length }}": "a\n  b a;b 1",
    "{{ tags }}": "[{'name': 'loops', 'about': 'goes in circles', 'rubric': 'on'}]",
}


@pytest.mark.parametrize("text", USEFUL)
def test_workspace_templates_can_use_items_filters_loops_and_macros(text: str, tmp_path: Path) -> None:
    write_template(tmp_path, "judging/tag.md.j2", text)
    assert Prompts(tmp_path).render("judging/tag.md.j2", tags=TAGS, rest="rest") == USEFUL[text]


REFUSED = {
    "a model's method": "{{ tags[0].model_dump_json() }}",
    "a model's class method": "{{ tags[0].parse_raw('{}') }}",
    "a method of a string": "{{ rest.upper() }}",
    "format": "{{ '{0.__class__}'.format(rest) }}",
    "format of a format": "{{ rest.format }}",
    "percent": "{{ '%1000000000d' % 1 }}",
    "a method of a list": "{{ tags.append(1) }}",
    "a method of a dict": "{{ tags[0].items() }}",
    "a chain": "{{ rest.__class__.__mro__[1].__subclasses__() }}",
    "a chain of items": "{{ rest['__class__']['__mro__'] }}",
    "a literal's class": "{{ ().__class__ }}",
    "attr": "{{ rest | attr('__class__') }}",
    "map": "{{ tags | map(attribute='__class__') | list }}",
    "a deep map": "{{ tags | map(attribute='name.__class__') | list }}",
    "map of attr": "{{ tags | map('attr', '__class__') | list }}",
    "selectattr": "{{ tags | selectattr('name.__class__') | list }}",
    "groupby": "{{ tags | groupby('name.__class__') }}",
    "sort": "{{ tags | sort(attribute='name.__class__') }}",
    "cycler": "{{ cycler.__init__.__globals__ }}",
    "joiner": "{{ joiner('').__call__ }}",
    "namespace": "{{ namespace(a=1) }}",
    "lipsum": "{{ lipsum.__globals__ }}",
    "dict": "{{ dict(a=1) }}",
    "self": "{{ self.__init__.__globals__ }}",
    "self, printed": "{{ self }}",
    "a macro": "{% macro m() %}{% endmacro %}{{ m.__init__ }}",
    "a macro, printed": "{% macro m() %}{% endmacro %}{{ m }}",
    "caller": "{% macro m() %}{{ caller.__globals__ }}{% endmacro %}{% call m() %}{% endcall %}",
    "loop": "{% for tag in tags %}{{ loop.__class__ }}{% endfor %}",
    "loop's method": "{% for tag in tags %}{{ loop.cycle.__globals__ }}{% endfor %}",
    "a call of data": "{{ rest() }}",
    "a long string": "{{ 'a' * 10**9 }}",
    "a long list": "{{ [1] * 10**9 }}",
    "a large power": "{{ 10 ** 1000000000 }}",
    "range": "{% for one in range(10**9) %}{% endfor %}",
    "a wide text": "{{ 'a' | center(1000000000) }}",
    "a wide indent": "{{ rest | indent(1000000000) }}",
    "a long rounding": "{{ 1 | round(1000000000, 'ceil') }}",
    "a long separator": "{{ ('a' * 9999) | join('b' * 9999) }}",
    "a long replacement": "{{ ('a' * 9999) | replace('a', 'b' * 9999) }}",
    "doubled text": "{% set a = 'aaaaaaaa' %}" + "{% set a = a ~ a %}" * 40,
    "doubled blocks": "{% set a %}aaaaaaaa{% endset %}" + "{% set a %}{{ a }}{{ a }}{% endset %}" * 40,
    "doubled lists": "{% set a = [1] %}" + "{% set a = [a, a] %}" * 60 + "{{ a }}",
    "nested loops": "{% for a in 'x' * 99 %}" * 5 + "{% endfor %}" * 5,
    "itself": "{% include 'judging/tag.md.j2' %}" * 2,
    "two macros": "{% macro m(n) %}{{ m(n) }}{{ m(n) }}{% endmacro %}{{ m(1) }}",
}


@pytest.mark.parametrize("attack", REFUSED)
def test_unsafe_template_is_refused_with_its_name_and_line(attack: str, tmp_path: Path) -> None:
    write_template(tmp_path, "judging/tag.md.j2", f"Tags:\n{REFUSED[attack]}")
    with pytest.raises(UsageError, match=r"^template judging/tag\.md\.j2:[12] cannot be rendered: ."):
        Prompts(tmp_path).render("judging/tag.md.j2", tags=TAGS, rest="rest")


def test_error_in_an_included_template_names_its_own_line(tmp_path: Path) -> None:
    write_template(tmp_path, "judging/tag.md.j2", "{% include 'judging/more.md.j2' %}")
    write_template(tmp_path, "judging/more.md.j2", "\n\n{{ rest.upper() }}")
    with pytest.raises(UsageError, match=r"judging/more\.md\.j2:3"):
        Prompts(tmp_path).render("judging/tag.md.j2", rest="rest")


def test_value_of_an_unsupported_type_is_refused(tmp_path: Path) -> None:
    write_template(tmp_path, "judging/tag.md.j2", "{{ rest }}")
    with pytest.raises(UsageError, match=r"value of type \w*Path"):
        Prompts(tmp_path).render("judging/tag.md.j2", rest=tmp_path)
