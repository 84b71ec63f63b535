"""Test suite with every outcome that pytest counts; TIMES repeats the tests."""

import os

import pytest

TIMES = range(int(os.environ["TIMES"]))


@pytest.fixture
def broken_setup():
    raise OSError("no inventory service")


@pytest.fixture
def broken_teardown():
    yield
    raise OSError("the inventory service did not stop")


@pytest.fixture(params=TIMES)
def time(request):
    return request.param


class TestRefund:
    def test_passes(self, time):
        assert "14 days" in "A refund takes 14 days."

    def test_fails(self, time):
        print(f"customer {time} asks")
        assert "14 days" in "A refund takes 5 days."


def test_raises(time):
    raise ValueError("\x1b[31mnot a <price>\x1b[0m & no ]]> either")


def test_of_broken_setup(time, broken_setup):
    pass


def test_of_broken_teardown(time, broken_teardown):
    pass


def test_fails_before_broken_teardown(time, broken_teardown):
    raise AssertionError("wrong")


@pytest.mark.parametrize("answer", ["Paris", "Zürich, CH", "a/b::c", ""])
def test_capital(time, answer):
    assert answer == "Paris"


@pytest.mark.skip(reason="no network")
def test_skipped(time):
    pass


@pytest.mark.xfail(reason="known")
def test_expected_to_fail(time):
    raise AssertionError("as expected")


@pytest.mark.xfail(reason="fixed since")
def test_unexpectedly_passes(time):
    pass


@pytest.mark.xfail(strict=True, reason="must fail")
def test_strictly_expected_to_fail(time):
    pass


def test_subtests(time, subtests):
    for city in ("Paris", "Kyoto", "Lima"):
        with subtests.test(city=city):
            assert city != "Kyoto"


def test_after_subtests(time):
    pass
