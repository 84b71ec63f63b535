"""`langgraph.json` names a graph that Studio and `langgraph dev` can load."""

import importlib.util
import json
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_factory_is_there_and_compiles() -> None:
    config = json.loads((ROOT / "langgraph.json").read_text())
    file, _, name = config["graphs"]["evalscribe"].partition(":")
    spec = importlib.util.spec_from_file_location("studio_graph", ROOT / file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    graph = getattr(module, name)()
    assert graph.checkpointer is None, "the server brings its own"
    assert {"plan", "lane", "tally"} <= set(graph.get_graph().nodes)
    assert "counts" in graph.get_output_jsonschema()["properties"]


def test_what_it_depends_on_is_this_project() -> None:
    config = json.loads((ROOT / "langgraph.json").read_text())
    assert [(ROOT / path / "pyproject.toml").is_file() for path in config["dependencies"]] == [True]
