"""Shapes that only keys have: a provider's prefix, and what follows it."""

import re
from typing import NamedTuple


def began(before: int) -> str:
    """A pattern for where a token may have begun `before` characters ago: not inside a longer one, but after an escaped
    line end or a percent escape."""
    passed = rf"[\s\S]{{{before}}}" if before else ""
    return rf"(?:(?<![A-Za-z0-9_-]{passed})|(?<=\\[nrt]{passed})|(?<=%[0-9A-Fa-f]{{2}}{passed}))"


_START = began(0)
_GITLAB = ("glpat-", "gldt-", "glrt-", "glptt-", "glcbt-", "glsoat-", "glft-", "glagent-")


class Shape(NamedTuple):
    """A pattern that can only match where one of `hints` stands."""

    kind: str
    hints: tuple[str, ...]
    pattern: re.Pattern[str]
    leads: bool = False
    """Whether the hint is what the token begins with."""


def _prefixed(kind: str, prefix: str, rest: str, ends: tuple[str, ...] = ("",)) -> Shape:
    """The prefix comes first in the pattern and what may precede it second: so it is searched for and not tried.

    `ends`: what follows the prefix, one of them at least, where the prefix alone is frequent.
    """
    pattern = re.compile(re.escape(prefix) + began(len(prefix)) + rest)
    return Shape(kind, tuple(prefix + end for end in ends), pattern, leads=True)


SHAPES = (
    _prefixed("anthropic-key", "sk-ant-", r"[A-Za-z0-9_-]{16,}+"),
    _prefixed("openrouter-key", "sk-or-", r"[A-Za-z0-9_-]{16,}+"),
    _prefixed("openai-key", "sk-", r"(?:proj|svcacct|admin|None)-[A-Za-z0-9_-]{20,}+"),
    _prefixed("api-key", "sk-", r"(?=[A-Za-z]*[0-9])[A-Za-z0-9]{20,}+"),
    _prefixed("langsmith-key", "lsv2_", r"(?:pt|sk)_[A-Za-z0-9_]{20,}+"),
    Shape(
        "github-token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), re.compile(_START + r"gh[pousr]_[A-Za-z0-9]{30,}+")
    ),
    _prefixed("github-token", "github_pat_", r"[A-Za-z0-9_]{22,}+"),
    Shape("gitlab-token", _GITLAB, re.compile(_START + f"(?:{'|'.join(_GITLAB)})[A-Za-z0-9_.-]{{20,}}+")),
    Shape("aws-key", ("AKIA", "ASIA"), re.compile(_START + r"A[KS]IA[A-Z0-9]{16}(?![A-Za-z0-9])")),
    _prefixed("google-key", "AIza", r"[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])"),
    _prefixed("google-token", "ya29.", r"[A-Za-z0-9_-]{20,}+"),
    _prefixed("google-secret", "GOCSPX-", r"[A-Za-z0-9_-]{20,}+"),
    Shape("slack-token", ("xox", "xapp-"), re.compile(_START + r"(?:xox[abceoprs]|xapp)-[A-Za-z0-9-]{10,}+")),
    _prefixed("slack-webhook", "hooks.slack.com/services/", r"[A-Za-z0-9/]{20,}+"),
    _prefixed("huggingface-token", "hf_", r"(?=[A-Za-z]*[0-9A-Z])[A-Za-z0-9]{30,}+"),
    _prefixed("npm-token", "npm_", r"[A-Za-z0-9]{36}(?![A-Za-z0-9])"),
    _prefixed("pypi-token", "pypi-", r"[A-Za-z0-9_-]{50,}+"),
    _prefixed("sendgrid-key", "SG.", r"[A-Za-z0-9_-]{16,}+\.[A-Za-z0-9_-]{16,}+"),
    Shape("stripe-key", ("k_live_", "k_test_"), re.compile(_START + r"[sr]k_(?:live|test)_[A-Za-z0-9]{16,}+")),
    _prefixed("webhook-secret", "whsec_", r"[A-Za-z0-9+/=]{24,}+"),
    _prefixed("groq-key", "gsk_", r"[A-Za-z0-9]{40,}+"),
    _prefixed("xai-key", "xai-", r"[A-Za-z0-9]{40,}+"),
    _prefixed("perplexity-key", "pplx-", r"[A-Za-z0-9]{40,}+"),
    _prefixed("replicate-token", "r8_", r"[A-Za-z0-9]{30,}+"),
    _prefixed("databricks-token", "dapi", r"[a-f0-9]{32}(?![A-Za-z0-9])"),
    Shape("digitalocean-token", ("_v1_",), re.compile(_START + r"do[opr]_v1_[a-f0-9]{64}")),
    _prefixed("supabase-key", "sb", r"(?:p_[a-f0-9]{40}|_secret_[A-Za-z0-9_-]{20,}+)", ("p_", "_secret_")),
    _prefixed("shopify-token", "shp", r"(?:at|ca|pa|ss)_[A-Fa-f0-9]{32}", ("at_", "ca_", "pa_", "ss_")),
    _prefixed("resend-key", "re_", r"[A-Za-z0-9]{8}_[A-Za-z0-9]{20,}+"),
    _prefixed("twilio-key", "SK", r"[0-9a-f]{32}(?![A-Za-z0-9])"),
    _prefixed("linear-key", "lin_api_", r"[A-Za-z0-9]{30,}+"),
    _prefixed("notion-token", "ntn_", r"[A-Za-z0-9]{40,}+"),
    _prefixed("mailgun-key", "key-", r"[a-f0-9]{32}(?![A-Za-z0-9])"),
    Shape("telegram-token", (":AA",), re.compile(_START + r"[0-9]{8,10}:AA[A-Za-z0-9_-]{33}(?![A-Za-z0-9_-])")),
    Shape(
        "convex-key",
        ("prod:", "dev:", "preview:", "project:"),
        re.compile(
            _START + r"(?:prod|dev|preview|project):[A-Za-z0-9:_-]{2,120}+\|"
            r"(?=[A-Za-z+/_-]{0,600}[0-9A-Z=])(?:(?!(?:prod|dev|preview|project):)[A-Za-z0-9+/=_-]){8,}+"
        ),
    ),
    Shape("convex-key", ("|01",), re.compile(_START + r"[a-z][a-z0-9-]{2,80}+\|01[0-9a-f]{40,}+")),
    _prefixed("jwt", "eyJ", r"[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}+"),
)
