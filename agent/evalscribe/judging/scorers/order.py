"""In which order scorers are asked: each after those whose results it is given."""

from collections.abc import Sequence

from evalscribe.errors import UsageError
from evalscribe.model.score import Binding


def in_order(bindings: Sequence[Binding]) -> tuple[Binding, ...]:
    """As given, but each after what it depends on.

    Raises `UsageError` for two of one name, for a scorer that depends on one that is not there, and for a circle.
    """
    names = [binding.spec.name for binding in bindings]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UsageError(f'two scorers are called {twice}: give one another name, {{"name": …, "as": "another-name"}}')
    _check_all_there(bindings, names)
    ordered: dict[str, Binding] = {}
    while waiting := [binding for binding in bindings if binding.spec.name not in ordered]:
        ready = next((one for one in waiting if all(name in ordered for name in one.spec.depends_on)), None)
        if ready is None:
            circle = ", ".join(binding.spec.name for binding in waiting)
            raise UsageError(f"scorers depend on each other in a circle: {circle}; one of them must come first")
        ordered[ready.spec.name] = ready
    return tuple(ordered.values())


def _check_all_there(bindings: Sequence[Binding], names: Sequence[str]) -> None:
    for binding in bindings:
        missing = [name for name in binding.spec.depends_on if name not in names]
        if missing:
            raise UsageError(
                f"scorer {binding.spec.name} depends on {missing[0]}, which is not attached: "
                f"--builtin-scorer {missing[0]} or --scorer-id {missing[0]}"
            )
