"""Python function targets: calling conventions, return values and errors."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from evalscribe.errors import UsageError
from evalscribe.experiments.python_host import PythonHost, PythonTarget
from evalscribe.model.target import TargetCall, TargetFailure, TargetReply
from support.waiting import wait_until

Function = Callable[..., PythonTarget]
Hosted = Callable[[str], PythonHost]
GOLD = {"tier": "gold"}
Calling = Callable[..., TargetCall]

KINDS = """
import asyncio, dataclasses, datetime, functools
from pydantic import BaseModel

class Model(BaseModel):
    a: int
    at: datetime.date = datetime.date(2026, 1, 2)

@dataclasses.dataclass
class Data:
    a: int
    inner: object = None

class Callable:
    def __call__(self, input): return ["called", input]
    def method(self, input): return ["method", input]

def plain(input): return {"got": input}
async def asynchronous(input): await asyncio.sleep(0); return input + 1
def awaitable(input): return asynchronous(input)
def words(input): yield "a"; yield "b"
async def async_words(input): yield "a"; yield "b"
def parts(input): yield 1; yield "b"
def endless(input):
    while True: yield 1
def model(input): return [Model(a=input)]
def data(input): return Data(1, inner=Model(a=2))
def nothing(input): return None
def odd(input): return {"at": datetime.datetime(2026, 1, 1)}
def nan(input): return [float("nan")]
def circle(input): a = []; a.append(a); return a
def huge(input): return "x" * 17_000_000
instance = Callable()
bound = instance.method
partial = functools.partial(lambda extra, input: [extra, input], "extra")
def with_context(input, context):
    return [context.idempotency_key, context.item_key, context.repetition, context.run_id, context.metadata]
def named_context(input, temperature=0.5, context=None): return [temperature, context.item_key]
def own_default(input, other=3): return other
def keyword(input, *, context): return context.item_key
"""


GIVEN = {
    "plain": {"got": 1},
    "asynchronous": 2,
    "awaitable": 2,
    "words": "ab",
    "async_words": "ab",
    "parts": [1, "b"],
    "model": [{"a": 1, "at": "2026-01-02"}],
    "data": {"a": 1, "inner": {"a": 2, "at": "2026-01-02"}},
    "nothing": None,
    "instance": ["called", 1],
    "bound": ["method", 1],
    "instance.method": ["method", 1],
    "partial": ["extra", 1],
    "with_context": ["r1/k/2", "k", 2, "r1", {"tier": "gold"}],
    "named_context": [0.5, "k"],
    "own_default": 3,
    "keyword": "k",
}


async def test_return_values_of_every_kind_of_callable_become_json(hosted: Hosted, calling: Calling) -> None:
    host = hosted(KINDS)
    replies = {name: await PythonTarget(f"user:{name}", host).answer(calling(1, metadata=GOLD)) for name in GIVEN}
    assert {name: getattr(reply, "output", reply) for name, reply in replies.items()} == GIVEN


def until_there(path: Path) -> bool:
    """Wait for the path without giving the event loop a turn."""
    wait_until(path.exists, str(path))
    return path.exists()


async def test_begin_imports_the_module_in_the_background(function: Function, calling: Calling, tmp_path: Path) -> None:
    target = function("import pathlib\npathlib.Path('imported').touch()\ndef fn(input): return input")
    await target.begin()
    assert until_there(tmp_path / "imported")
    assert getattr(await target.answer(calling(1)), "output", None) == 1


async def test_unserialisable_return_value_fails_the_item_with_its_reason(hosted: Hosted, calling: Calling) -> None:
    expected = {
        "odd": "`datetime.datetime`",
        "nan": "nan",
        "circle": "Circular",
        "huge": "is 17.0 MB as JSON; the maximum is 16.8 MB",
        "endless": "yields more than",
    }
    host = hosted(KINDS)
    for name, word in expected.items():
        reply = await PythonTarget(f"user:{name}", host).answer(calling(1))
        assert isinstance(reply, TargetFailure)
        assert word.lower() in reply.reason.lower()
        assert reply.kind == "error"


ENVELOPE = """
def fn(input):
    print("looked up", input)
    return {
        "output": {"state": "refunded"},
        "messages": [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "", "tool_calls": [{"id": "1", "function": "find"}]},
            {"role": "tool", "tool_call_id": "1", "content": "found"},
        ],
        "state": {"db": {"orders": 1}},
        "usage": {"input_tokens": 12, "output_tokens": 3},
        "model": "vendor/one",
    }
