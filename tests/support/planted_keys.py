"""Fake keys in the formats of known vendors, generated with a fixed seed, to test redaction.

Each key is assembled at run time, so that secret scanners do not report this file. Its format is the one that the
vendor uses. It can differ from the pattern that `evalscribe.redaction` looks for.
"""

import base64
import json
import random
import string
from collections.abc import Callable
from typing import NamedTuple

LOWER, UPPER, DIGITS = string.ascii_lowercase, string.ascii_uppercase, string.digits
ALNUM, HEX = string.ascii_letters + DIGITS, "0123456789abcdef"
WORD, BASE64 = ALNUM + "_-", ALNUM + "+/"


class Planted(NamedTuple):
    kind: str
    text: str
    """The key with the text around it."""
    parts: tuple[str, ...]
    """The parts of the key that must not remain after redaction."""


class Context(NamedTuple):
    name: str
    text: Callable[[str], str]
    """Returns a text that contains the given key."""


class Maker:
    """Generates random characters. The same seed always gives the same ones."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def __call__(self, alphabet: str, length: int) -> str:
        """Return random characters, with a digit and two letters if there are at least twelve, as in real keys."""
        picked = [*self._random.choices(alphabet, k=length)]
        if length >= 12:
            picked[3:6] = [self._random.choice([c for c in alphabet if c in "23456789"] or alphabet)] + [
                self._random.choice([c for c in alphabet if c.isalpha()] or alphabet) for _ in range(2)
            ]
        return "".join(picked)

    def uuid(self) -> str:
        return "-".join(self(HEX, length) for length in (8, 4, 4, 4, 12))


def planted() -> list[Planted]:
    return [*(Planted(kind, key, (_core(key),)) for kind, key in keys().items()), *in_place()]


def _core(key: str) -> str:
    """Return the second half of a key. It must not remain either, because a partial key is also a leak."""
    return key[len(key) // 2 :]


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def jwt(make: Maker) -> str:
    head, body = ({"alg": "HS256", "typ": "JWT"}, {"sub": "1234567890", "name": "A"})
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in (head, body)]
    return ".".join([*parts, make(ALNUM, 43)])


def keys() -> dict[str, str]:
    """Return keys that can be recognised by their format alone, keyed by kind."""
    r = Maker(7)
    return {
        "1password service account": "ops_" + "eyJ" + r(ALNUM, 250),
        "1password secret": "A3-" + "-".join(r(UPPER + DIGITS, n) for n in (6, 6, 5, 5, 5)),
        "adafruit": "aio_" + r(ALNUM, 28),
        "adobe": "p8e-" + r(LOWER + DIGITS, 32),
        "age": "AGE-SECRET-" + "KEY-1" + r("QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58),
        "airtable": "pat" + r(ALNUM, 14) + "." + r(HEX, 64),
        "alibaba": "LTAI" + r(ALNUM, 20),
        "anthropic": "sk-ant-" + "api03-" + r(WORD, 93) + "AA",
        "anthropic admin": "sk-ant-" + "admin01-" + r(WORD, 93) + "AA",
        "anthropic oauth": "sk-ant-" + "oat01-" + r(WORD, 86),
        "apify": "apify_" + "api_" + r(ALNUM, 36),
        "artifactory": "AKCp" + r(ALNUM, 69),
        "artifactory reference": "cmVmd" + r(ALNUM, 59),
        "atlassian": "ATATT3" + r(WORD, 178) + "=" + r(UPPER + DIGITS, 8),
        "atlassian admin": "ATCTT3xFfG" + r(WORD, 160) + "=" + r(UPPER + DIGITS, 8),
        "aws": "AKIA" + r(UPPER + "234567", 16),
        "aws temporary": "ASIA" + r(UPPER + "234567", 16),
        "aws session": "IQoJb3JpZ2lu" + "X2Vj" + r(BASE64, 300),
        "azure client": r(ALNUM, 3) + "8Q~" + r(ALNUM + "_.~-", 34),
        "bedrock": "ABSK" + r(BASE64, 120) + "=",
        "bitbucket": "ATBB" + r(ALNUM, 32),
        "brevo": "xkeysib-" + r(HEX, 64) + "-" + r(ALNUM, 16),
        "buildkite": "bkua_" + r(HEX, 40),
        "cerebras": "csk-" + r(LOWER + DIGITS, 48),
        "circleci": "CCIPAT_" + r(ALNUM, 22) + "_" + r(HEX, 40),
        "clickhouse": "4b1d" + r(ALNUM, 38),
        "clojars": "CLOJARS_" + r(LOWER + DIGITS, 60),
        "cloudflare": "cfut_" + r(ALNUM, 40) + r(HEX, 8),
        "cloudflare origin": "v1.0-" + r(HEX, 24) + "-" + r(HEX, 146),
        "contentful": "CFPAT-" + r(WORD, 43),
        "convex": "prod:" + "fabulous-panther-525|" + "dGVzdGtleTEyMw==",
        "convex dev": "dev:" + "quick-otter-1|" + "ey" + b64('{"v2":"0123456789"}'),
        "convex project": "project:" + "team:proj|" + r(ALNUM, 40),
        "convex self-hosted": "convex-self-hosted|" + "01" + r(HEX, 74),
        "crates.io": "cio" + r(ALNUM, 32),
        "databricks": "dapi" + r(HEX, 32),
        "deepseek": "sk-" + r(HEX, 32),
        "deno": "ddp_" + r(ALNUM, 36),
        "digitalocean": "dop_v1_" + r(HEX, 64),
        "discord": "MTA" + r(ALNUM, 21) + "." + r(WORD, 6) + "." + r(WORD, 38),
        "docker": "dckr_pat_" + r(WORD, 27),
        "doppler": "dp.pt." + r(ALNUM, 43),
        "doppler service": "dp.st." + "dev." + r(ALNUM, 43),
        "dropbox": "sl." + r(WORD, 135),
        "duffel": "duffel_" + "live_" + r(WORD, 43),
        "dynatrace": "dt0c01." + r(UPPER + DIGITS, 24) + "." + r(UPPER + DIGITS, 64),
        "e2b": "e2b_" + r(HEX, 40),
        "easypost": "EZAK" + r(ALNUM, 54),
        "elevenlabs": "sk_" + r(HEX, 48),
        "facebook": "EAAM" + r(ALNUM, 160),
        "facebook app": r(DIGITS, 16) + "|" + r(WORD, 27),
        "figma": "figd_" + r(WORD, 40),
        "firecrawl": "fc-" + r(HEX, 32),
        "fireworks": "fw_" + r(ALNUM, 24),
        "fly": "fm2_" + r(BASE64, 160) + "==",
        "frame.io": "fio-u-" + r(WORD, 64),
        "github": "ghp_" + r(ALNUM, 36),
        "github app": "ghs_" + r(ALNUM, 36),
        "github fine": "github_" + "pat_" + r(ALNUM, 22) + "_" + r(ALNUM, 59),
        "github oauth": "gho_" + r(ALNUM, 36),
        "gitlab": "glpat-" + r(WORD, 20),
        "gitlab deploy": "gldt-" + r(WORD, 20),
        "gitlab runner": "GR1348941" + r(WORD, 20),
        "google": "AIza" + r(WORD, 35),
        "google access": "ya29." + r(WORD, 120),
        "google refresh": "1//0" + r(WORD, 99),
        "google secret": "GOCSPX-" + r(WORD, 28),
        "grafana": "glsa_" + r(ALNUM, 32) + "_" + r(HEX, 8),
        "grafana cloud": "glc_" + "eyJ" + r(ALNUM, 100) + "=",
        "grafana old": "eyJrIjoi" + r(ALNUM, 80) + "==",
        "groq": "gsk_" + r(ALNUM, 52),
        "harness": "pat." + r(ALNUM, 22) + "." + r(ALNUM, 24) + "." + r(ALNUM, 20),
        "heroku": "HRKU-" + "AA" + r(WORD, 58),
        "hubspot": "pat-na1-" + r.uuid(),
        "huggingface": "hf_" + r(ALNUM, 34),
        "infracost": "ico-" + r(ALNUM, 32),
        "jina": "jina_" + r(ALNUM, 60),
        "jwt": jwt(r),
        "langfuse": "sk-lf-" + r.uuid(),
        "langsmith": "lsv2_" + "pt_" + r(HEX, 32) + "_" + r(HEX, 10),
        "launchdarkly": "sdk-" + r.uuid(),
        "linear": "lin_" + "api_" + r(ALNUM, 40),
        "llamacloud": "llx-" + r(ALNUM, 48),
        "mailchimp": r(HEX, 32) + "-us12",
        "mailgun": "key-" + r(HEX, 32),
        "mapbox": "sk." + "eyJ" + r(ALNUM, 60) + "." + r(ALNUM, 22),
        "modal": "ak-" + r(ALNUM, 22),
        "modal secret": "as-" + r(ALNUM, 22),
        "netlify": "nfp_" + r(ALNUM, 36),
        "neon": "napi_" + r(LOWER + DIGITS, 64),
        "new relic": "NRAK-" + r(UPPER + DIGITS, 27),
        "new relic insert": "NRII-" + r(WORD, 32),
        "new relic license": r(HEX, 32) + "FFFFNRAL",
        "ngrok": "2" + r(ALNUM, 26) + "_" + "4" + r(ALNUM, 20),
        "notion": "ntn_" + r(DIGITS, 11) + r(ALNUM, 35),
        "notion old": "secret_" + r(ALNUM, 43),
        "npm": "npm_" + r(ALNUM, 36),
        "nuget": "oy2" + r(LOWER + DIGITS, 43),
        "nvidia": "nvapi-" + r(WORD, 64),
        "octopus": "API-" + r(UPPER + DIGITS, 26),
        "openai": "sk-" + "proj-" + r(WORD, 74) + "T3BlbkFJ" + r(WORD, 74),
        "openai old": "sk-" + r(ALNUM, 20) + "T3BlbkFJ" + r(ALNUM, 20),
        "openai service": "sk-" + "svcacct-" + r(WORD, 100),
        "openrouter": "sk-or-" + "v1-" + r(HEX, 64),
        "openshift": "sha256~" + r(WORD, 43),
        "perplexity": "pplx-" + r(ALNUM, 48),
        "pinecone": "pcsk_" + r(ALNUM, 6) + "_" + r(ALNUM, 63),
        "plaid": "access-" + "production-" + r.uuid(),
        "planetscale": "pscale_" + "tkn_" + r(WORD, 43),
        "planetscale password": "pscale_" + "pw_" + r(WORD, 43),
        "posthog": "phx_" + r(ALNUM, 43),
        "postman": "PMAK-" + r(HEX, 24) + "-" + r(HEX, 34),
        "prefect": "pnu_" + r(ALNUM, 36),
        "pulumi": "pul-" + r(HEX, 40),
        "pypi": "pypi-" + "AgEIcHlwaS5vcmc" + r(WORD, 120),
        "readme": "rdme_" + r(LOWER + DIGITS, 70),
        "render": "rnd_" + r(ALNUM, 28),
        "replicate": "r8_" + r(ALNUM, 37),
        "resend": "re_" + r(ALNUM, 8) + "_" + r(ALNUM, 24),
        "rubygems": "rubygems_" + r(HEX, 48),
        "sendgrid": "SG." + r(WORD, 22) + "." + r(WORD, 43),
        "sentry org": "sntrys_" + "eyJ" + r(BASE64, 150) + "_" + r(BASE64, 43),
        "sentry user": "sntryu_" + r(HEX, 64),
        "shippo": "shippo_" + "live_" + r(HEX, 40),
        "shopify": "shpat_" + r(HEX, 32),
        "slack": "xoxb-" + "123456789012-1234567890123-" + r(ALNUM, 24),
        "slack app": "xapp-1-" + r(UPPER + DIGITS, 11) + "-" + r(DIGITS, 13) + "-" + r(HEX, 64),
        "slack hook": "https://hooks.slack.com/services/" + "T00000000/B00000000/" + r(ALNUM, 24),
        "discord hook": "https://discord.com/api/webhooks/" + r(DIGITS, 18) + "/" + r(WORD, 68),
        "teams hook": "https://x.webhook.office.com/webhookb2/"
        + f"{r.uuid()}@{r.uuid()}/IncomingWebhook/{r(HEX, 32)}/{r.uuid()}",
        "sonar": "squ_" + r(HEX, 40),
        "sourcegraph": "sgp_" + r(HEX, 40),
        "square": "EAAA" + r(WORD, 60),
        "square secret": "sq0csp-" + r(WORD, 43),
        "stripe": "sk_" + "live_" + r(ALNUM, 24),
        "stripe restricted": "rk_" + "test_" + r(ALNUM, 24),
        "supabase": "sbp_" + r(HEX, 40),
        "supabase secret": "sb_" + "secret_" + r(WORD, 31),
        "tailscale": "tskey-" + "auth-" + r(ALNUM, 12) + "-" + r(ALNUM, 32),
        "tavily": "tvly-" + "dev-" + r(ALNUM, 32),
        "telegram": "110201543" + ":AA" + r(WORD, 33),
        "terraform": r(ALNUM, 14) + "." + "atlasv1." + r(WORD, 67),
        "together": "tgp_v1_" + r(WORD, 43),
        "trello": "ATTA" + r(HEX, 64),
        "twilio": "SK" + r(HEX, 32),
        "typeform": "tfp_" + r(ALNUM, 44) + "_" + r(ALNUM, 14),
        "vault": "hvs." + r(WORD, 95),
        "vault batch": "hvb." + r(WORD, 150),
        "vault old": "s." + r(ALNUM, 24),
        "vercel": "vcp_" + r(ALNUM, 56),
        "vercel blob": "vercel_blob_rw_" + r(ALNUM, 16) + "_" + r(ALNUM, 30),
        "voyage": "pa-" + r(WORD, 43),
        "webhook": "whsec_" + r(ALNUM, 32),
        "xai": "xai-" + r(ALNUM, 80),
        "yandex": "AQVN" + r(WORD, 36),
        "private key in base64": b64("-----BEGIN " + "PRIVATE KEY-----\n" + r(BASE64, 64) + "\n"),
    }


def block(make: Maker, name: str, lines: int = 12) -> Planted:
    """Return a private key of several lines."""
    body = [make(BASE64, 64) for _ in range(lines)]
    text = "\n".join([f"-----BEGIN {name}-----", *body, f"-----END {name}-----"])
    return Planted(name.lower(), text, tuple(line[5:60] for line in body))


def in_place() -> list[Planted]:
    """Return secrets that can be recognised only by the text around them."""
    r = Maker(11)
    made: list[Planted] = []

    def add(kind: str, template: str, secret: str) -> None:
        made.append(Planted(kind, template.replace("{}", secret), (secret,)))

    add("env secret", "DATABASE_SECRET={}", r(ALNUM, 24))
    add("env hex key", "API_KEY={}", r(HEX, 32))
    add("env hash-like key", "WANDB_KEY={}", r(HEX, 40))
    add("exported", "export MISTRAL_API_KEY={}", r(ALNUM, 32))
    add("heroku old", "HEROKU_API_KEY={}", r.uuid())
    add("vercel old", "VERCEL_TOKEN={}", r(ALNUM, 24))
    add("cohere", "COHERE_API_KEY={}", r(ALNUM, 40))
    add("datadog", "DD_APP_KEY={}", r(HEX, 40))
    add("quoted", "const apiKey = '{}';", r(ALNUM, 32))
    add("typed", "const authToken: string = '{}';", r(ALNUM, 32))
    add("client secret", '"client_secret": "{}"', r(ALNUM, 40))
    add("password of signs", "password: '{}'", "xK9$m&P2v(Lq8)z;T4")
    add("yaml", "password: {}", "xK9#mP2vLq8z")
    add("aws secret", "aws_secret_access_key = {}", r(BASE64, 40))
    add("call", "headers.set('x-api-key', '{}')", r(ALNUM, 32))
    add("query", "https://a.example/x?access_token={}&page=2", r(ALNUM, 32))
    add("option", "deploy --token {} --verbose", r(ALNUM, 32))
    add("azure storage", "DefaultEndpointsProtocol=https;AccountName=x;AccountKey={};", r(BASE64, 86) + "==")
    add("azure sas", "https://a.blob.core.windows.net/c?sv=2022-11-02&sp=r&sig={}&se=2026", r(ALNUM, 43) + "%3D")
    add("signed link", "https://b.s3.amazonaws.com/k?X-Amz-Expires=60&X-Amz-Signature={}", r(HEX, 64))
    add("bearer", "Authorization: Bearer {}", r(ALNUM, 40))
    add("basic", "Authorization: Basic {}", b64("user:" + r(ALNUM, 12)))
    add("other scheme", "Authorization: Splunk {}", r(ALNUM, 36))
    add("cookie", "Cookie: theme=dark; sid={}; lang=en", r(ALNUM, 32))
    add("set-cookie", "Set-Cookie: connect.sid={}; Path=/; HttpOnly", "s%3A" + r(ALNUM, 32) + "." + r(ALNUM, 43))
    add("url password", "postgres://admin:{}@db.example:5432/x", "hunter2")
    add("redis password", "redis://:{}@cache.example", "hunter2")
    add("git credentials", "https://x-access-token:{}@github.com/o/r.git", r(ALNUM, 40))
    add("git token", "https://{}@git.example/a.git", r(ALNUM, 40))
    add("netrc", "machine api.example login me password {}", r(ALNUM, 10))
    add("npmrc", "//host.example/:_authToken={}", r(ALNUM, 36))
    add("npmrc auth", "//host.example/:_auth={}", b64("me:" + r(ALNUM, 12)))
    add("docker auth", '{"auths": {"https://index.example/v1/": {"auth": "{}"}}}', b64("me:" + r(ALNUM, 12)))
    add("pgpass", "db.example:5432:app:admin:{}", r(ALNUM, 12))
    add("curl", "curl -u admin:{} https://a.example", r(ALNUM, 12))
    add("xml", "<password>{}</password>", r(ALNUM, 24))
    add("consul", "CONSUL_HTTP_TOKEN={}", r.uuid())
    add("one-time password", "otpauth://totp/a?secret={}&issuer=b", r(UPPER + "234567", 32))
    add("json in a query", "https://a.example/?q=%7B%22token%22%3A%22{}%22%7D", r(ALNUM, 32))
    add("named value", '{"name": "API_TOKEN", "value": "{}"}', r(ALNUM, 32))
    return made


def blocks() -> list[Planted]:
    r = Maker(13)
    names = ("RSA PRIVATE KEY", "EC PRIVATE KEY", "OPENSSH PRIVATE KEY", "PRIVATE KEY", "ENCRYPTED PRIVATE KEY")
    return [block(r, name) for name in (*names, "DSA PRIVATE KEY", "PGP PRIVATE KEY BLOCK")]


CONTEXTS = (
    Context("bare", lambda key: key),
    Context("log line", lambda key: f"2026-05-04T10:11:12Z error: request with {key} failed."),
    Context("lines", lambda key: f"first\n{key}\nlast"),
    Context("name", lambda key: f"VALUE={key}\n"),
    Context("quotes", lambda key: f'const value = "{key}";' if '"' not in key else f"const value = `{key}`;"),
    Context("json", lambda key: json.dumps({"a": key, "b": 1})),
    Context("json in json", lambda key: json.dumps({"a": json.dumps({"b": key})})),
    Context("lines in json", lambda key: json.dumps({"a": f"first\n{key}\nlast"})),
    Context("json in json in json", lambda key: json.dumps([json.dumps([json.dumps([f"x\n{key}\ny"])])])),
    Context("yaml", lambda key: f"env:\n  value: {key}\n  other: 1\n"),
    Context("markdown", lambda key: f"(see `{key}`)"),
    Context("color around", lambda key: f"it is \x1b[31m{key}\x1b[0m."),
    Context("color inside", lambda key: f"it is {key[: len(key) // 2]}\x1b[1;33m{key[len(key) // 2 :]}\x1b[0m."),
    Context("escaped color", lambda key: json.dumps(f"it is \x1b[31m{key}\x1b[0m.")),
)
