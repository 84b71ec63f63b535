"""Find secrets by their place in a text, or by the name to which they are assigned."""

import base64
import binascii
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, lru_cache

# Order matters: words are searched in this order, so a second word must stand before the pair that needs it.
_WORDS: tuple[tuple[str, str], ...] = (
    *(
        (word, "")
        for word in ("key", "token", "secret", "pass", "pwd", "credential", "auth", "bearer", "basic", "cookie")
    ),
    *(("sig", ""), ("543", ""), ("://", ""), ("|", ""), ("%", ""), ("~", ""), ("\\", "")),
    *(("authorization", "auth"), ("private key", "key"), ("password", "pass"), ("machine", "password")),
    *(("default", "password"), ("curl", ""), (":\\/", "\\"), ("%40", "%"), ("%7c", "%"), ("q~", "~")),
    *(("\x1b", ""), ("1b[", "\\")),
)
"""Pairs of lower-case words. The first word is only searched for in a text if the text contains the second word, or if
the second word is empty."""
_ENCODED = tuple((word, word.encode(), needed) for word, needed in _WORDS)
Following = Mapping[str, bytes]
"""For each lower-case word, the characters that can follow the word. If there are none, any character can follow."""


class ScannedText:
    """A text, with a lower-case copy of the same length and with those words of `_WORDS` that the text contains."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def lowered(self) -> bytes:
        # Latin-1 has one byte for each character, so offsets are the same as in the text. `str.lower` would change
        # them: it turns `İ` into two characters.
        return self.text.encode("latin-1", "replace").lower()

    @cached_property
    def words(self) -> frozenset[str]:
        """The words of `_WORDS` that occur in the text."""
        lowered, words = self.lowered, {""}
        for word, encoded, needed in _ENCODED:
            if needed in words and encoded in lowered:
                words.add(word)
        return frozenset(words)

    def matches(self, pattern: re.Pattern[str], following: Following) -> Iterator[re.Match[str]]:
        """Work like `pattern.finditer`, for a pattern that always begins with one of the words in `following`.

        The pattern is only tried at these words. This takes a hundredth of the time of `finditer`.
        """
        passed = 0
        for start in self._places(following):
            if start >= passed and (match := pattern.match(self.text, start)):
                passed = match.end()
                yield match

    def sub(self, pattern: re.Pattern[str], replaced: Callable[[re.Match[str]], str], following: Following) -> str:
        """Work like `pattern.sub`, for a pattern that always begins with one of the words in `following`.

        As in `matches`, the pattern is only tried at these words.
        """
        pieces, end = [], 0
        for match in self.matches(pattern, following):
            if (replacement := replaced(match)) != match[0]:
                pieces += [self.text[end : match.start()], replacement]
                end = match.end()
        return "".join([*pieces, self.text[end:]]) if pieces else self.text

    def _places(self, following: Following) -> list[int]:
        lowered, positions = self.lowered, []
        for word, after in following.items():
            encoded, length = word.encode(), len(word)
            position = lowered.find(encoded)
            while position >= 0:
                if not after or lowered[position + length : position + length + 1] in after:
                    positions.append(position)
                position = lowered.find(encoded, position + 1)
        positions.sort()
        return positions


SHORT = 48
"""Maximum number of characters of a name or text for which results are cached. Short names and texts often recur."""

_STRONG_NAME = re.compile(r"secret|passw|passphrase|pwd|credential|token|authorization", re.IGNORECASE)
_QUALIFIED_KEY = re.compile(
    r"(?:api|access|secret|private|auth|deploy|admin|account|signing|encryption|master|service|licen[sc]e|session|jwt|hmac"
    r"|aes|ssh|webhook|app|application|client|consumer|read|write|bot|shared|root|storage[_.-]?account)[_.-]?key",
    re.IGNORECASE,
)
_ENV_KEY = re.compile(r"[A-Z][A-Z0-9_]*_KEY(?![A-Za-z0-9_])")
"""Matches upper-case names such as `WANDB_KEY`. The value of such a name is a secret even if it looks like a hash."""
_HARMLESS_KEY = re.compile(
    r"(?:public|publishable|primary|foreign|idempotency|cache|partition|sort|storage|index|query|object)[_.-]?key",
    re.IGNORECASE,
)
# `key` must be a word or a part of a compound name. `monkey` and `keyboard` are not names of keys.
_PLAIN_KEY = re.compile(
    r"(?:^|[_.-])keys?|[a-z0-9]Keys?|KEYS?|(?:^|[^A-Za-z])(?:auth|pass)(?![a-z])|[a-z](?:Auth|Pass)(?![a-z])"
    r"|(?:AUTH|PASS)(?![A-Z])"
)
_AUTH = re.compile(r"(?:^|[^A-Za-z])auth(?![A-Za-z])", re.IGNORECASE)
_UUID_NAME = re.compile(
    r"(?:api|access|secret|private)[_.-]?key|secret|passw|pwd"
    r"|(?:heroku|snyk|railway|postmark|hubspot|docker|squarespace|sendbird|consul|nomad)[A-Za-z_-]{0,20}token",
    re.IGNORECASE,
)
"""Matches names whose value is a secret even if it is a UUID. For all other names, a UUID is usually an id."""

_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_HASH = re.compile(
    r"(?:sha\d{1,3}|md5)[-:=].+|[0-9a-f]{40}|[0-9a-f]{64}|[0-9a-f]{96}|[0-9a-f]{128}|[0-9A-F]{40}|[0-9A-F]{64}"
)
# The ids of Convex documents, such as `jn7922j1w29pdxm76bj9ps0enx80mg9e`, are also assigned to names such as `key`.
_RECORD_ID = re.compile(r"[a-z][a-z0-9]{30,32}")
_SHORT_NAME = re.compile(r"pass|pwd|secret", re.IGNORECASE)
_SPACE = re.compile(r"\s")
TEMPLATE = re.compile(
    r"\$\{|\{\{|://|^\.{0,2}/|\[redacted:|\.(?:pem|key|crt|cer|env|json|[jt]sx?|py|txt|md|ya?ml|toml|html)$"
)
"""Matches a placeholder, a URL, a path, a file name or a redaction mark. A text that contains one of these is not a
key."""
_JOINT = re.compile(r"[^A-Za-z0-9]+")
_READABLE_PIECE = re.compile(r"(?:[A-Z]?[a-z]{2,20}+){0,6}+[0-9]{0,4}|[A-Z]{0,20}[0-9]{0,4}|[0-9]+|[a-z]")
_LONGEST = 8000


def kind_of(name: str) -> str:
    lowered = name.lower()
    return next((kind for kind in ("password", "secret", "token") if kind[:5] in lowered), "key")


@lru_cache(8192)
def may_name(name: str) -> bool:
    """Return whether a value assigned to `name` might be a secret."""
    strong = _STRONG_NAME.search(name) or _QUALIFIED_KEY.search(name)
    return bool(strong or (not _HARMLESS_KEY.search(name) and _PLAIN_KEY.search(name)))


def is_secret(name: str, value: str) -> bool:
    """Return whether a literal that is assigned to `name` is a secret, and not an id, a hash or words."""
    if not _SHORTEST <= len(value) <= _LONGEST:
        return False
    shortest, strong = _secrets_of(name) if len(name) > SHORT else _secrets_of_short(name)
    if shortest is None:
        return False
    # `.npmrc` and Docker's configuration store `user:password` in base64 under `auth`. A short login does not look
    # random.
    if _AUTH.search(name) and is_basic(value):
        return True
    if len(value) < shortest or (not strong and (_HASH.fullmatch(value) or _RECORD_ID.fullmatch(value))):
        return False
    if _UUID.fullmatch(value):
        return bool(_UUID_NAME.search(name))
    return not TEMPLATE.search(value) and looks_random(value)


def is_basic(value: str) -> bool:
    """Return whether a value is `user:password` encoded in base64."""
    try:
        decoded = base64.b64decode(value, validate=True).decode()
    except (binascii.Error, ValueError):
        return False
    # Random bytes often contain a colon, but they are rarely printable.
    return ":" in decoded and decoded.isprintable()


def _secrets_of(name: str) -> tuple[int | None, bool]:
    """Return the minimum length of a secret that is assigned to `name`, and whether such a secret can look like a hash.

    The length is None if names like this are not used for secrets.
    """
    strong = bool(_STRONG_NAME.search(name) or _QUALIFIED_KEY.search(name))
    if not strong and (_HARMLESS_KEY.search(name) or not _PLAIN_KEY.search(name)):
        return None, False
    # People's passwords, such as `xK9#mP2vLq8z`, are shorter than keys that a service issues.
    return (_SHORTEST if _SHORT_NAME.search(name) else 16), strong or bool(_ENV_KEY.search(name))


_SHORTEST = 10
"""Minimum number of characters of any secret."""
_secrets_of_short = lru_cache(8192)(_secrets_of)


def looks_random(value: str) -> bool:
    letters, digits = any(c.isalpha() for c in value), any(c.isdigit() for c in value)
    return letters and digits and not _SPACE.search(value) and not readable(value) and _bits(value) >= 2.8


def readable(value: str) -> bool:
    """Return whether a value consists of readable words and numbers.

    Readable values, such as `test-token-2`, are usually invented and not secrets.
    """
    return all(_READABLE_PIECE.fullmatch(piece) for piece in _JOINT.split(value))


def _bits(value: str) -> float:
    """Return the Shannon entropy of a value, in bits per character."""
    counts = Counter(value).values()
    return -sum(n / len(value) * math.log2(n / len(value)) for n in counts)


_GAP = r"(?:\s|\\[nrt])"
"""Matches whitespace, or an escape sequence for whitespace in a JSON string."""
# The delimiters of ssh.com's format have four dashes and a space. In a block without an END line, such as one at the
# end of a cut log, the key consists of headers and base64; prose after it stays.
_BLOCK = re.compile(
    r"-{4,5} ?(BEGIN) [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5}"
    r"(?:((?:[^-]|-(?!---)){0,20000}+)-{4,5} ?END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5}"
    rf"|(?:{_GAP}{{1,80}}+(?:[A-Z][A-Za-z-]{{2,20}}: [^\n\\\"']{{0,100}}+"
    r"|[A-Za-z0-9+/=]{16,}+|[A-Za-z0-9+/]{1,15}=))*)"
)
_CHUNK = re.compile(r"[A-Za-z0-9+/=]{12,}+")
_LOGIN = r"([^\s/:@\"'`<>|\\]{0,200}+)(:[^\s/\"'`<>\\]{1,400})?@"
_URL_LOGIN = re.compile("://" + _LOGIN)
_ESCAPED_URL_LOGIN = re.compile(r"(:\\{1,7}/\\{1,7}/)" + _LOGIN)
_ENCODED_URL_LOGIN = re.compile(r"(?i:(%3A%2F%2F[^\s/%\"'&]{0,200}+%3A)([^\s/\"'&]{1,400}?)(%40))")
# A client secret of Azure has no prefix, but always a digit and `Q~` after its first three characters.
_AZURE = re.compile(r"(?:(?<![\w.~-])|(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{2}))[\w.~-]{3}[0-9]Q~[\w.~-]{31,}+")
# A key can begin after an escaped line end or a percent escape, but not inside a longer word.
_START = r"(?:(?<![A-Za-z0-9_-])|(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{2}))"
# The part after `|` must contain a digit, a capital or `=`, because `prod:string|undefined` is a type in TypeScript. It
# ends where another key begins.
_CONVEX = re.compile(
    r"(?=(?:prod|dev|preview|project)(?::|%3[Aa]))"
    + _START
    + r"[a-z]{3,7}(?::|%3[Aa])[A-Za-z0-9:_-]{2,120}+(?:\||%7[Cc])"
    r"(?=[A-Za-z+/_-]{0,600}[0-9A-Z=])(?:(?!(?:prod|dev|preview|project):)[A-Za-z0-9+/=_-]){8,}+"
)
_CONVEX_WORDS = {"prod": b":%", "dev": b":%", "preview": b":%", "project": b":%"}
_BAR = re.compile(r"\|[A-Za-z0-9+/=_-]{8}")
_CONVEX_HOSTED = re.compile(
    r"(?:(?<![A-Za-z0-9_\\-])|(?<=\\)(?![bfnrtu])|(?<=\\[bfnrt])|(?<=%[0-9A-Fa-f]{2}))[a-z][a-z0-9-]{2,80}+\|01[0-9a-f]{40,}+"
)
# `u0026` and `%26` are escaped forms of `&`.
_SIGNATURE = re.compile(
    r"((?:(?<=[?&;,\s\"'-])|(?<=u0026)|(?<=%26))sig(?:nature)?(?:=|%3d))([A-Za-z0-9%+/=_.~-]{20,2000}+)", re.IGNORECASE
)
_COOKIE = re.compile(
    r"cookies?[\"'`\]\\]{0,8}[ \t]{0,4}(?:=>|[:=,])[ \t]{0,4}([\[{(]?)[ \t]{0,4}\\{0,7}([\"'`]?)", re.IGNORECASE
)
_COOKIE_PAIR = re.compile(
    r"([A-Za-z0-9_!#$%&*+.^|~-]{1,100}+(?:=\"?|\\{0,7}[\"'][ ]?[:=,][ ]?\\{0,7}[\"']))([^\s;,\"'\\`}\]]{8,4000}+)"
)
# A line of a Netscape cookie file: domain, flag, path, flag, time of expiry, name, value.
_COOKIE_LINE = re.compile(
    r"(\t(?:TRUE|FALSE)\t[^\t\n]*\t(?:TRUE|FALSE)\t[0-9]+\t[^\t\n]{1,200}\t)([^\s\"'\\]{6,4000}+)"
)
_COOKIE_ENDS = {"[": "]", "{": "}", "(": ")"}
_LONGEST_COOKIES = 8000
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_FIELD = r"[^\s\"'\\=]{1,200}+"
_NETRC = re.compile(
    rf"((?:machine{_GAP}{{1,20}}+{_FIELD}|default){_GAP}{{1,20}}+(?:(?:login|account){_GAP}{{1,20}}+{_FIELD}{_GAP}{{1,20}}+){{1,2}}"
    rf"password{_GAP}{{1,20}}+)([^\s\"'\\=]{{1,400}}+)"
)
# Only the usual ports of Postgres and its poolers, such as 5432 and 6543, are found. A pattern for every port has no
# fixed text to search for and is slow.
_PGPASS = re.compile(
    r"((?:(?<=[^\s:\"'`]:)|(?<=[^\s:\"'`]:6))543[0-9]?:[^\s:\"'`\\]{1,100}+:[^\s:\"'`\\]{1,100}+:)"
    r"((?:[^\s\"'`\\]|\\(?![nr\"'])){4,400}+)"
)
_USER_OPTION = re.compile(
    r"((?:\s-u|--(?:proxy-)?user)[ =]?\\{0,3}[\"']?[^\s:\"'\\$-][^\s:\"'\\$]{0,100}+:)([^\s\"'\\$*{<]{1,400}+)"
)
_COLOR = r"(?:\x1b|\\{1,8}(?:u001[bB]|x1[bB]))\[[0-9;?]{0,40}[A-Za-z]"
COLOR = re.compile(_COLOR)
COLOR_INSIDE = re.compile(rf"(?<=[A-Za-z0-9+/=_.|:~-]){_COLOR}(?:{_COLOR}){{0,9}}+(?=[A-Za-z0-9+/=_.|:~-])")
"""Matches color codes that stand between two characters that can be part of a key."""


def redact_block(scanned: ScannedText) -> str:
    text = scanned.text
    return _BLOCK.sub(_block, text) if "PRIVATE KEY" in text and "BEGIN " in text else text


def _block(match: re.Match[str]) -> str:
    """Replace a private key with one redaction mark.

    If code concatenates the key from string literals, each literal is replaced.
    """
    block, body = match[0], match[2] or ""
    if any(quote in block for quote in "\"'`"):
        start = match.start(2) - match.start() if body else 0
        # Only long chunks are replaced. Code that checks the delimiters, such as `pem.startsWith("-----BEGIN …")`, has
        # none.
        return block[:start] + _CHUNK.sub("[redacted:private-key]", body) + block[start + len(body) :]
    return "[redacted:private-key]" + "\n" * block.count("\n")


def redact_url_login(scanned: ScannedText) -> str:
    """Redact logins in URLs such as `https://user:password@host`.

    The slashes in a URL can be escaped, and the URL can be percent-encoded.
    """
    text = scanned.text
    if "@" in text:
        text = _URL_LOGIN.sub(lambda match: _url_login("://", match[1], match[2]) or match[0], text)
    if ":\\/" in scanned.words:
        text = _ESCAPED_URL_LOGIN.sub(lambda match: _url_login(match[1], match[2], match[3]) or match[0], text)
    return _ENCODED_URL_LOGIN.sub(_secret_replacer("basic-auth", _any), text) if "%40" in scanned.words else text


def _url_login(lead: str, user: str, password: str | None) -> str | None:
    if password is None:
        # A token can stand in place of the user, as in `https://<token>@git.example`. A plain user name is not a
        # secret.
        return f"{lead}[redacted:basic-auth]@" if len(user) >= 20 and looks_random(user) else None
    # Placeholders and redaction marks stay, so that redacting twice changes nothing. The mark can be percent-encoded.
    if password.startswith((":${", ":{", ":$", ":[redacted", ":%5Bredacted")) or user.startswith("[redacted"):
        return None
    return f"{lead}{user}:[redacted:basic-auth]@"


def redact_azure(scanned: ScannedText) -> str:
    return _AZURE.sub("[redacted:azure-secret]", scanned.text)


def redact_convex(scanned: ScannedText) -> str:
    text = scanned.text
    # Almost every text with a table in markdown contains `|`. In a key, at least eight characters follow it directly.
    if "%7c" in scanned.words or _BAR.search(text):
        text = scanned.sub(_CONVEX, lambda _: "[redacted:convex-key]", _CONVEX_WORDS)
        text = _CONVEX_HOSTED.sub("[redacted:convex-key]", text) if "|01" in text else text
    return text


def redact_signatures(scanned: ScannedText) -> str:
    """Redact the signatures in links that grant access, such as shared access links of Azure and signed links of S3."""
    return scanned.sub(_SIGNATURE, _secret_replacer("signature", looks_random), {"sig": b"=n%"})


def redact_cookies(scanned: ScannedText) -> str:
    """Redact the values of `Cookie` and `Set-Cookie` in headers and in JSON. Also redact the values in cookie files."""
    pieces, end = [], 0
    for head in scanned.matches(_COOKIE, {"cookie": b""}):
        if head.end() >= end:
            stop = _end_of_cookies(scanned.text, head)
            pieces += [scanned.text[end : head.end()], redact_cookie(scanned.text[head.end() : stop])]
            end = stop
    text = "".join([*pieces, scanned.text[end:]]) if pieces else scanned.text
    return (
        _COOKIE_LINE.sub(_secret_replacer("cookie", _any), text) if "\tTRUE\t" in text or "\tFALSE\t" in text else text
    )


def _end_of_cookies(text: str, head: re.Match[str]) -> int:
    limit = min(len(text), head.end() + _LONGEST_COOKIES)
    closing = _COOKIE_ENDS.get(head[1]) or head[2] or "\n"
    ends = [
        text.find(end_mark, head.end(), limit)
        # A list or object of cookies can span several lines. Text without brackets ends at the latest with its line.
        for end_mark in (closing, "\n")
        if closing in "\"'`\n" or end_mark == closing
    ]
    return min((end for end in ends if end >= 0), default=limit)


def redact_cookie(value: str) -> str:
    """Redact the random-looking parts of a cookie's value, such as the value of `sid` in `sid=…; theme=dark`."""
    return _COOKIE_PAIR.sub(_secret_replacer("cookie", _is_cookie), value)


