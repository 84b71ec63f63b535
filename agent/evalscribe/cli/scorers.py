"""Implements `evalscribe experiments scorers create|list|show`."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from evalscribe.cli.interrupts import run_until_signal
from evalscribe.cli.tables import Format, print_document, print_id, print_list, validate_format
from evalscribe.errors import UsageError
from evalscribe.experiments.scorers.catalogue import ScorerInfo, list_scorers
from evalscribe.experiments.scorers.stored import (
    CreatedScorer,
    builtin_spec,
    create_scorer,
    find_scorer,
    function_spec,
    parse_config,
    rubric_sources,
)
from evalscribe.model.score import Scorer
from evalscribe.text import cut
from evalscribe.workspace import Workspace

SHOWN_KEYS = 60
"""Maximum number of characters of a config that a table shows."""


def create(
    name: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Name of the scorer. Default: the name given in the function's decorator.",
            show_default=False,
        ),
    ] = None,
    function: Annotated[
        str | None,
        typer.Option(
            metavar="python:PKG.MOD:FN", help="A function decorated with @evalscribe.scorer.", show_default=False
        ),
    ] = None,
    folder: Annotated[
        Path,
        typer.Option(
            metavar="DIR", help="Folder to import the function from. Default: the current folder.", show_default=True
        ),
    ] = Path("."),
    builtin: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Built-in scorer to base the new one on. Needs --name.", show_default=False),
    ] = None,
    config: Annotated[
        str | None, typer.Option(metavar="JSON", help="Settings of the scorer, as a JSON object.", show_default=False)
    ] = None,
    description: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="Description of the scorer. Default: the text given in the function's decorator.",
            show_default=False,
        ),
    ] = None,
    form: Format = "table",
) -> int:
    """Create a scorer from your own function, or from a built-in scorer and a config. Prints its id."""
    validate_format(form)
    if (function is None) == (builtin is None):
        raise UsageError("a scorer needs either --function python:package.module:function or --builtin NAME")
    if builtin is not None and name is None:
        raise UsageError("a scorer made from a built-in scorer needs a name of its own: give --name NAME")
    with Workspace() as workspace:
        if function is not None:
            result = _of_function(workspace, name, function, folder, config, description)
        else:
            result = _of_builtin(workspace, name or "", builtin or "", config, description or "")
    scorer = f"scorer {result.scorer.name}, version {result.scorer.number} ({result.scorer.spec.id})"
    print_id(result.scorer.id, result.scorer, f"Made {scorer}" if result.new else f"unchanged: {scorer}", form)
    return 0


def list_all(
    builtin: Annotated[
        bool, typer.Option("--builtin", help="List the built-in scorers and the config keys of each scorer.")
    ] = False,
    form: Format = "table",
) -> int:
    """List your scorers or, with --builtin, the built-in scorers."""
    if builtin:
        print_list(
            list_scorers(), ("scorer", "asks", "config"), lambda info: (info.name, _line(info), _keys(info)), form, ""
        )
        return 0

    with Workspace() as workspace:
        rows = workspace.store.experiments.scorers()
    heads = ("id", "name", "version", "made of", "config")
    none = "There is no scorer yet: `experiments scorers create` creates one, `--builtin` lists the built-in ones."
    print_list(rows, heads, _cells, form, none)
    return 0


def show(
    scorer: Annotated[
        str,
        typer.Argument(
            metavar="SCORER",
            help="A scorer: id, first characters of the id, or name; or the name of a built-in scorer.",
        ),
    ],
    form: Format = "table",
) -> int:
    """Show one of your scorers, or a built-in scorer with the schema of its config."""
    info = next((item for item in list_scorers() if item.name == scorer), None)
    if info is not None:
        print_document(info, lambda: _of_listed(info), form)
        return 0
    with Workspace() as workspace:
        scorer_record = find_scorer(workspace.store.experiments, scorer)
    print_document(scorer_record, lambda: _of_scorer(scorer_record), form)
    return 0


def _of_function(
    workspace: Workspace, name: str | None, function: str, folder: Path, config: str | None, description: str | None
) -> CreatedScorer:
    at = folder.resolve()
    spec, docstring = run_until_signal(function_spec(name, function, at, parse_config(config)))
    return create_scorer(workspace.store.experiments, spec, workspace.now(), description or docstring, str(at))


def _of_builtin(workspace: Workspace, name: str, builtin: str, config: str | None, description: str) -> CreatedScorer:
    settings = parse_config(config)
    spec = builtin_spec(name, builtin, settings, rubric_sources(workspace.store.collections, workspace.prompts))
    return create_scorer(workspace.store.experiments, spec, workspace.now(), description)


def _line(info: ScorerInfo) -> str:
    return f"{info.line} (a setting of {info.of})" if info.of else info.line


def _keys(info: ScorerInfo) -> str:
    """Format the keys that a scorer's config can have. Required keys come first and are marked with a star."""
    keys = [key for key in info.config_schema.get("properties", {}) if key not in info.required]
    return ", ".join([*(f"{key}*" for key in info.required), *keys])


def _cells(scorer: Scorer) -> tuple[object, ...]:
    return scorer.id, scorer.name, scorer.number, _of(scorer), cut(_config(scorer), SHOWN_KEYS)


def _of(scorer: Scorer) -> str:
    return f"python:{scorer.spec.address}" if scorer.spec.address else scorer.spec.scorer


def _config(scorer: Scorer) -> str:
    return json.dumps(
        {key: value for key, value in scorer.spec.config.items() if value is not None}, ensure_ascii=False
    )


def _of_scorer(scorer: Scorer) -> Iterator[str]:
    spec = scorer.spec
    yield f"{scorer.name} ({scorer.id}), version {scorer.number} ({spec.id})"
    yield from ([scorer.description] if scorer.description else [])
    facts = {
        "made of": _of(scorer),
        "folder": scorer.folder,
        "source": spec.code or "" if spec.address else "",
        "model": spec.model or "",
        "rubric": f"{spec.rubric.id}@{spec.rubric.version} ({spec.rubric.digest})" if spec.rubric else "",
        "depends on": ", ".join(spec.depends_on),
        "config": _config(scorer),
    }
    yield from (f"{key:<10}  {fact}" for key, fact in facts.items() if fact)


def _of_listed(info: ScorerInfo) -> Iterator[str]:
    model = "; it calls a model" if info.needs_model else ""
    yield f"{info.name}: {_line(info)}{model}"
    yield from ([f"other names of its settings: {', '.join(info.aliases)}"] if info.aliases else [])
    required = f" ({', '.join(info.required)} required)" if info.required else ""
    yield f"Its config{required}, as JSON Schema:"
    yield json.dumps(info.config_schema, indent=2, ensure_ascii=False)
