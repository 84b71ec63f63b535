"""Find API keys by the formats of their vendors."""

import re
from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache
from string import ascii_letters, digits
from typing import NamedTuple

from evalscribe.redaction.patterns import ScannedText, looks_random

_ALPHABETS = {
    "a": "[A-Za-z0-9]",
    "b": "[A-Za-z0-9+/=_-]",
    "d": "[0-9]",
    "g": "[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}",
    "h": "[0-9a-f]",
    "l": "[a-z0-9]",
    "p": "[A-Za-z0-9_=.-]",
    "u": "[A-Z0-9]",
    "w": "[A-Za-z0-9_-]",
    "x": "[0-9A-Fa-f]",
}
"""For each letter in the body column of `_TABLE`, the regular expression that it stands for. The letter `g` stands for
a whole UUID."""

# Keys are also stored in base64: the prefixes of `private-key` are base64 of `-----BEGIN RSA PRIVATE` and the like, and
# of `EdScB2`, with which a minisign key begins.
_TABLE = """
anthropic-key           w16+        sk-ant-
openrouter-key          w16+        sk-or-
langfuse-key            w20+        sk-lf- pk-lf-
openai-key              w20+        sk-proj- sk-svcacct- sk-service- sk-admin- sk-None-
mapbox-token            w40+        sk.eyJ tk.eyJ
stripe-key              a16+        sk_live_ sk_test_ sk_prod_ rk_live_ rk_test_ rk_prod_
api-key                 w20+?       sk-
api-key                 a20+?       sk_
elevenlabs-key          h40+        sk_ xi_
langsmith-key           w20+        lsv2_pt_ lsv2_sk_ ls__
github-token            a30+        ghp_ gho_ ghu_ ghs_ ghr_
github-token            w22+        github_pat_
gitlab-token            p20+        glpat- gldt- glrt- glrtr- glptt- glcbt- glsoat- glft- glagent-
gitlab-token            p20+        gloas- glimt- glffct- glwt-
gitlab-token            w20+        GR1348941
bitbucket-token         p24+        ATBB BBDC-
atlassian-token         b50+        ATATT3 ATCTT3 ATSTT3
trello-token            a50+        ATTA
aws-key                 u16         AKIA ASIA ABIA ACCA A3T
aws-session-token       b40+        IQoJb3JpZ2lu FwoGZXIvYXdz FQoGZXIvYXdz
bedrock-key             b60+        ABSK
bedrock-key             b20+        bedrock-api-key-
google-key              w35         AIza
google-key              p30+?       AQ.Ab8
google-token            w20+        ya29. 1//0 4/0A
google-secret           w20+        GOCSPX-
slack-token             p10+        xoxa- xoxb- xoxc- xoxd- xoxe- xoxo- xoxp- xoxr- xoxs- xapp- xoxe.xoxb- xoxe.xoxp-
slack-webhook           b20+        hooks.slack.com/services/ hooks.slack.com/workflows/ hooks.slack.com/triggers/
discord-webhook         d10+/w40+   discord.com/api/webhooks/ discordapp.com/api/webhooks/
discord-webhook         d10+/w40+   discord.com/api/v6/webhooks/ discordapp.com/api/v6/webhooks/
discord-webhook         d10+/w40+   discord.com/api/v7/webhooks/ discordapp.com/api/v7/webhooks/
discord-webhook         d10+/w40+   discord.com/api/v8/webhooks/ discordapp.com/api/v8/webhooks/
discord-webhook         d10+/w40+   discord.com/api/v9/webhooks/ discordapp.com/api/v9/webhooks/
discord-webhook         d10+/w40+   discord.com/api/v10/webhooks/ discordapp.com/api/v10/webhooks/
teams-webhook           g@g/b40+      webhook.office.com/webhookb2/
huggingface-token       a30+        hf_ api_org_
npm-token               a36+        npm_
pypi-token              w50+        pypi-
sendgrid-key            w16+.w16+   SG.
webhook-secret          b24+        whsec_ v1,whsec_
groq-key                a40+        gsk_
xai-key                 w40+        xai-
perplexity-key          a40+        pplx-
replicate-token         w30+        r8_
databricks-token        h32         dapi dsapi dose dkea
digitalocean-token      h64+        dop_v1_ doo_v1_ dor_v1_ dosatv1_
supabase-key            h40+        sbp_ sbp_oauth_
supabase-key            w20+        sb_secret_
shopify-token           x32+        shpat_ shpca_ shppa_ shpss_ shptka_
resend-key              a8_a20+     re_
twilio-key              x32         SK
linear-key              a30+        lin_api_ lin_oauth_ lin_wh_
notion-token            a40+        ntn_ secret_
mailgun-key             l32         key- pubkey-
mailgun-key             a40+?       key-
vault-token             w24+        hvs. hvb. hvr.
vault-token             a24?        s. b. r.
doppler-token           a40+        dp.pt. dp.ct. dp.sa. dp.st. dp.scim. dp.audit. dp.said.
doppler-token           w2+.a40+    dp.st.
square-token            w22+        EAAA sq0atp- sq0csp- sq0idp- sq0idb- sandbox-sq0idb- sandbox-sq0csb-
facebook-token          a60+        EAA
facebook-token          w50+        IGQV THQW
planetscale-token       p30+        pscale_tkn_ pscale_pw_ pscale_oauth_ pscale_app_
grafana-token           a32_x8+     glsa_
grafana-token           b32+        glc_
grafana-token           b30+        eyJrIjoi
newrelic-key            w19+        NRAK- NRII- NRIQ- NRJS- NRBR- NRRA- NRSP- NRAA-
sentry-token            h60+        sntryu_ sntrya_ sntryi_
sentry-token            b40+        sntrys_
postman-key             w40+        PMAK- PMAT-
tavily-key              w20+        tvly-
fireworks-key           a20+?       fw_ fw- fpk_
age-key                 u50+        AGE-SECRET-KEY-1 AGE-PLUGIN-
figma-token             w36+        figd_ figu_ figo_ figp_ figor_ figoh_ figuh_ figur_
airtable-token          a14.h64     pat
netlify-token           w36+        nfp_ nfc_ nfo_ nfu_ nfb_ nfs_
vercel-token            a24+        vcp_ vci_ vca_ vcr_ vck_
vercel-token            w24+        vercel_blob_rw_
heroku-key              w50+        HRKU-AA HRKU-
e2b-key                 a30+        e2b_ sk_e2b_
pinecone-key            a5+_a40+    pcsk_
modal-token             a22?        ak- as- wk- ws-
docker-token            w27+        dckr_pat_ dckr_oat_
cloudflare-token        a40+        cfut_ cfat_ cfk_
cloudflare-key          h24-h100+   v1.0-
nvidia-key              w40+        nvapi-
cerebras-key            a40+        csk-
together-key            w40+        tgp_v1_ tgp_
voyage-key              w40+        pa- al-
jina-key                w40+        jina_
llamacloud-key          a40+        llx-
firecrawl-key           h32+        fc-
brave-key               w27+        BSA
browserbase-key         w20+        bb_live_ bb_test_
apify-token             a30+        apify_api_ apify_proxy_
posthog-key             w40+        phx_ phs_ phr_
neon-key                a40+        napi_ neon_api_
wandb-key               w60+        wandb_v1_
vertex-key              a30+        vtx_
flyio-token             b40+        fo1_ fm1a_ fm1r_ fm2_
render-key              a20+        rnd_
railway-token           w40+        rw_Fe26
pulumi-token            h40+        pul-
terraform-token         b30+        tfe-
rubygems-key            h40+        rubygems_
crates-token            a32?        cio
clojars-token           a50+        CLOJARS_
nuget-key               l43         oy2
deno-token              a36+        ddp_ ddw_
jfrog-key               a55+        AKCp cmVmd
buildkite-token         w40+        bkua_ bkct_ bkaj_ bkps_
circleci-token          w40+        CCIPAT_ CCIPRJ_
tailscale-key           w20+        tskey-
1password-token         b100+       ops_eyJ
1password-key           u6-p20+     A3-
hubspot-token           g           pat-na1- pat-na2- pat-na3- pat-eu1- pat-ap1-
brevo-key               h60+-a16+   xkeysib- xsmtpsib-
adafruit-key            a28+        aio_
adobe-secret            l32+        p8e- p8-
alibaba-key             a17+        LTAI
tencent-key             a32+        AKID
yandex-key              w35+        AQVN YCAJE YCMNO y0_Ag y0__
easypost-key            a54+        EZAK EZTK
duffel-token            b40+        duffel_live_ duffel_test_
dropbox-token           w100+       sl. sl.u.
dynatrace-token         u24.u60+    dt0c01. dt0s01. dt0s02. dt0s16.
openshift-token         w43+        sha256~
prefect-token           a36+        pnu_ pnb_
readme-key              l60+        rdme_
sonar-token             h40+        squ_ sqp_ sqa_ sqco_
sourcegraph-token       w40+        sgp_ sgd_ slk_
shippo-token            h40+        shippo_live_ shippo_test_
typeform-token          p40+        tfp_
plaid-token             g           access-sandbox- access-production- access-development-
plaid-token             g           public-sandbox- public-production-
launchdarkly-key        g           sdk- api- mob- rel-
contentful-token        w40+        CFPAT-
frameio-token           w60+        fio-u-
flutterwave-key         a12+        FLWSECK_TEST- FLWSECK-
infracost-key           a32+        ico-
octopus-key             u25+        API-
rootly-token            h60+        rootly_
ramp-token              a40+        ramp_id_ ramp_sec_
settlemint-token        a16+        sm_aat_ sm_pat_ sm_sat_
scalingo-token          w48+        tk-us- tk-eu-
zuplo-key               w30+        zpka_
harness-token           w22.a24.a20+  pat. sat.
clickhouse-key          a38         4b1d
intra42-secret          h64+        s-s4t2ud- s-s4t2af-
mongodb-secret          w40+        mdb_sa_sk_
stytch-secret           w36+        secret-live- secret-test-
clerk-key               a40+        ak_
authress-key            p40+?       authress_ scauth_
prefect-key             w40+        pnc_
persona-key             a20+        persona_sandbox_ persona_production_
razorpay-key            a14+        rzp_live_ rzp_test_
sendbird-token          h40+        sb_api_
helicone-key            w20+        sk-helicone-
portkey-key             w24+        pk-portkey-
daytona-key             h60+        dtn_
unkey-key               a20+?       unkey_
coda-token              g           coda-
gocardless-token        w40+?       live_
private-key             b20+        LS0tLS1CRUdJTiBSU0EgUFJJVkFURS LS0tLS1CRUdJTiBQUklWQVRF LS0tLS1CRUdJTiBFQyBQUklWQVRF
private-key             b20+        LS0tLS1CRUdJTiBPUEVOU1NIIFBSSVZBVEU LS0tLS1CRUdJTiBFTkNSWVBURUQgUFJJVkFURS
private-key             b20+        LS0tLS1CRUdJTiBEU0EgUFJJVkFURS RWRTY0Iy
"""
"""One key format per line: kind, body, prefixes. A body consists of letters of `_ALPHABETS` and of literal text between
them. Each letter is followed by a length, with `+` for "or more". A `?` at the end of the body means that the key must
also look random, because ordinary words can have its format."""