def _is_cookie(value: str) -> bool:
    return looks_random(value) and not _DATE.match(value) and not TEMPLATE.search(value)


def redact_netrc(scanned: ScannedText) -> str:
    return scanned.sub(_NETRC, _secret_replacer("password", _any), {"machine": b" \t\r\n\\", "default": b" \t\r\n\\"})


def redact_pgpass(scanned: ScannedText) -> str:
    # `543` is followed by another digit in `5432:`, and directly by the colon in `6543:`.
    return scanned.sub(_PGPASS, _secret_replacer("password", _any), {"543": b"0123456789:"})


def redact_user_option(scanned: ScannedText) -> str:
    """Redact the login in `curl -u user:password`."""
    # `docker run -u 1000:1000` names a user and a group, and not a login.
    return _USER_OPTION.sub(_secret_replacer("basic-auth", lambda value: not value.isdecimal()), scanned.text)


def _secret_replacer(kind: str, secret: Callable[[str], bool]) -> Callable[[re.Match[str]], str]:
    """Return a function that replaces the second group of a match with a redaction mark if `secret` returns True for
    this group."""

    def replaced(match: re.Match[str]) -> str:
        if match[2].startswith("[redacted:") or not secret(match[2]):
            return match[0]
        return f"{match[1]}[redacted:{kind}]{match[3] if match.re.groups > 2 else ''}"

    return replaced


