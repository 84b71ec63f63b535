"""Files that were not there before: what is there is never touched, and nothing leads out of the folder."""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from evalscribe.errors import DataError, write_error

LARGEST = 1024 * 1024
"""Bytes of a file that is there already that are looked at."""


class NewFiles:
    """New files in a folder, which is made with the first one."""

    def __init__(self, root: Path) -> None:
        """Raises `DataError` for what can be no folder."""
        try:
            self.root = root.resolve()
            taken = self.root.exists() and not self.root.is_dir()
        except (OSError, RuntimeError, ValueError) as error:  # a link may lead to itself
            raise DataError(f"{root} can be no folder: {error}") from error
        if taken:
            raise DataError(f"{root} is no folder; name another one")

    def check(self, names: Iterable[str]) -> None:
        """Raises `DataError` naming the first that no file can have, before anything is written."""
        for name in names:
            target = self.root / name
            for folder in reversed(target.relative_to(self.root).parents[:-1]):
                self._check_folder(self.root / folder)
            if target.is_dir() and not target.is_symlink():
                raise DataError(f"{target} is a folder and would have to be a file; nothing was written")

    def held(self, name: str) -> bytes | None:
        """What a file has, its beginning if it is large; None where there is none. Links are files."""
        target = self.root / name
        if not os.path.lexists(target):
            return None
        try:
            if not target.is_file():  # a pipe would be waited for
                return b""
            with target.open("rb") as file:
                return file.read(LARGEST)
        except OSError:
            return b""

    def create(self, name: str, text: str) -> bool:
        """False where something came in between. Raises `AccessError`, `UnavailableError`, `DataError`."""
        target = self.root / name
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            return False
        except OSError as error:
            raise write_error(f"cannot write {target}", error) from error
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(text.encode())
        except BaseException as error:
            with suppress(OSError):
                target.unlink()  # ours: nobody else could have made it
            if isinstance(error, OSError):
                raise write_error(f"cannot write {target}", error) from error
            raise
        return True

    def _check_folder(self, folder: Path) -> None:
        if not os.path.lexists(folder):
            return
        try:
            inside = folder.resolve().is_relative_to(self.root)
            is_folder = folder.is_dir()
        except (OSError, RuntimeError):
            inside = is_folder = False
        if not inside:
            raise DataError(f"{folder} leads out of {self.root}; nothing was written")
        if not is_folder:
            raise DataError(f"{folder} is no folder and would have to be one; nothing was written")
