"""What a user's code is told by its environment: all that there is, but for what is ours and no business of its own.

Keys of models' providers stay: agents need them. This keeps what is left out from being logged, printed and handed on
by accident; a process of the same user can find it all the same.
"""

import os
from collections.abc import Mapping
from secrets import token_hex

from evalscribe.settings import access
from evalscribe.settings import access as github

MARK = "EVALSCRIBE_STARTED_BY"
"""Its value tells what was started here, however it is related to us by then."""
OURS = ("EVALSCRIBE_", "ACTIONS_")
"""Settings, with the store's address and password; tokens of a job's runner."""
KEYS = frozenset({*access.DEPLOY_KEYS, access.SELF_HOSTED_KEY, *github.GITHUB_TOKENS})
"""Of where runs come from and where reports go."""
ORDERS = frozenset({"GITHUB_ENV", "GITHUB_OUTPUT", "GITHUB_PATH", "GITHUB_STATE", "GITHUB_STEP_SUMMARY"})
"""Files whose lines a job's runner obeys."""


def new_mark() -> str:
    return token_hex(16)


def for_users_code(mark: str, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Without what is left out; with `mark`."""
    return {**{name: value for name, value in environ.items() if _is_theirs(name)}, MARK: mark}


def _is_theirs(name: str) -> bool:
    return not name.startswith(OURS) and name not in KEYS and name not in ORDERS