"""


async def test_envelope_provides_transcript_state_usage_and_model(function: Function, calling: Calling) -> None:
    reply = await function(ENVELOPE).answer(calling({"id": 7}))
    assert isinstance(reply, TargetReply)
    assert reply.output == {"state": "refunded"}
    assert reply.transcript
    assert [message.role for message in reply.transcript.messages] == ["user", "assistant", "tool"]
    assert reply.state == {"db": {"orders": 1}}
    assert reply.usage
    assert (reply.usage.input_tokens, reply.model) == (12, "vendor/one")
    assert reply.log == "looked up {'id': 7}\n"


async def test_exception_reason_and_log_show_only_user_frames(function: Function, calling: Calling) -> None:
    source = "def fn(input):\n    print('before')\n    raise ValueError('no order\\n' + str(input))\n"
    failed = await function(source).answer(calling(3))
    assert isinstance(failed, TargetFailure)
    assert failed.reason == "ValueError: no order 3 (user.py:3)"
    assert failed.log.startswith("before\n")
    assert "user.py" in failed.log
    assert "loaded.py" not in failed.log


async def test_secrets_are_redacted_in_reason_and_log(function: Function, calling: Calling) -> None:
    key = "sk-ant-api03-" + "abcDEF123456" * 8
    source = f"def fn(input):\n    print('key {key}')\n    raise ValueError('bad key {key}')\n"
    failed = await function(source).answer(calling(3))
    assert key not in failed.model_dump_json()
    assert "[redacted" in failed.reason


@pytest.mark.parametrize(
    ("source", "name", "message"),
    [
        ("def fn(input): pass", "other", "`user` has no `other`; it has fn"),
        ("fn = 3", "fn", "is not a function but a `int`"),
        ("def fn(): pass", "fn", "must take (input)"),
        ("def fn(a, b, c): pass", "fn", "must take (input) or (input, context); unexpected parameters: c"),
        ("def fn(a, *, key): pass", "fn", "must take (input) or (input, context); unexpected parameters: key"),
        ("import nowhere", "fn", "No module named 'nowhere'"),
        ("import sys\nsys.exit(3)", "fn", "SystemExit: 3"),
        ("import os\nos._exit(3)", "fn", "exit code 3"),
        ("def fn(:", "fn", "SyntaxError"),
    ],
)
async def test_uncallable_function_is_refused_with_its_interpreter(
    hosted: Hosted, source: str, name: str, message: str
) -> None:
    with pytest.raises(UsageError) as error:
        await hosted(source).check(f"user:{name}", "component")
    assert message in str(error.value)
    assert f"with {sys.executable}" in str(error.value)


async def test_check_code_changes_only_with_imported_modules(hosted: Hosted, tmp_path: Path) -> None:
    folder = tmp_path
    (folder / "helper.py").write_text("A = 1\n")
    (folder / "other.py").write_text("A = 1\n")
    host = hosted("import helper\ndef fn(input, context):\n    '''Finds orders.'''\n")
    first = await host.check("user:fn", "component")
    assert (first.doc, first.parameters) == ("Finds orders.", ("input", "context"))
    (folder / "other.py").write_text("A = 2\n")
    assert (await host.check("user:fn", "component")).code == first.code
    (folder / "helper.py").write_text("A = 2\n")
    assert (await host.check("user:fn", "component")).code != first.code