def _any(_: str) -> bool:
    return True


ASSIGNED = ("key", "token", "secret", "pass", "pwd", "credential", "auth")
"""Words, in lower case, that occur in the names to which secrets are assigned."""

# After `Authorization`, every scheme counts, such as `Convex` or `Splunk`. Bearer and Basic match the first two
# alternatives instead, because the value of Basic is checked as base64.
_CREDENTIALS = re.compile(
    r"(bearer[ \t]{1,4}|basic[ \t]{1,4}|authorization[\"'\\]{0,8}[ \t]{0,4}[:=,][ \t]{0,4}[\"'`\\]{0,8}"
    r"(?!(?:bearer|basic)[ \t])[a-z][a-z0-9_-]{1,24}[ \t]{1,4})([A-Za-z0-9._~+/=:|-]{8,8000}+)",
    re.IGNORECASE,
)
# Between name and value stands an operator, JSON in a URL (`%22token%22%3A%22`), a member `value` after the name,
# spaces (`--token X`) or `>` of an XML tag. A value in quotes can contain any character, such as `$` or `(`.
_ASSIGNED = re.compile(
    r"((?:key|token|secret|pass(?:w(?:or)?d|phrase|code)?|pwd|credential|auth(?:orization)?)s?"
    r"(?:_?[0-9]{1,3}|_?value|_base64|_b64)?"
    r"(?:[\"'`\]\\]{0,8}[ \t]{0,4}(?::[ \t]{0,4}(?:string|str)[ \t]{0,4})?(?:===?|=>|:=|[=:,]|%3d)[ \t]{0,4}"
    r"|%22%3a(?:%20)?(?:%22)?"
    r"|[\"'`\\]{0,8},?(?:\s|\\n){0,40}[\"'`\\]{0,8}value[\"'`\\]{0,8}[ \t]{0,4}[=:][ \t]{0,4}"
    r"|[ \t]{1,4}|>(?=[^<>\s]{8,8000}+<))"
    r"\\{0,7}([\"'`])?)"
    r"((?(2)[^\s\"'`\\<>]{10,8000}+|[A-Za-z0-9+/=_.~!@#%^*-]{10,8000}+))",
    re.IGNORECASE,
)
_NAME = re.compile(r"[A-Za-z0-9_.-]{0,40}\Z")
LONG_PART = 32
"""If a part of a dotted value such as `a.b.c` has at least this many characters, the value is not taken for code, so it
can be a secret."""
_CHAIN = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+[!.,*]*")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*[!.,*]*")
_ENV_LEAD = re.compile(r"[A-Z0-9_]=$")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")