_WITHOUT_PREFIX = (
    # `eyJ` is base64 of `{"`. A signed token has three parts (RFC 7515), an encrypted one has five (RFC 7516).
    ("jwt", "eyJ", r"eyJ[\w-]{8,}+\.[\w-]{8,}+\.[\w-]{8,}+(?:\.[\w-]{8,}+){0,2}"),
    (
        "private-key",
        "PuT",
        # The search for `Private-Lines` is bounded and stops at the next header, so that text made of headers only
        # takes linear time. The last condition keeps the line `Private-MAC:` out of the key.
        r"PuTTY-User-Key-File-[23]:(?:(?!PuTTY-User)[\s\S]){0,4000}?Private-Lines: [0-9]+"
        r"(?:(?:\s|\\[nr]){1,4}+[A-Za-z0-9+/=]++(?!-|:))*",
    ),
)
"""Key formats that `_TABLE` cannot describe: the kind of key, its first three characters, and a pattern."""
_ANYHOW = re.compile(
    r"(?P<mailchimp_key>[0-9a-f]{32}-us[0-9]{1,2}(?![\w-]))"
    r"|(?P<newrelic_key>[A0-9a-f][0-9a-fuxA]{29,41}+(?:FFFFNRAL|NRAL|-NRMA)(?![\w-]))"
    r"|(?P<telegram_token>[0-9]{8,10}:AA[\w-]{32,}+)"
    r"|(?P<facebook_token>[0-9]{15,17}\|[\w-]{27,}+)"
    r"|(?P<ngrok_token>[23][A-Za-z0-9]{26}_[0-9][A-Za-z0-9]{20,}+)"
    r"|(?P<discord_token>[MNO][\w-]{23,27}+\.[\w-]{6,7}+\.[\w-]{27,}+)"
    r"|(?P<terraform_token>[A-Za-z0-9]{14}\.atlasv1\.[\w=-]{50,}+)"
)
"""Matches keys whose first characters do not reveal their format."""
# A word is first checked by its last four characters. Mailchimp's keys end with a data centre, such as `-us12` or
# `-us1`.
_TAILS = frozenset(("NRAL", "NRMA", *(f"us{n:02}" for n in range(1, 40)), *(f"-us{n}" for n in range(1, 10))))

