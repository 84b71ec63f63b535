"""What of our own code decides something, as a content id: what was decided by other code is not reused."""

import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parent
COMPILED = "__pycache__"


@cache
def source_digest(*modules: str, package: Path = PACKAGE) -> str:
    """Of modules and packages, each with all below it: `judging.rules`. Any change of their source makes it another.

    Raises `ModuleNotFoundError` for one that there is not.
    """
    digest = hashlib.sha256()
    for module in sorted(modules):
        for file in _files(package, module):
            told = f"{file.relative_to(package).as_posix()} {file.stat().st_size}\n"
            digest.update(told.encode() + file.read_bytes())
    return f"sha256:{digest.hexdigest()}"


def _files(package: Path, module: str) -> Iterator[Path]:
    """Sources; where an installation has none, what was compiled of them."""
    place = package.joinpath(*module.split("."))
    below = [file for file in place.rglob("*.py*") if COMPILED not in file.parts]
    found = below or [file for ending in (".py", ".pyc") if (file := place.with_suffix(ending)).is_file()]
    if not found:
        raise ModuleNotFoundError(f"no module {module} in {package}", name=module)
    yield from sorted(found)
