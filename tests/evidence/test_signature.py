"""Error signatures ignore incidental values and keep causes."""

import pytest

from evalscribe.evidence import locate, log
from evalscribe.model.evidence import LocatedError

SAME = [
    ("Cannot open /tmp/run-81/a/b.ts:3", "Cannot open /var/other/c.ts:90"),
    ("took 31ms", "took 4.5 s"),
    ("expected 3 to be 4", "expected 30 to be -4"),
    ("row j57kr14d5e5xbc3h9r9j609ffebpe645 is gone", "row k572xxyc3fc6shagz3ran5pmvq4ehs2r is gone"),
    ("commit 4bf1d9e02a", "commit 99aa31c0ffee1"),
    ("at 0x7f2a5c31d6c0", "at 0x1"),
    ("id '12ab34cd56ef78' unknown", "id 'ffab34cd56ef00' unknown"),
    ("550e8400-e29b-41d4-a716-446655440000", "123e4567-e89b-12d3-a456-426614174000"),
    ("GET http://127.0.0.1:35276/x", "GET http://127.0.0.1:41000/y"),
    ("a   b", "A b"),
]
DIFFERENT = [
    ("'React' is not defined", "'Vue' is not defined"),
    ("TS2554: Expected arguments", "TS2339: Expected arguments"),
    ("is assignable", "is not assignable"),
    ("(PLW2901)", "(PLR2004)"),
]


def signature_of(error: str, step: str = "build") -> str | None:
    return locate.signature(step, LocatedError(error=error))


@pytest.mark.parametrize(("a", "b"), SAME)
def test_incidental_values_do_not_change_the_signature(a: str, b: str) -> None:
    assert signature_of(a) == signature_of(b)


@pytest.mark.parametrize(("a", "b"), DIFFERENT)
def test_different_causes_have_different_signatures(a: str, b: str) -> None:
    assert signature_of(a) != signature_of(b)


def test_signature_includes_the_step() -> None:
    assert signature_of("same", "lint") != signature_of("same", "tests")


def test_signature_is_none_without_an_error() -> None:
    assert locate.signature("tests", None) is None


def test_shortened_error_drops_machine_paths_and_keeps_routes() -> None:
    assert log.shorten_error("/tmp/x/y/app.ts is broken 31ms") == "app.ts is broken"
    assert log.shorten_error("GET /api/hello returns 404") == "GET /api/hello returns 404"
    assert len(log.shorten_error("x " * 500)) <= 240