_PART = re.compile(r"([abdghlpuwx])([0-9]+)(\+?)|(g)|([^?])")


class Shape(NamedTuple):
    kind: str
    prefix: str
    """The prefix with which keys of this format begin. It is empty for the formats in `_WITHOUT_PREFIX`."""
    body: str
    random: bool
    """True if the text after the prefix must look random."""


class Key(NamedTuple):
    end: int
    kind: str


def _shapes() -> Iterator[Shape]:
    for line in _TABLE.strip().splitlines():
        kind, body, *prefixes = line.split()
        pattern = _pattern(body)
        yield from (Shape(kind, prefix, pattern, body.endswith("?")) for prefix in prefixes)


def _pattern(body: str) -> str:
    """Translate a body of `_TABLE` into a regular expression."""
    pattern, exact = "", False
    for letter, length, or_more, uuid, literal in _PART.findall(body):
        exact = not or_more
        if literal:
            pattern += re.escape(literal)
        else:
            # `+` is possessive, so that a mismatch after a long run of characters does not cause backtracking.
            pattern += _ALPHABETS[letter or uuid] + (f"{{{length}{',}+' if or_more else '}'}" if letter else "")
    # A key of exact length must end at the end of a word. Otherwise the beginning of a longer id would match.
    return pattern + (r"(?![\w-])" if exact else "")