_BEHIND_WORD = b"s_0123456789\"'`]\\ \t:=,>%vb"
_FOLLOWING = {word: _BEHIND_WORD + (b"wpc" if word == "pass" else b"") for word in (*ASSIGNED, "authorization")}
_SCHEMES = {"bearer": b" \t", "basic": b" \t", "authorization": b""}


def redact_credentials(scanned: ScannedText) -> str:
    return scanned.sub(_CREDENTIALS, _credentials, _SCHEMES)


def redact_assigned(scanned: ScannedText) -> str:
    present = {word: behind for word, behind in _FOLLOWING.items() if word in scanned.words}
    return scanned.sub(_ASSIGNED, _assigned, present)


def redact_header(value: str) -> str:
    """Redact the secret that follows the scheme in the value of a header such as `Authorization`."""
    scheme, space, secret = value.partition(" ")
    return f"{scheme} [redacted:authorization]" if space and " " not in secret and _is_opaque(secret) else value


def _credentials(match: re.Match[str]) -> str:
    lead, value = match[1], match[2]
    # In prose, `basic` often stands before an ordinary word. A login decodes to `user:password`.
    secret = is_basic(value) if lead.lower().startswith("basic") else _is_opaque(value)
    return f"{lead}[redacted:authorization]" if secret else match[0]


