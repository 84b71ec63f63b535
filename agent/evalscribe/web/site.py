"""The site, which finds and renders pages by their paths. The server and bundles use the same pages."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from evalscribe.errors import NotFoundError
from evalscribe.experiments.run_export import TEMPLATES as RUN_TEMPLATES
from evalscribe.experiments.run_export import row_functions
from evalscribe.ids import content_id
from evalscribe.text import is_visible, pluralise
from evalscribe.web.report_index import ReportIndex, Scope
from evalscribe.web.task_index import TaskIndex
from evalscribe.workspace import Workspace

Query = Mapping[str, str]
"""Filters in a page's address; empty for the pages of a bundle, where a script applies the filters."""
_WEB_ADDRESS = re.compile(r"https?://[^\s/]", re.IGNORECASE)
_SAFE = re.compile(r"[A-Za-z0-9._-]+")
# A code span ends at exactly as many backticks as it starts with, so its text can contain other numbers of them.
_CODE = re.compile(r"(`+)(.+?)\1(?!`)", re.DOTALL)
# In Markdown, a backslash escapes any ASCII punctuation character, and no other character.
_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")
LONGEST_SLUG = 100
SECTIONS = (
    ("Inbox", "index.html"),
    ("Runs", "runs.html"),
    ("Tasks over time", "tasks.html"),
    ("Compare", "compare.html"),
    ("Experiments", "experiments.html"),
    ("Collections", "collections.html"),
    ("Accuracy", "accuracy.html"),
)
"""The navigation: the name of each section, and the path of its first page."""


@dataclass(frozen=True)
class Page:
    """A page before it is rendered: a template and its values."""

    template: str
    title: str
    section: str
    """Path of the first page of the section that the navigation highlights. The path is listed in `SECTIONS`."""
    values: Mapping[str, object] = field(default_factory=dict)


class Pages(ABC):
    """The pages of one section."""

    def __init__(self, site: "Site") -> None:
        self.site = site

    @abstractmethod
    def paths(self) -> Iterator[str]:
        """Yield the paths of all pages of the section. A bundle contains exactly these pages."""

    @abstractmethod
    def page(self, path: str, query: Query) -> Page | None:
        """Return the page with this path, or None if the section has no such page."""

    def begins(self, path: str) -> bool:
        """Return whether the section's first page exists and has this path.

        Every page calls this to show the navigation.
        """
        return self.page(path, {}) is not None


class Site:
    """All pages about one workspace."""

    def __init__(
        self,
        workspace: Workspace,
        sections: Sequence[type[Pages]],
        scope: Scope | None = None,
        *,
        token: str | None = None,
    ) -> None:
        """Store the arguments. Nothing is read yet.

        Args:
            workspace: Workspace with the store and the reports.
            sections: Class of the pages of each section.
            scope: The reports to show; None for all reports in the folder.
            token: Token that a request must contain to change anything; None for a bundle, whose pages cannot change
                anything.
        """
        self.workspace = workspace
        self.token = token
        self.reports = ReportIndex(workspace, scope or Scope())
        self.tasks = TaskIndex(workspace, self.reports, is_static=token is None)
        self.parts = tuple(section(self) for section in sections)

    @property
    def is_static(self) -> bool:
        return self.token is None

    def paths(self) -> Iterator[str]:
        """Yield the paths of all pages."""
        self.reports.refresh()
        for part in self.parts:
            yield from part.paths()

    def render(self, path: str, query: Query | None = None) -> str:
        """Render a page. Raises `NotFoundError` if no page has this path."""
        self.reports.refresh()
        for part in self.parts:
            if page := part.page(path, query or {}):
                return self._render(page, path)
        raise NotFoundError(f"no page {path[:200]!r}")

    def render_problem(self, title: str, message: str, path: str) -> str:
        """Render a page that says why another page cannot be shown.

        The page contains no token, so no decision can be sent from it.
        """
        return self._render(Page("problem.html.j2", title, "", {"message": message, "token": None}), path)

    def _render(self, page: Page, path: str) -> str:
        up = "../" * path.count("/")
        shared: dict[str, Any] = {
            "page": page,
            "up": up,
            "token": self.token,
            "static": self.is_static,
            "sections": self._sections(),
        }
        return self.environment.get_template(page.template).render({**shared, **page.values})

    def _sections(self) -> Sequence[tuple[str, str]]:
        """Return the sections that have at least one page."""
        return [item for item in SECTIONS if any(part.begins(item[1]) for part in self.parts)]

    @cached_property
    def environment(self) -> Environment:
        """The Jinja environment of the packaged templates.

        Every value is HTML-escaped, and invisible characters in it are replaced.
        """
        environment = Environment(
            loader=FileSystemLoader([Path(__file__).with_name("templates"), RUN_TEMPLATES]),
            undefined=StrictUndefined,
            autoescape=True,
            trim_blocks=True,
            lstrip_blocks=True,
            finalize=shown,
        )
        environment.filters["inline_code"] = inline_code
        environment.filters["slug"] = slug
        environment.tests["web_address"] = is_web_address
        environment.globals.update(pluralise=pluralise, anchor=anchor)
        environment.globals.update(row_functions())
        return environment


def shown(value: object) -> object:
    """Return a value as pages show it. In a text, control characters and bidirectional marks are replaced."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    # Most texts are printable ASCII, so they need not be searched for invisible characters.
    if value.isascii() and value.isprintable():
        return value
    # Otherwise, each line of a text with Windows line ends would show a replacement character at its end.
    text = value.replace("\r\n", "\n")
    if invisible := {ord(c): "\N{REPLACEMENT CHARACTER}" for c in set(text) if not is_visible(c)}:
        return text.translate(invisible)
    return text


def inline_code(text: str) -> Markup:
    """Render a sentence of a report as HTML.

    Code spans become `<code>` elements. Everything else becomes plain text, without Markdown escapes.
    """
    parts, end = [], 0
    for match in _CODE.finditer(text):
        parts += [_plain(text[end : match.start()]), Markup("<code>{}</code>").format(shown(match[2].strip()))]
        end = match.end()
    return Markup("").join([*parts, _plain(text[end:])])


def _plain(text: str) -> Markup:
    return escape(shown(_ESCAPED.sub(r"\1", text)))


def is_web_address(value: object) -> bool:
    """Return whether a page can safely link to this address.

    The addresses of runs and reports come from outside and can be anything.
    """
    return isinstance(value, str) and _WEB_ADDRESS.match(value) is not None


def slug(text: str) -> str:
    """Turn any text into a short name for a file, a folder or an anchor. Different texts get different names."""
    # A lone surrogate can be part of a name. It has no UTF-8 bytes unless it is passed through.
    plain = (
        text
        if _SAFE.fullmatch(text)
        else "".join(
            c if _SAFE.fullmatch(c) else "".join(f"~{byte:02x}" for byte in c.encode("utf-8", "surrogatepass"))
            for c in text[: LONGEST_SLUG + 1]
        )
    )
    if plain.strip(".") and len(text) <= LONGEST_SLUG and len(plain) <= LONGEST_SLUG:
        return plain
    # `~-` marks a shortened name. A name that is not shortened cannot contain it, because each `~` in it is followed by
    # two hexadecimal digits.
    return f"{plain[:60].strip('.~')}~-{content_id(text)[-16:]}"


def anchor(role: str, path: str, line: int) -> str:
    """Return the anchor of a line of evidence on the page of its eval."""
    return f"{role}-{slug(path)}-L{line}"
