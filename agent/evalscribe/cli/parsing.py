"""Parse command lines.

This module adds the options that every command has, and gives all help pages the same layout.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from evalscribe.cli import logs
from evalscribe.errors import UsageError

JSON = "json"
OTHER_NAMES = frozenset(("--artifact-format", "--out-file", "--reason"))
"""Aliases of options, which the help does not list."""
FORMS = {"agent-run-analysis": "the write-up for a task's pull request"}
"""Descriptions of those output formats whose names are not self-explanatory."""
OUTPUT = "Output"
"""Heading in the help for the options that every command has."""
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="Print no progress and no notes.", rich_help_panel=OUTPUT)]
Verbose = Annotated[
    bool, typer.Option("-v", "--verbose", help="Print a log to standard error.", rich_help_panel=OUTPUT)
]
_JsonFlag = Annotated[
    bool, typer.Option("--json", help="Short for --format json.", show_default=False, rich_help_panel=OUTPUT)
]
_FORM, _JSON, _QUIET, _VERBOSE = "chosen_format", "json_flag", "is_quiet", "is_verbose"
"""Names of the parameters that are added to the functions of commands. No command declares them itself."""


def with_common_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add to a command's function the options that all commands have.

    Every command gets `-q` and `-v`. A command that declares only one of `--format` and `--json` gets the other as
    well.
    """
    declared = signature(function, eval_str=True)
    forms = [_form(name) for name in declared.parameters if name.startswith("as_")]
    format_parameter = next(
        (parameter for parameter in declared.parameters.values() if "--format" in _names(parameter)), None
    )
    added = {_VERBOSE: Verbose}
    if "quiet" not in declared.parameters:
        added = {_QUIET: Quiet, **added}
    if format_parameter is not None and JSON in (_option(format_parameter).metavar or "").split("|"):
        added = {_JSON: _JsonFlag, **added}
    elif format_parameter is None and forms:
        added = {_FORM: _format_option(forms), **added}

    @wraps(function)
    def command(**values: Any) -> Any:
        common = {name: values.pop(name, None) for name in (_FORM, _JSON, _QUIET, _VERBOSE)}
        set_output(quiet=bool(common[_QUIET] or values.get("quiet")), verbose=bool(common[_VERBOSE]))
        if common[_FORM] not in (None, "text"):
            if common[_FORM] not in forms:
                raise UsageError(f"--format {common[_FORM]!r} is not one of {', '.join(('text', *forms))}")
            values[f"as_{common[_FORM].replace('-', '_')}"] = True
        if common[_JSON] and format_parameter is not None:
            if values[format_parameter.name] not in (None, format_parameter.default, JSON):
                raise UsageError(
                    f"--json and --format {values[format_parameter.name]} contradict each other: give one of them"
                )
            values[format_parameter.name] = JSON
        return function(**values)

    options = [
        Parameter(name, Parameter.KEYWORD_ONLY, annotation=kind, default=None if name == _FORM else False)
        for name, kind in added.items()
    ]
    # Typer reads the options of a command from this signature.
    command.__signature__ = Signature([*declared.parameters.values(), *options])  # type: ignore[attr-defined]
    return command


def _form(parameter: str) -> str:
    """Return the name of the output format that a parameter selects, such as `json` for `as_json`."""
    return parameter.removeprefix("as_").replace("_", "-")


def set_output(*, quiet: bool, verbose: bool) -> None:
    """Apply `-q` and `-v` until the command ends."""
    if quiet:
        logs.set_quiet()
    if verbose:
        logs.log_to_stderr()


def _format_option(forms: Sequence[str]) -> Any:
    metavar = "|".join(("text", *forms))
    about = "".join(f"; {form}: {FORMS[form]}" for form in forms if form in FORMS)
    return Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar=metavar,
            help=f"{'' if about else 'Output format. '}Default: text{about}.",
            show_default=False,
            rich_help_panel=OUTPUT,
        ),
    ]


def _option(parameter: Parameter) -> Any:
    """Return the Typer object that describes a parameter; None if there is none."""
    return next(iter(getattr(parameter.annotation, "__metadata__", ())), None)


def _names(parameter: Parameter) -> tuple[str, ...]:
    info = _option(parameter)
    declared = (getattr(info, "default", None), *(getattr(info, "param_decls", None) or ()))
    return tuple(name for name in declared if isinstance(name, str))


class CommandParser(TyperCommand):
    """Parser of one command."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return ["[OPTIONS]", *(_usage(each) for each in self.get_params(ctx) if _is_argument(each))]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        write_options(self.get_params(ctx), formatter)


def write_options(params: Iterable[Any], formatter: Any, *, apart: bool = True) -> None:
    """Write the help on arguments and options, grouped under headings.

    With `apart`, the options that every command has get a heading of their own.
    """
    panels: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
    last = []
    for param in sorted((param for param in params if not param.hidden), key=_rank):
        row = (_label(param), _help(param))
        if _rank(param):
            last.append(row)
        else:
            panels.setdefault("Arguments" if _is_argument(param) else param.rich_help_panel or "Options", []).append(
                row
            )
    # Every help page has to fit a screen, so a single option gets no heading of its own.
    for title in [title for title, rows in panels.items() if title != "Arguments" and len(rows) == 1]:
        panels["Options"] = [*panels["Options"], *panels.pop(title)] if title != "Options" else panels["Options"]
    if apart and panels["Options"]:
        panels[OUTPUT] = last
    else:
        panels["Options"] += last
    for title, rows in panels.items():
        if rows:
            with formatter.section(title):
                formatter.write_dl(rows)


LAST = ("--format", "--json", "--quiet", "--verbose", "--help")
"""Options that every command has. The help lists them last, in this order."""
REWORDED = {
    "--help": "Show this help.",
    "--install-completion": "Set up completion of commands in this shell.",
    "--show-completion": "Print the script that completes commands.",
}


def _rank(param: Any) -> int:
    """Return the position of an option among the options that are listed last, starting at 1; 0 for any other
    parameter.
    """
    names = () if _is_argument(param) else param.opts
    is_last = "--help" in names or getattr(param, "rich_help_panel", None) == OUTPUT
    return next((number for number, name in enumerate(LAST, 1) if is_last and name in names), 0)


def _is_argument(param: Any) -> bool:
    return bool(param.param_type_name == "argument")


def _usage(param: Any) -> str:
    name = param.metavar or param.name.upper()
    if param.nargs != 1 and not name.endswith(("...", "…")):
        name += "..."
    return name if param.required or name.startswith("[") else f"[{name}]"


def _label(param: Any) -> str:
    """Format the names of an option and the kind of its value, for example `-o, --output FILE`."""
    if _is_argument(param):
        return str(param.metavar or param.name.upper())
    names = sorted((name for name in param.opts if name not in OTHER_NAMES), key=lambda name: name.startswith("--"))
    both = ", ".join(names)
    if param.is_flag:
        return "/".join((both, *param.secondary_opts))
    return f"{both} {param.metavar or param.name.upper()}"


def _help(param: Any) -> str:
    """Return the help text of a parameter, followed by its default value if that should be shown."""
    text = next((REWORDED[name] for name in param.opts if name in REWORDED), param.help or "")
    default = None if callable(param.default) else param.default
    hides_default = "default:" in text.lower() or _is_argument(param) or param.is_flag or not param.show_default
    if default not in (None, "", [], ()) and not hides_default:
        text += f" Default: {default}."
    return text if _is_argument(param) or not param.required else f"{text} Required."