def _is_opaque(value: str) -> bool:
    """Return whether a bearer token is a secret. Readable words, such as `test-token`, and expressions are not."""
    expression = _CHAIN.fullmatch(value) and max(map(len, value.split("."))) < LONG_PART
    return len(value) >= 8 and any(c.isdigit() for c in value) and not readable(value) and not expression


def _assigned(match: re.Match[str]) -> str:
    lead, quote, value = match[1], match[2], match[3]
    before = _NAME.search(match.string, max(0, match.start() - 40), match.start())
    name = (before[0] if before else "") + lead
    first = before.start() if before else match.start()
    # In a URL (`?name=value`) the value is never code. `?secret=JBSWY3DP…` would be taken for the name of a constant.
    queried = lead.endswith("=") and match.string[max(0, first - 1) : first] in ("?", "&")
    # After a comma, as in `set("x-api-key", token)`, only a literal in quotes is a value and not a variable.
    if not quote and ("," in lead or (not queried and _is_expression(lead, value))):
        return match[0]
    # Without an operator, only a command option has a value: `--token X`. In prose, any word can follow `token`.
    if lead[-1] in " \t" and not _SEPARATED.search(lead) and not name.startswith("--"):
        return match[0]
    return f"{lead}[redacted:{kind_of(name)}]" if is_secret(name, value) else match[0]


_SEPARATED = re.compile(r"[=:,>]")


def _is_expression(lead: str, value: str) -> bool:
    """Return whether an unquoted value is code.

    In `NAME=value`, as in a `.env` file, a value that looks like an identifier is a literal.
    """
    if _CHAIN.fullmatch(value):
        return True
    # In a name, letters form words. In random text, digits and changes of case leave only short runs of letters.
    words = _WORD.findall(value)
    is_name = _IDENTIFIER.fullmatch(value) and words and sum(map(len, words)) / len(words) >= 3.4
    return bool(is_name) and not _ENV_LEAD.search(lead)