def _by_beginning() -> dict[str, list[Shape]]:
    """Group the key formats by the first three characters of their prefix, or fewer if the prefix is shorter."""
    shapes: dict[str, list[Shape]] = defaultdict(list)
    # Long prefixes come first: `sk-ant-` must be tried before `sk-`, so that the mark names the vendor.
    for shape in sorted(_shapes(), key=lambda shape: -len(shape.prefix)):
        shapes[shape.prefix[:3]].append(shape)
    for kind, beginning, pattern in _WITHOUT_PREFIX:
        shapes[beginning].append(Shape(kind, "", pattern, False))
    return dict(shapes)


_SHAPES = _by_beginning()
_PREFIXES = {
    beginning: tuple(shape.prefix or beginning for shape in shapes)
    for beginning, shapes in _SHAPES.items()
    if len(beginning) == 3
}
_compiled = lru_cache(1024)(re.compile)
"""Compiles patterns on demand. Most processes need only a few patterns, and compiling all of them takes as long as a
short command."""


def may_begin(text: str, start: int, end: int) -> bool:
    """Return whether a key can begin at `start`.

    Only the characters at `start` and the end of the word at `end` are checked.
    """
    if (prefixes := _PREFIXES.get(text[start : start + 3])) and text.startswith(prefixes, start):
        return True
    first = text[start]
    # In ngrok's tokens, `2` or `3` and 26 more characters come before an underscore.
    if first in "23":
        return text.startswith("_", start + 27) or text[end - 4 : end] in _TAILS
    # Twilio's keys begin with `SK`. A Discord token begins with a number in base64, hence with `M`, `N` or `O`, and its
    # first part ends at a dot.
    if first in "SMNO":
        return text[start + 1 : start + 2] == "K" or text.startswith(".", end)
    return text[end - 4 : end] in _TAILS


def may_begin_before(text: str, start: int) -> bool:
    """Return whether a key that consists of several parts can begin at `start`."""
    beginning = text[start : start + 3]
    if prefixes := _PREFIXES.get(beginning):
        return text.startswith(prefixes, start)
    # Telegram's and Facebook's keys begin with a number, Discord's with `M`, `N` or `O`, old Vault tokens with `s.`,
    # `b.` or `r.`. All of them have their longest run of characters in a later part.
    return beginning[:1] in "0123456789MNO" or beginning[1:2] == "." or text.startswith(".atlasv1.", start + 14)


def key_at(text: str, start: int) -> Key | None:
    """Return the key that begins at `start`; None if no key begins there."""
    beginning = text[start : start + 3]
    for prefix in (beginning, beginning[:2]):
        for shape in _SHAPES.get(prefix, ()):
            if text.startswith(shape.prefix, start):
                match = _compiled(shape.body).match(text, start + len(shape.prefix))
                if match and not (shape.random and not looks_random(match[0])):
                    return Key(match.end(), shape.kind)
    # These are the first characters of the formats in `_ANYHOW`. Terraform's tokens can begin with any character.
    if beginning[:1] in "0123456789abcdefAMNO" or text.startswith(".atlasv1.", start + 14):
        match = _ANYHOW.match(text, start)
        return Key(match.end(), str(match.lastgroup).replace("_", "-")) if match else None
    return None


