"""Answer parsing: tables of unusual answers that are accepted and of answers that are refused."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalscribe.judging.answer_parsing import LONGEST_PROBLEM, MOST_PROBLEMS, parse_answer
from evalscribe.model.rubric import OutputParsingMode, PromptTemplateMessage, Rubric
from support.machine_speed import cpu_below

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "label": {"type": "string", "enum": ["pass", "fail"]},
        "why": {"type": "string", "citations": True},
        "score": {"type": "number"},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["label", "why"],
    "additionalProperties": False,
}
LENIENT: dict[str, Any] = {"type": "object", "properties": {"label": {"type": "string"}}}
XML = Rubric(rubric_text="Did it work?", output_schema=SCHEMA)
PLAIN = Rubric(
    rubric_text="Did it work?", output_schema=SCHEMA, output_parsing_mode=OutputParsingMode.CONSTRAINED_DECODING
)
GOOD = '{"label": "pass", "why": "it ran"}'
OTHER = '{"label": "fail", "why": "it broke"}'
PASS, FAIL = json.loads(GOOD), json.loads(OTHER)
HALF = '{"label": "pass", "why": "it r'


VALUES = st.recursive(
    st.text() | st.booleans() | st.none() | st.floats(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def tagged(*contents: str) -> str:
    return " then ".join(f"<response>{content}</response>" for content in contents)


READ: dict[str, tuple[str, dict[str, Any]]] = {
    "a tag": (tagged(GOOD), PASS),
    "a tag after thoughts about <response> tags": ("I answer in <response> tags.\n" + tagged(GOOD), PASS),
    "a fence in a tag": (tagged(f"\n```json\n{GOOD}\n```\n"), PASS),
    "a fence around tags": (f"```\n{tagged(GOOD)}\n```", PASS),
    "prose in a tag": (tagged(f"Here it is: {GOOD}. Done."), PASS),
    "prose with braces in a tag": (tagged(f"the set {{1, 2}} of {{x}} gives {GOOD}"), PASS),
    "the first tag that fits wins": (tagged(OTHER, GOOD), FAIL),
    "a bad tag before a good one": (tagged("not yet", '{"label": "maybe", "why": ""}', GOOD), PASS),
    "half a JSON in a tag before a good one": (tagged(HALF, GOOD), PASS),
    "tags in tags": (f"<response>{tagged(GOOD)}</response>", PASS),
    "an answer begun anew in the same tag": (f"<response>{HALF} - again: <response>{OTHER}</response>", FAIL),
    "tags in a string": (
        tagged('{"label": "fail", "why": "it says <response>{}</response> and </response>"}'),
        {"label": "fail", "why": "it says <response>{}</response> and </response>"},
    ),
    "an opening tag without an end": (f"<response>{GOOD}", PASS),
    "no tag at all": (GOOD, PASS),
    "no tag but a fence": (f"```json\n{GOOD}\n```", PASS),
    "no tag but prose": (f"My verdict, by rule [2]:\n{GOOD}\nThat is all.", PASS),
    "another tag": (f"<answer>{GOOD}</answer>", PASS),
    "the same object twice without a tag": (f"{GOOD}\nTo repeat: {GOOD}", PASS),
    "an object that does not fit beside one that does": (f'Of {{"a": 1}} I say {GOOD}', PASS),
    "trailing commas": (
        tagged('{"label": "pass", "why": "it ran", "tags": ["a", "b" , ],\n}'),
        {**PASS, "tags": ["a", "b"]},
    ),
    "commas before brackets in strings stay": (
        tagged('{"label": "pass", "why": "f(a,) [1, ] {,}",}'),
        {"label": "pass", "why": "f(a,) [1, ] {,}"},
    ),
    "raw line ends in a string": (
        tagged('{"label": "pass", "why": "one\ntwo\tthree"}'),
        {"label": "pass", "why": "one\ntwo\tthree"},
    ),
    "braces and quotes in strings": (
        tagged(r'{"label": "pass", "why": "{ \"a\": [ } \\"}'),
        {"label": "pass", "why": '{ "a": [ } \\'},
    ),
    "half a surrogate becomes storable": (tagged(r'{"label": "pass", "why": "\ud83d"}'), {"label": "pass", "why": "?"}),
}

BAD: dict[str, tuple[str, str]] = {
    "nothing": ("", "no JSON object"),
    "prose": ("I cannot say.", "no JSON object"),
    "an empty tag": (tagged(""), "no JSON object"),
    "half a JSON": (tagged(HALF), "ends inside a string"),
    "half a JSON without its bracket": (tagged('{"label": "pass", "why": "it ran"'), "closing brackets are missing"),
    "half a JSON around a whole one": (f'{{"draft": {GOOD}, "label": ', "closing brackets are missing"),
    "a whole one in another": (tagged(f'{{"response": {GOOD}}}'), "response"),
    "wrong enum": (tagged('{"label": "maybe", "why": "it ran"}'), "label: must be one of"),
    "wrong enum by case": (tagged('{"label": "Pass", "why": "it ran"}'), "label: must be one of"),
    "wrong type": (tagged('{"label": "pass", "why": 3}'), "why: must be of type string"),
    "extra keys": (tagged('{"label": "pass", "why": "it ran", "note": 1}'), "note"),
    "missing key": (tagged('{"label": "pass"}'), "why"),
    "a list": (tagged(f"[{GOOD}]"), "must be a JSON object, not a list"),
    "a string": (tagged(json.dumps(GOOD)), "no JSON object"),
    "null": (tagged("null"), "no JSON object"),
    "a label without JSON": (tagged("pass"), "no JSON object"),
    "YAML": (tagged("label: pass\nwhy: it ran"), "no JSON object"),
    "single quotes": (tagged("{'label': 'pass', 'why': 'it ran'}"), "no JSON object"),
    "comments": (tagged('{"label": "pass", // sure\n"why": "it ran"}'), "not JSON"),
    "two commas": (tagged('{"label": "pass",, "why": "it ran"}'), "not JSON"),
    "unescaped quotes": (tagged('{"label": "pass", "why": "it "ran" ok"}'), "not JSON"),
    "a key twice": (tagged('{"label": "fail", "why": "it ran", "label": "pass"}'), "'label' occurs twice"),
    "NaN": (tagged('{"label": "pass", "why": "it ran", "score": NaN}'), "NaN is not a JSON number"),
    "Infinity": (tagged('{"label": "pass", "why": "it ran", "score": -Infinity}'), "-Infinity is not a JSON number"),
    "a number beyond all numbers": (
        tagged('{"label": "pass", "why": "it ran", "score": 1e999}'),
        "1e999 is not a JSON number",
    ),
    "a number of 5000 digits": (tagged('{"label": "pass", "why": "", "score": ' + "9" * 5000 + "}"), "not JSON"),
    "two answers without a tag": (f"{GOOD} or {OTHER}", "2 different JSON objects fit"),
    "two answers in one tag": (tagged(f"{GOOD} or {OTHER}"), "2 different JSON objects fit"),
    "nested without end": (tagged('{"a":' * 5000 + "1" + "}" * 5000), "nested more than"),
    "more objects than anybody gives": (tagged('{"a": 1} ' * 500), "more than 100 JSON objects"),
}


@pytest.mark.parametrize(("text", "output"), READ.values(), ids=READ.keys())
def test_unusual_but_valid_answer_is_parsed(text: str, output: dict[str, Any]) -> None:
    assert parse_answer(text, XML) == output


@pytest.mark.parametrize(("text", "problem"), BAD.values(), ids=BAD.keys())
def test_invalid_answer_reports_its_problem(text: str, problem: str) -> None:
    read = parse_answer(text, XML)
    assert isinstance(read, list)
    assert problem in "\n".join(read)


def test_constrained_decoding_reads_the_whole_text() -> None:
    assert parse_answer(GOOD, PLAIN) == PASS
    assert parse_answer(f"```json\n{GOOD}\n```", PLAIN) == PASS
    assert parse_answer(HALF, PLAIN) == ["the JSON ends inside a string"]
    assert parse_answer(tagged(GOOD, OTHER), PLAIN) == ["2 different JSON objects fit the schema: give one"]


def test_rubric_sets_the_answer_tag() -> None:
    message = PromptTemplateMessage(role="user", content="{agent_run} {rubric} {output_schema} <answer>")
    rubric = Rubric(rubric_text="?", output_schema=SCHEMA, response_xml_key="answer", prompt_templates=(message,))
    assert parse_answer(f"<response>{OTHER}</response><answer>{GOOD}</answer>", rubric) == PASS


def test_lenient_schema_does_not_accept_part_of_an_answer() -> None:
    rubric = Rubric(rubric_text="?", output_schema=LENIENT)
    assert parse_answer('<response>{"label": {"why": {}</response>', rubric) == [
        "the JSON is not whole: closing brackets are missing"
    ]
    quoting = '{"label": "it says <response>{}</response>"}'
    assert parse_answer(tagged(quoting), rubric) == json.loads(quoting)


@pytest.mark.parametrize(
    "text",
    [
        "{" * 1_000_000,
        '{"' * 500_000,
        '{"a":' * 200_000,
        "[{" * 500_000,
        "{ " * 500_000,
        '{"a":1}' * 140_000,
        "<response>" * 100_000,
        "<response>{" * 90_000,
        '<response>{"</response>' * 45_000,
        '<response>{"a":"\\"</response>' * 35_000,
        "<response></response>" * 47_000,
        tagged('{"label":"' + '\\"' * 500_000),
        tagged('{"label":' + " ," * 500_000 + "}"),
        tagged('{"label":' + "," + " " * 1_000_000 + "x}"),
        tagged('{"label": [' + '"x",' * 250_000 + "]"),
    ],
    ids=lambda text: text[:24],
)
@pytest.mark.benchmark
def test_hostile_text_is_parsed_within_two_cpu_seconds(text: str) -> None:
    with cpu_below(2):
        read = parse_answer(text, XML)
    assert isinstance(read, list)
    assert len(read) <= MOST_PROBLEMS
    assert max(map(len, read)) <= LONGEST_PROBLEM


@given(VALUES, st.text())
def test_arbitrary_text_is_refused_without_a_crash(value: object, prose: str) -> None:
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False), prose, tagged(json.dumps(value) + prose)):
        for rubric in (XML, PLAIN):
            read = parse_answer(text, rubric)
            assert isinstance(read, list)
            assert read


@given(why=st.text(), label=st.sampled_from(["pass", "fail"]), around=st.text(alphabet='ab {}[]`"\n<>'))
def test_any_answer_text_survives_a_round_trip(why: str, label: str, around: str) -> None:
    output = {"label": label, "why": why}
    assert parse_answer(tagged(json.dumps(output)) + around, XML) == output
    assert parse_answer(tagged(f"```json\n{json.dumps(output, ensure_ascii=False)}\n```") + around, XML) == output
