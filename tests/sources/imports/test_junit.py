"""Import of test results in JUnit XML."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evalscribe.errors import DataError
from support.waiting import PATIENCE_S

TESTS = r"""
import pytest, warnings

@pytest.fixture
def broken(): raise RuntimeError("no database")

def test_good(record_property):
    record_property("owner", "ann")
    print("hello")

@pytest.mark.parametrize("n", [1, "a/b\x00"])
def test_many(n): assert n == 1

class TestThings:
    def test_setup(self, broken): pass
    @pytest.mark.skip(reason="later")
    def test_later(self): pass
    @pytest.mark.xfail
    def test_odd(self): assert 0
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """JUnit XML file written by pytest."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "test_all.py").write_text(TESTS)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--junitxml=out.xml",
        "-o",
        "junit_logging=all",
    ]
    # The outer pytest's options must not reach the inner one.
    plain = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    subprocess.run(
        command,
        cwd=folder,
        env={**plain, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        check=False,
        capture_output=True,
        timeout=PATIENCE_S,
    )
    return folder / "out.xml"


def test_pytest_results_are_read(results: Path, read_file: Callable[..., Any]) -> None:
    read = read_file(results, model="acme/m-1")
    assert (read.format, read.run.experiment, read.run.model) == ("junit", "pytest", "m-1")
    assert [(one.eval.path, one.eval.status, one.eval.failed_step) for one in read.records] == [
        ("test_all/test_good", "passed", None),
        ("test_all/test_many[1]", "passed", None),
        (r"test_all/test_many[a/b\x00]", "failed", "test"),
        ("test_all.TestThings/test_setup", "error", None),
        ("test_all.TestThings/test_later", "incomplete", None),
        ("test_all.TestThings/test_odd", "incomplete", None),
    ]
    good, _, many, setup, later, _ = read.records
    assert good.metadata["properties"] == {"owner": "ann"}
    assert good.metadata["scores"] == {"passed": 1.0}
    assert "hello" in good.documents[0].text
    assert many.eval.reason.startswith("AssertionError: assert 'a/b")
    assert many.steps[0].error == many.eval.reason
    assert "def test_many(n): assert n == 1" in next(one for one in many.documents if one.path == "failure").text
    assert setup.eval.reason == 'failed on setup with "RuntimeError: no database"'
    assert later.eval.reason == "later"
    assert later.metadata["scores"] == {}


CASE = """<testsuite name="s" failures="1" tests="3" hostname="h">
<properties><property name="seed" value="7"/></properties>
<testcase classname="a" name="b" time="0.5"><rerunFailure message="once">text one</rerunFailure>
<failure message="AssertionError" type="E">line &lt;1&gt;</failure><system-out>out</system-out><extra/></testcase>
<testcase classname="a" name="b"/><testcase name="c"/><system-err>noise</system-err></testsuite>"""


def test_reruns_and_suite_metadata_are_read_and_omissions_listed(tmp_path: Path, read_file: Callable[..., Any]) -> None:
    path = tmp_path / "x.xml"
    path.write_text(CASE)
    read = read_file(path)
    assert [(one.eval.path, one.eval.status) for one in read.records] == [
        ("a/b#1", "failed"),
        ("a/b#2", "passed"),
        ("c", "passed"),
    ]
    assert read.records[0].metadata["suite"] == {"name": "s", "hostname": "h", "properties": {"seed": "7"}}
    assert [one.path for one in read.records[0].documents] == ["rerunFailure", "failure", "system-out"]
    assert read.left_out == {
        "the attributes `tests`, `failures` of a suite, which are sums of its tests": 1,
        "the element `extra` of a test case": 1,
        "the element `system-err` of a suite": 1,
    }


TORN = """<testsuite name="pytest"><testcase classname="t" name="a"><failure message="assert 0"/></testcase>
<testcase classname="t" name="a"><error message="failed on teardown with &quot;OSError&quot;"/></testcase>
<testcase classname="t" name="b"><error message="failed on teardown with &quot;OSError&quot;"/></testcase>
</testsuite>"""


def test_teardown_error_after_a_failure_is_a_separate_eval(tmp_path: Path, read_file: Callable[..., Any]) -> None:
    path = tmp_path / "x.xml"
    path.write_text(TORN)
    assert [(one.eval.path, one.eval.status) for one in read_file(path).records] == [
        ("t/a", "failed"),
        ("t/a teardown", "error"),
        ("t/b", "error"),
    ]


SAID = """<testsuites><testsuite name="outer"><testsuite name="pytest">
<testcase name="a"/><testcase name="a"><failure message="assert 0"/></testcase><testcase name="b"/></testsuite>
<testcase name="c"><failure message="Failed">=== RUN   c
    c_test.go:9: got 4, want 3
--- FAIL: c (0.00s)</failure></testcase>
<testcase name="d"/><testcase name="d"><flakyError><stackTrace>at line 1</stackTrace></flakyError></testcase>
</testsuite></testsuites>"""


def test_failures_and_reruns_of_several_tools_are_read(tmp_path: Path, read_file: Callable[..., Any]) -> None:
    path = tmp_path / "x.xml"
    path.write_text(SAID)
    read = read_file(path)
    assert [(one.eval.path, one.eval.reason, one.metadata["suite"]["name"]) for one in read.records] == [
        ("a#1", "it failed and was run again; the file does not say why", "pytest"),
        ("a#2", "assert 0", "pytest"),
        ("b", None, "pytest"),
        ("c", "c_test.go:9: got 4, want 3", "outer"),
        ("d#1", None, "outer"),
        ("d#2", None, "outer"),
    ]
    assert [(one.path, one.text) for one in read.records[-1].documents] == [("stackTrace", "at line 1")]
    assert read.left_out == {}


def test_change_of_any_part_changes_the_result(tmp_path: Path, read_file: Callable[..., Any]) -> None:
    path = tmp_path / "x.xml"
    path.write_text(CASE)
    before = read_file(path).told
    for part in (
        '"s"',
        '"h"',
        '"seed"',
        '"7"',
        '"a"',
        '"b"',
        '"0.5"',
        '"once"',
        "text one",
        '"AssertionError"',
        '"E"',
        "line",
        ">out<",
    ):
        path.write_text(CASE.replace(part, f"{part[:-1]}X{part[-1]}", 1))
        assert read_file(path).told != before, part


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param(
            '<?xml version="1.0"?><!DOCTYPE a [<!ENTITY x "y">]><testsuite>&x;</testsuite>',
            "a document type or entity is declared",
            id="entity",
        ),
        pytest.param(
            '<!DOCTYPE a SYSTEM "file:///etc/passwd"><testsuite/>',
            "a document type or entity is declared",
            id="outside",
        ),
        pytest.param("<testsuite>" + "<a>" * 100, "nested too deeply", id="deep"),
        pytest.param(
            "<testsuite><testcase name='a'></testsuite>", "invalid XML at line 1, column 33: mismatched tag", id="torn"
        ),
        pytest.param("<html></html>", "is XML but not JUnit: its root is <html>", id="other XML"),
    ],
)
def test_invalid_or_unsafe_xml_is_refused(tmp_path: Path, read_file: Callable[..., Any], text: str, told: str) -> None:
    path = tmp_path / "x.xml"
    path.write_text(text)
    with pytest.raises(DataError, match=told):
        read_file(path)
