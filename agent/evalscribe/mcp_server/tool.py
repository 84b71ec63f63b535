"""A function as a tool: its arguments are closed, its result has a schema, and its errors say what to do next."""

import inspect
import json
import logging
import re
import traceback
from collections.abc import Callable, Iterable
from functools import partial, wraps
from typing import Annotated, Any, get_type_hints

from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools.base import Tool
from mcp.types import CallToolResult, TextContent, ToolAnnotations
from pydantic import BaseModel, ValidationError

from evalscribe.errors import EvalscribeError, UsageError
from evalscribe.mcp_server.apart import aside
from evalscribe.model.result import describe_validation_error
from evalscribe.redaction.redact import redact
from evalscribe.text import visible

READS = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
"""Changes nothing, costs nothing, asks nobody."""
WORKS = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=True)
"""May write reports or the store, ask a model or a deployment; nothing is ever taken away."""
STORES = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
"""May write the store."""
STARTS = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=True)
"""May run the user's own code; called again, it does so again."""
BUG = "this is a bug of evalscribe, and was logged on the server's standard error. Another call may work."
INSTEAD = {
    r"import FILE": "import_file with write=true",
    r"reports list": "list_reports",
    r"reports wait \S+": "get_experiment_run with wait_seconds",
    r"reports failures RUN": "get_experiment_run",
    r"analyze RUN": "analyze",
    r"analyze [0-9a-f]+": "analyze with write_report",
    r"experiments run": "run_experiment",
    r"experiments runs list \S+": "get_experiment",
    r"experiments runs resume( [^`]+)?": "resume_experiment_run",
    r"datasets versions list NAME": "get_dataset",
}
"""What people are told to run after `evalscribe`, as tools."""
ARGUMENTS = {r"--budget(?: USD)?(?![\w-])": "`budget_usd`", r"--max-tokens(?: N)?(?![\w-])": "`max_tokens`"}
"""Options that every tool has under another name."""
log = logging.getLogger("evalscribe.mcp")


class _Tool(Tool):
    """One whose wrong arguments are told in one line."""

    async def run(self, arguments: dict[str, Any], context: Any, convert_result: bool = False) -> Any:
        try:
            self.fn_metadata.validate_arguments(arguments)
        except ValidationError as error:
            known = ", ".join(self.parameters["properties"])
            wrong = UsageError(f"{describe_validation_error(self.name, error)}\nIts arguments: {known or 'none'}")
            raise ToolError(told(wrong)) from None
        return await super().run(arguments, context, convert_result)


def tool(function: Callable[..., Any], hints: ToolAnnotations) -> Tool:
    """Named, described and typed as the function is; one that does not await runs in a thread."""
    returns = get_type_hints(function, include_extras=True)["return"]

    @wraps(function)
    async def called(**arguments: Any) -> CallToolResult:
        with_errors = partial(function, **arguments)
        try:
            found = await (with_errors() if inspect.iscoroutinefunction(function) else aside(with_errors))
            return _result(found)
        except EvalscribeError as error:
            raise ToolError(told(error, signature.parameters)) from None
        except Exception:
            log.error("%s", redact(traceback.format_exc()))
            raise ToolError(BUG) from None

    signature = inspect.signature(function, eval_str=True)
    called.__signature__ = signature.replace(return_annotation=Annotated[CallToolResult, returns])  # type: ignore[attr-defined]
    made = _Tool.from_function(
        called,
        name=function.__name__,
        description=inspect.getdoc(function),
        context_kwarg="ctx" if "ctx" in signature.parameters else None,
        annotations=hints,
        structured_output=True,
    )
    return _closed(made)


def told(error: EvalscribeError, arguments: Iterable[str] = ()) -> str:
    """What happened and what to do next, without secrets and without what cannot be seen. Options of the command line
    are told as the arguments of this tool, commands as tools."""
    said = visible(redact(str(error))).encode("utf-8", "replace").decode()
    said = by_tools(said)
    for name in arguments:
        said = re.sub(rf"(?<![\w-])--{name.replace('_', '-')}(?![\w-])", f"`{name}`", said)
    return said


def by_tools(text: str) -> str:
    """Commands that people are told to run are told as tools."""
    for command, instead in INSTEAD.items():
        text = re.sub(f"`(evalscribe )?{command}`", instead, text)
    for option, argument in ARGUMENTS.items():
        text = re.sub(option, argument, text)
    return text


def _result(found: BaseModel) -> CallToolResult:
    """The same twice, as the protocol asks for: for clients that read text only, without white space."""
    text = found.model_dump_json()
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=json.loads(text))


def _closed(made: Tool) -> Tool:
    """An argument that nobody declared is an error, not nothing: it was meant."""
    arguments = made.fn_metadata.arg_model  # made for this tool alone
    arguments.model_config["extra"] = "forbid"
    arguments.model_rebuild(force=True)
    made.parameters = arguments.model_json_schema(by_alias=True)
    return made
