"""Which scores, in which order."""

from typing import Any

from sqlalchemy import Select, bindparam, or_, select, tuple_

from evalscribe.model.experiment_storage import ScoreQuery
from evalscribe.store.tables import experiments

_scores, _items, _versions = experiments.scores, experiments.run_items, experiments.scorer_versions


def chosen(query: ScoreQuery, size: int) -> Select[Any]:
    """The scores of the run `run_id` with the number of their item as `place`: at most `size`, the next after `place`,
    `repetition` and `number`."""
    place = tuple_(_items.c.number, _items.c.repetition, _scores.c.number)
    after = tuple_(bindparam("place"), bindparam("repetition"), bindparam("number"))
    found = (
        select(_scores, _items.c.number.label("place"))
        .join(_items, _items.c.id == _scores.c.run_item_id)
        # The first is implied by the second; an index is used for it.
        .where(_items.c.run_id == bindparam("run_id"), _items.c.number >= bindparam("place"), place > after)
        .order_by(_items.c.number, _items.c.repetition, _scores.c.number)
    )
    return _filtered(found, query).limit(size)


def _filtered(found: Select[Any], query: ScoreQuery) -> Select[Any]:
    for name in ("run_item_id", "scorer_version_id", "passed", "status"):
        if (value := getattr(query, name)) is not None:
            found = found.where(_scores.c[name] == value)
    if query.scorer is not None:
        versions = select(_versions.c.id).where(_versions.c.scorer_id == query.scorer)
        found = found.where(or_(_scores.c.scorer == query.scorer, _scores.c.scorer_version_id.in_(versions)))
    if query.since is not None:
        found = found.where(_scores.c.created_at >= query.since)
    if query.until is not None:
        found = found.where(_scores.c.created_at < query.until)
    return found if query.superseded else found.where(_scores.c.current)
