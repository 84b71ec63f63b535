"""Choice of the collection that a command works with."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import mkdtemp

import pytest

from evalscribe.collections.lookup import ARGUMENT, choose_collection, plan_collection
from evalscribe.errors import EvalscribeError, NotFoundError, UsageError
from evalscribe.model.rubric import Collection
from evalscribe.settings import Options
from evalscribe.workspace import Workspace


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[..., Workspace]]:
    """Return a function that makes a workspace with collections, each `id` or `id=name`."""
    with ExitStack() as stack:

        def make(*collections: str, configured: str | None = None) -> Workspace:
            folder = Path(mkdtemp(dir=tmp_path))
            workspace = stack.enter_context(Workspace(Options(collection=configured), folder=folder, environ={}))
            for one in collections:
                workspace.store.collections.add_collection(
                    Collection(id=one.partition("=")[0], name=one.rpartition("=")[2])
                )
            return workspace

        yield make


@pytest.mark.parametrize(
    ("collections", "named", "configured", "expected"),
    [
        pytest.param(("a", "b"), "b", None, "b", id="by id"),
        pytest.param(("a", "b=Beta"), "Beta", None, "b", id="by name"),
        pytest.param(("a=b", "b"), "b", None, "b", id="an id comes before a name"),
        pytest.param(("a", "b"), None, "a", "a", id="configured"),
        pytest.param(("a", "b"), "b", "a", "b", id="said beats configured"),
        pytest.param(("a",), None, None, "a", id="the only one"),
        pytest.param(("default", "a"), None, None, "a", id="the only one beside that of rubrics"),
        pytest.param(("default", "a"), "default", None, "default", id="that of rubrics"),
    ],
)
def test_collection_is_chosen_by_argument_setting_or_as_the_only_one(
    opened: Callable[..., Workspace],
    collections: tuple[str, ...],
    named: str | None,
    configured: str | None,
    expected: str,
) -> None:
    assert choose_collection(opened(*collections, configured=configured), named).id == expected


@pytest.mark.parametrize(
    ("collections", "named", "kind", "message"),
    [
        pytest.param(
            ("a", "b=Beta"), "c", NotFoundError, r"collection 'c' not found; collections: a, Beta \(b\)", id="unknown"
        ),
        pytest.param(
            (), "c", NotFoundError, "there is none yet: `evalscribe import FILE` creates one", id="none at all"
        ),
        pytest.param((), None, NotFoundError, "collection yet", id="none"),
        pytest.param(("default",), None, NotFoundError, "collection yet", id="only that of rubrics"),
        pytest.param(("a", "b"), None, UsageError, r"choose one with `collection`: a, b$", id="several"),
        pytest.param(tuple(map(str, range(12))), None, UsageError, "9 and 2 more", id="many"),
    ],
)
def test_unknown_or_ambiguous_collection_is_refused(
    opened: Callable[..., Workspace],
    collections: tuple[str, ...],
    named: str | None,
    kind: type[EvalscribeError],
    message: str,
) -> None:
    with pytest.raises(kind, match=message):
        choose_collection(opened(*collections), named)


def test_sdk_errors_use_the_names_of_the_sdk(opened: Callable[..., Workspace]) -> None:
    with pytest.raises(UsageError, match=r"choose one with `collection_id`: a, b$"):
        choose_collection(opened("a", "b"), None, ARGUMENT)
    for named in ("c", None):
        with pytest.raises(NotFoundError, match=r"yet: Client\.import_file creates one$"):
            choose_collection(opened(), named, ARGUMENT)


def test_import_reuses_a_collection_or_plans_a_new_id() -> None:
    collections = (Collection(id="my-file", name="my file"), Collection(id="other", name="other"))
    assert plan_collection(collections, "my file", None, "x").id == "my-file"
    assert plan_collection(collections, None, None, "my/file!") == Collection(id="my-file-2", name="my/file!")
    assert plan_collection(collections, None, "other", "x") == Collection(id="other", name="other")
    assert plan_collection(collections, None, "new", "x") == Collection(id="new", name="x")
