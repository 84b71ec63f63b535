"""Regular expressions with a time limit.

`re` stops for nothing once it began, not even for Ctrl-C; the `regex` package does. A pattern must be valid for `re`,
and `regex` reads it as `re` does, with these exceptions (compared over 37 constructs):

- POSIX classes inside a set: `[[:alpha:]]` matches a letter, where `re` matches one of `[:alph` followed by `]`.
- Error counts in braces: `a{e}` and `(?:ab){e<=1}` match approximately, where `re` takes the braces literally.
- Some patterns that take `re` exponential time are quick: `(a+)+$`. Others are not: `(a|a)+$`.
"""

import re
import warnings
from functools import lru_cache

import regex

LONGEST_S = 2.0
"""Processor time of one search. `regex` counts that of the whole process."""


@lru_cache(maxsize=256)
def compiled(pattern: str) -> regex.Pattern[str]:
    """Raises `ValueError` if `pattern` is no regular expression."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            re.compile(pattern)
            return regex.compile(pattern)
        except (re.error, regex.error, RecursionError, OverflowError) as error:
            raise ValueError(f"is no regular expression: {error}") from error


@lru_cache(maxsize=256)
def matches(pattern: str, text: str) -> bool | None:
    """Whether `pattern` is found in `text`; `None` if it takes more than `LONGEST_S` seconds.

    Cached, because one answer is checked several times.
    """
    try:
        return bool(compiled(pattern).search(text, timeout=LONGEST_S))
    except TimeoutError:
        return None
