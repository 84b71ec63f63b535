"""How git is started, whoever starts it: in the user's environment but for what names another repository."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from shutil import which

from evalscribe.errors import UsageError

OF_ANOTHER_REPOSITORY = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_PREFIX",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_NAMESPACE",
    "GIT_CONFIG",
    "GIT_CONFIG_PARAMETERS",
    "GIT_CONFIG_COUNT",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_GRAFT_FILE",
    "GIT_REPLACE_REF_BASE",
    "GIT_NO_REPLACE_OBJECTS",
    "GIT_SHALLOW_FILE",
    "GIT_CEILING_DIRECTORIES",
    "GIT_GLOB_PATHSPECS",
    "GIT_NOGLOB_PATHSPECS",
    "GIT_ICASE_PATHSPECS",
)
"""What `git rev-parse --local-env-vars` lists and the like: set by a hook around us, they mean its repository.

The last three give names of files another meaning than ours.
"""


def required() -> None:
    """To be called before GitPython is imported, which asks git. Raises `UsageError` where there is no git."""
    if which("git") is None:
        raise UsageError("git is not installed, or not on PATH")


@contextmanager
def own_environment() -> Iterator[None]:
    """Without variables that name another repository; nobody is asked anything."""
    kept = dict(os.environ)
    for name in OF_ANOTHER_REPOSITORY:
        os.environ.pop(name, None)
    os.environ |= {"GIT_TERMINAL_PROMPT": "0", "GIT_EDITOR": "true"}
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(kept)


def said(error: Exception) -> str:
    """What git or the hook said, on one line."""
    parts = [getattr(error, "stderr", ""), getattr(error, "stdout", "")]
    text = " ".join(str(part).partition(": '")[2] or str(part) for part in parts if part) or str(error)
    return " ".join(text.split())[:400].strip("' ")
