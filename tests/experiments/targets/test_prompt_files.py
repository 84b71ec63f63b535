"""Parsing of prompt files."""

import pytest

from evalscribe.errors import DataError
from evalscribe.experiments.definitions import parse_prompt


def test_yaml_json_markdown_and_text_give_the_same_prompt() -> None:
    forms = {
        "p.yaml": "model: openai/m\nsystem: Be kind.\ntext: Answer {{input}}\nmax_tokens: 9\n",
        "p.json": '{"model": "openai/m", "max_tokens": 9, "messages": ['
        '{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Answer {{input}}"}]}',
        "p.md": "---\nmodel: openai/m\nsystem: Be kind.\nmax_tokens: 9\n---\n\nAnswer {{input}}\n",
        "p.txt": "\ufeff---\r\nmodel: openai/m\r\nsystem: Be kind.\r\nmax_tokens: 9\r\n---\r\nAnswer {{input}}\r\n",
    }
    parsed = {name: parse_prompt(text, name) for name, text in forms.items()}
    assert {(one.model, one.max_tokens, one.all_messages) for one in parsed.values()} == {
        ("openai/m", 9, parsed["p.json"].messages)
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("text: hello", "has no {{input}}"),
        ("text: '{{inputs}}'", "{{inputs}} is not a variable"),
        ("txt: '{{input}}'", "txt is unknown; the fields are model"),
        ("system: '{{input}}'", "has no user message"),
        ("text: '{{input}}'\nmax_tokens: 0", "max_tokens: "),
        ("text: '{{input}}'\neffort: enormous", "effort: "),
        ("text: '{{input}}'\noutput_schema: {type: nothing}", "output_schema"),
        ("text: '{{input}}'\nmessages: [{role: user, content: x}]", "has both `messages` and `text`"),
        ("messages: [{role: user, content: '{{input}}'}, {role: assistant, content: x}]", "it must be a user message"),
        ("messages: [{role: user, content: '{{input}}'}, {role: system, content: x}]", "is from the system"),
        ("messages: [{role: assistant, content: x}, {role: user, content: '{{input}}'}]", "system messages must come"),
        ("- a", "a prompt must be an object"),
        ("a: [", "p.yaml:1"),
    ],
)
def test_invalid_prompt_error_names_the_file_and_the_problem(text: str, message: str) -> None:
    with pytest.raises(DataError) as error:
        parse_prompt(text, "p.yaml")
    assert message in str(error.value)
    assert str(error.value).startswith("p.yaml")


def test_unclosed_front_matter_is_refused() -> None:
    with pytest.raises(DataError, match="no --- line"):
        parse_prompt("---\nmodel: openai/m\nAnswer {{input}}\n", "p.md")
