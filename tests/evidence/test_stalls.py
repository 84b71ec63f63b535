"""Logs built to be slow are read in bounded time."""

import pytest

from evalscribe.evidence import locate
from support.machine_speed import cpu_below
from support.tool_output import evidence

HEADERS = "[error] tests: failed\n RUN  v3.0.4 /x\n======= FAILURES =======\n"
SHAPES = {
    "blanks": "   × " + " " * 19_000 + "x",
    "underscores": "a_" * 9_000,
    "brackets": "FAILED " + "[" * 15_000 + " x",
    "rules": "_" * 9_000 + " " + "_ " * 5_000,
    "words": "Error" * 4_000,
    "slashes": "error: " + "/a" * 9_000,
    "dots": "A.a." * 5_000,
    "spaces": "  1:1  error  " + "x  " * 6_000,
    "words and blanks": "a " * 9_000 + "failed",
    "at": "    at " + "x:1" * 6_000,
    "urls": "http://" * 2_500,
    "digits": "E   " + "1a" * 9_000,
}


@pytest.mark.benchmark
@pytest.mark.parametrize(
    "log",
    [
        "x" * 5_000_000,
        "error: " + "a:1:" * 500_000,
        "\n" * 400_000,
        " (" * 800_000,
        ("E " * 40 + "\n") * 20_000,
        "/" * 2_000_000,
    ],
    ids=["one line", "colons", "empty lines", "brackets", "many lines", "slashes"],
)
def test_huge_logs_take_bounded_time(log: str) -> None:
    log_evidence = evidence("[error] build: failed\n" + log)
    with cpu_below(10):
        assert len(locate.locate_all(log_evidence)) <= 50
        assert locate.tests(log_evidence).failed in (None, 0)


@pytest.mark.benchmark
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("header", ["[error] build: failed\n", HEADERS, HEADERS.replace(" RUN", "no")])
def test_long_lines_of_every_shape_take_bounded_time(shape: str, header: str) -> None:
    log_evidence = evidence(header + f"{shape}\n" * 100, "tests", reason=shape)
    with cpu_below(5):
        for one in locate.locate_all(log_evidence):
            locate.signature("tests", one)
        locate.tests(log_evidence)