# In a copy of the text, each character that a key can contain becomes `a`, and each other one a space. One search for
# twenty `a` then replaces a search for each of 300 prefixes.
_CLASSES = bytes(97 if chr(n) in ascii_letters + digits + "_-" else 32 for n in range(256))
_SHORTEST = 20
_RUN = b"a" * _SHORTEST
_SEGMENT = 40
"""Maximum number of characters of one part of a key that has several parts, such as `dp.st.production.…`."""
_SEGMENTS = 9
"""Maximum number of parts before a key's first run of `_SHORTEST` characters, as in `hooks.slack.com/services/…/…/`."""
_INSIDE = ".~/:|,+"
"""Characters that can separate the parts of a key."""
_ESCAPES = frozenset("\\%[;")
_ODD = _ESCAPES | frozenset(_INSIDE)
"""If one of these characters comes directly before a run of key characters, the key can begin before the run or inside
it."""
_ESCAPED = {"n": 1, "r": 1, "t": 1, "b": 1, "f": 1, "u": 5, "x": 3}
"""For each kind of escape sequence, its number of characters after the backslash. A key can begin right after an escape
sequence."""
_COLOR_END = re.compile(r"[0-9]{0,3}m")


class KeyMatch(NamedTuple):
    start: int
    end: int
    kind: str


def find_keys(scanned: ScannedText) -> Iterator[KeyMatch]:
    """Yield the keys in a text from left to right, including keys that directly follow another key."""
    text, classes, end = scanned.text, scanned.lowered.translate(_CLASSES), 0
    start = classes.find(_RUN)
    while start >= 0:
        stop = classes.find(b" ", start + _SHORTEST)
        if stop < 0:
            stop = len(text)
        # Most runs are names, paths and hashes. Only runs at which a key can begin or continue are tried.
        worth = may_begin(text, start, stop) or text[start] in "_-" or text[start - 1] in _ODD
        if worth and (key := _key_from(text, classes, start, end)):
            yield key
            end = key.end
            while behind := key_at(text, end):
                yield KeyMatch(end, behind.end, behind.kind)
                end = behind.end
            start = classes.find(_RUN, end)
        else:
            start = classes.find(_RUN, stop)


def redact_keys(scanned: ScannedText) -> str:
    text, pieces, end = scanned.text, [], 0
    for key in find_keys(scanned):
        lines = text.count("\n", key.start, key.end)
        pieces += [text[end : key.start], f"[redacted:{key.kind}]", "\n" * lines]
        end = key.end
    return "".join([*pieces, text[end:]]) if pieces else text


def _key_from(text: str, classes: bytes, run: int, end: int) -> KeyMatch | None:
    """Find the key to which the run of characters at `run` belongs.

    The key begins at the run or in one of the parts before the run, but not before `end`.
    """
    start = run
    for _ in range(_SEGMENTS):
        if start == run or text[start - 1] in _ESCAPES or may_begin_before(text, start):
            for key_start in _unescaped(text, start):
                if key_start >= end and (key := key_at(text, key_start)) and key.end > run:
                    # An escape such as `\n` stays whole, so that JSON stays valid.
                    escaped = text[key_start - 1 : key_start] == "\\" and text[key_start] in _ESCAPED
                    return KeyMatch(key_start + escaped, key.end, key.kind)
        if start <= end or text[start - 1] not in _INSIDE:
            return None
        start = classes.rfind(b" ", max(0, start - 1 - _SEGMENT), start - 1) + 1
    return None


def _unescaped(text: str, start: int) -> list[int]:
    """Return the positions at which a key can begin.

    These are `start` and, if an escape sequence begins at `start`, the end of this sequence.
    """
    before, first = text[start - 1 : start], text[start : start + 1]
    if before == "\\" and first in _ESCAPED:
        return [start, start + _ESCAPED[first]]
    # A percent escape can be encoded twice: `%22` and `%2522` both stand for a quotation mark.
    if before == "%":
        return [start, start + 2, start + 4]
    # The run begins inside a color code such as `\x1b[1;33m`, whose digits and `m` can be part of a key.
    if before and before in "[;" and (color := _COLOR_END.match(text, start)):
        return [start, color.end()]
    if first and first in "_-":
        return [start, start + (2 if text[start + 1 : start + 2] in ("_", "-") else 1)]
    return [start]
