"""Forget what nobody needs any more."""

from evalscribe.ids import Frozen
from evalscribe.model.storage import EvalStore, SweptRows


class Swept(Frozen):
    """What was forgotten, or would have been."""

    dry_run: bool
    forgotten: tuple[SweptRows, ...]
    """Every kind, those without a row too."""
    given_back: int = 0
    """Bytes by which the files on disk are smaller."""


def gc(archive: EvalStore, *, dry_run: bool) -> Swept:
    """Raises `EvalscribeError` where the store cannot be used."""
    forgotten = archive.sweep(dry_run=dry_run)
    return Swept(dry_run=dry_run, forgotten=forgotten, given_back=0 if dry_run else archive.give_back())
