"""Execution order of scorers."""

import pytest

from evalscribe.errors import UsageError
from evalscribe.experiments.scorers.catalogue import order_bindings
from evalscribe.model.score import Binding, ScorerSpec


def bindings(**needs: str) -> list[Binding]:
    return [
        Binding(spec=ScorerSpec(name=name, scorer="custom", depends_on=tuple(wanted.split())))
        for name, wanted in needs.items()
    ]


def names(**needs: str) -> str:
    return " ".join(binding.spec.name for binding in order_bindings(bindings(**needs)))


def test_scorers_follow_their_dependencies_and_otherwise_keep_their_order() -> None:
    assert names(c="a b", b="a", a="", d="") == "a b c d"
    assert names(z="", y="", x="z") == "z y x"


@pytest.mark.parametrize(
    ("needs", "message"),
    [
        ({"a": "b", "b": "a", "c": ""}, "cyclic dependency: a, b"),
        ({"a": "a"}, "cyclic dependency: a"),
        ({"a": "nobody"}, "a depends on nobody, which is not attached"),
    ],
)
def test_cyclic_and_missing_dependencies_are_refused(needs: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        order_bindings(bindings(**needs))


def test_duplicate_scorer_name_is_refused() -> None:
    with pytest.raises(UsageError, match="two scorers are called a"):
        order_bindings([*bindings(a=""), *bindings(a="")])
