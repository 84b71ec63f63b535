"""In which order scorers are asked."""

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


def test_each_comes_after_what_it_depends_on_and_else_as_given() -> None:
    assert names(c="a b", b="a", a="", d="") == "a b c d"
    assert names(z="", y="", x="z") == "z y x"


@pytest.mark.parametrize(
    ("needs", "said"),
    [
        ({"a": "b", "b": "a", "c": ""}, "cyclic dependency: a, b"),
        ({"a": "a"}, "cyclic dependency: a"),
        ({"a": "nobody"}, "a depends on nobody, which is not attached"),
    ],
)
def test_circles_and_missing_ones_are_refused(needs: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        order_bindings(bindings(**needs))


def test_names_are_unique() -> None:
    with pytest.raises(UsageError, match="two scorers are called a"):
        order_bindings([*bindings(a=""), *bindings(a="")])
