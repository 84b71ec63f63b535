"""Copy to a folder the files that a Dockerfile would copy into its image.

Dockerfiles are refused if they affect a task in any other way.
"""

import json
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from evalscribe.replay.sandbox import COPIED_BYTES, MIB, Folder
from evalscribe.sources.files import file_below, open_regular
from evalscribe.text import one_line, visible

PLAIN_IMAGES = frozenset(("buildpack-deps", "debian", "python", "ubuntu"))
"""Names of base images that contain little more than the system on which evalscribe runs.

Tasks with any other base image are not replayed, because an answer might need the contents of that image.
"""
WITHOUT_EFFECT = frozenset(("LABEL", "MAINTAINER", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK", "CMD"))
"""Dockerfile instructions that do not affect the commands that Harbor starts in a container."""
OF_THE_SYSTEM = frozenset(
    (
        *("bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "run", "sbin", "sys", "tmp", "usr"),
        *("var", "logs", "solution", "tests", "commands.sh"),
    )
)
"""Names of the files and folders directly below `/` that the sandbox provides itself."""
ARCHIVE = re.compile(r"\.(?:tar|tgz|tbz2?|txz|tar\.\w+|gz|bz2|xz)$")
MAX_LENGTH = 64 * 1024
MAX_SOURCES = 200
"""Maximum number of sources in all `COPY` instructions together.

The number is limited because each source can be a pattern for which a folder is searched.
"""
MAX_COPIED = 20_000
"""Maximum number of files and folders that all `COPY` instructions copy together. A sandbox does not allow more."""


class NeedsImageError(Exception):
    """Raised if a task cannot be run without building its image. The message is the reason."""


def build_folders(context: Path, tree: Path) -> tuple[tuple[Folder, ...], str, Mapping[str, str]]:
    """Copy to an empty folder the files that a Dockerfile would copy into its image.

    Args:
        context: Folder with the Dockerfile.
        tree: Empty folder that represents the root of the image, `/`.

    Returns:
        The folders below `/` that have the copied files, the working directory, and the environment variables.

    Raises:
        NeedsImageError: The Dockerfile does more than copy files, so the image would be needed.
    """
    build = _Build(context, tree)
    for keyword, arguments in _instructions(context):
        try:
            build.add(keyword, arguments)
        except (OSError, ValueError, RecursionError) as error:
            # Causes: an invalid file name, a file where a folder is expected, or a pattern with thousands of parts.
            reason = (error.strerror if isinstance(error, OSError) else None) or "it cannot be read"
            raise _needs(f"has {keyword} {arguments[:40]}: {reason}") from None
    folders = [Folder(path, f"/{path.name}", writable=True) for path in sorted(tree.iterdir())]
    if file := next((folder for folder in folders if folder.source and not folder.source.is_dir()), None):
        raise _needs(f"copies to {file.inside}")
    return tuple(folders), str(build.start_in), build.environment


def _needs(problem: str) -> NeedsImageError:
    return NeedsImageError(f"its Dockerfile {visible(one_line(problem))[:80]}")


def _instructions(context: Path) -> Iterator[tuple[str, str]]:
    path = file_below(context, "Dockerfile")
    if path is None:
        raise NeedsImageError("its environment has no Dockerfile")
    with open_regular(path) as file:
        text = file.read(MAX_LENGTH + 1).decode("utf-8", "replace").replace("\r\n", "\n")
    if len(text) > MAX_LENGTH:
        raise _needs("is too long")
    # This directive changes the line-continuation character, which is a backslash by default.
    if "\0" in text or re.match(r"\s*#\s*escape\s*=", text, re.IGNORECASE):
        raise _needs("cannot be read")
    # Files that a .dockerignore names would be missing from the image.
    if any(context.glob("*.dockerignore")):
        raise NeedsImageError("its environment has a .dockerignore")
    lines = (line for line in text.split("\n") if line.strip() and not line.lstrip().startswith("#"))
    has_from = False
    # docker removes comments first, and joins continued lines without a space.
    for line in re.sub(r"\\[ \t]*\n", "", "\n".join(lines)).split("\n"):
        keyword, arguments = [*line.strip().split(maxsplit=1), "", ""][:2]
        has_from = has_from or keyword.upper() == "FROM"
        if not has_from:
            raise _needs("does not begin with FROM")
        yield keyword.upper(), arguments.strip()


class _Build:
    def __init__(self, context: Path, tree: Path) -> None:
        self._context = context.resolve()
        self._tree = tree
        self._has_from = False
        self._sources_left, self._files_left, self._bytes_left = MAX_SOURCES, MAX_COPIED, COPIED_BYTES
        self.start_in = PurePosixPath("/")
        self.environment: dict[str, str] = {}

    def add(self, keyword: str, arguments: str) -> None:
        """Carry out one Dockerfile instruction.

        Raises `NeedsImageError` if the instruction cannot be carried out without building the image.
        """
        if keyword in WITHOUT_EFFECT:
            return
        if "$" in arguments or "<<" in arguments:
            raise _needs(f"has variables or a script: {keyword} {arguments}")
        if keyword == "FROM" and not self._has_from:
            self._has_from = True
            self._from(arguments)
        elif keyword == "WORKDIR" and arguments:
            self.start_in = self._resolved(arguments.strip("\"'"))
            self.path(self.start_in).mkdir(parents=True, exist_ok=True)
        elif keyword in ("COPY", "ADD"):
            self._copy(keyword, arguments)
        elif keyword == "ENV":
            self.environment |= _variables(arguments)
        else:
            raise _needs(f"has {keyword} {arguments}")

    def _from(self, arguments: str) -> None:
        image = next((word for word in arguments.split() if not word.startswith("--")), "")
        name = re.sub(r"[:@].*", "", image.removeprefix("docker.io/").removeprefix("library/"))
        if name not in PLAIN_IMAGES:
            raise _needs(f"starts from {image}")

    def _copy(self, keyword: str, arguments: str) -> None:
        flags: list[str] = []
        files = arguments
        while files.startswith("--"):
            flag, _, files = files.partition(" ")
            flags.append(flag.removeprefix("--"))
            files = files.lstrip()
        *sources, target = _words(files) or [""]
        if not sources or any(not flag.startswith(("chown=", "link")) for flag in flags):
            raise _needs(f"has {keyword} {arguments}")
        inside = self._resolved(target)
        to = self.path(inside)
        paths = [path for source in sources for path in self._sources(keyword, source)]
        is_folder = target.endswith("/") or target == "." or len(paths) > 1 or to.is_dir()
        for path in paths:
            if path.is_dir():
                for entry in path.rglob("*"):
                    self._count(entry)
                # Links are copied as links, so that they lead to files of the sandbox.
                shutil.copytree(path, to, symlinks=True, dirs_exist_ok=True)
            else:
                self._count(path)
                copy = to / path.name if is_folder else to
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, copy)

    def _count(self, path: Path) -> None:
        self._files_left -= 1
        self._bytes_left -= path.lstat().st_size
        if min(self._files_left, self._bytes_left) < 0:
            raise _needs(f"copies more than {MAX_COPIED:,} files or {COPIED_BYTES // MIB} MB")

    def _sources(self, keyword: str, source: str) -> Sequence[Path]:
        pattern = source.lstrip("/")
        # `ADD` downloads URLs and unpacks archives.
        if "://" in source or source.startswith("git@") or (keyword == "ADD" and ARCHIVE.search(source)):
            raise _needs(f"has {keyword} {source}")
        self._sources_left -= 1
        if self._sources_left < 0:
            raise _needs(f"copies from more than {MAX_SOURCES} places")
        if pattern.strip("./") == "" and ".." not in pattern:
            return [self._context]
        if "**" in pattern or "[" in pattern or "\\" in pattern:
            raise _needs(f"copies {source}, a pattern that docker reads differently")
        paths = [] if ".." in PurePosixPath(pattern).parts else sorted(self._context.glob(pattern))
        if not paths:
            raise _needs(f"copies {source}, which its environment does not have")
        # A task can come from somebody else. A link could copy a file of this machine into the sandbox.
        if any(not path.resolve().is_relative_to(self._context) or path.is_symlink() for path in paths):
            raise _needs(f"copies {source}, which is or follows a link")
        return paths

    def _resolved(self, path: str) -> PurePosixPath:
        """Convert a path to an absolute path in the image.

        Raises `NeedsImageError` if the path is in a folder that the sandbox provides itself.
        """
        parts: list[str] = []
        for part in (self.start_in / path).parts[1:]:
            if part == "..":
                parts = parts[:-1]
            elif part != ".":
                parts.append(part)
        if parts and parts[0] in OF_THE_SYSTEM:
            raise _needs(f"copies to /{'/'.join(parts)}")
        return PurePosixPath("/", *parts)

    def path(self, inside: PurePosixPath) -> Path:
        """Return the path in the target folder that represents a path in the image.

        Raises `NeedsImageError` if a symbolic link leads out of the target folder.
        """
        path = self._tree.joinpath(*inside.parts[1:])
        # A link that an earlier instruction copied can lead out of the folder.
        if not path.resolve().is_relative_to(self._tree.resolve()):
            raise _needs(f"follows a link to {inside}")
        return path


def _words(text: str) -> list[str]:
    try:
        if text.startswith("["):
            listed = json.loads(text)
            return [word for word in listed if isinstance(word, str)]
        return shlex.split(text)
    except (ValueError, RecursionError):
        raise _needs(f"cannot be read: {text}") from None


def _variables(text: str) -> dict[str, str]:
    words = shlex.split(text)
    if not words or "=" not in words[0]:
        name, _, value = text.partition(" ")
        variables = {name: value.strip()}
    else:
        variables = dict(word.split("=", 1) for word in words if "=" in word)
    if not all(re.fullmatch(r"[A-Za-z_]\w*", name) for name in variables):
        raise _needs(f"has ENV {text}")
    return variables
