from pathlib import Path

from table import table


def test_pins_one_version():
    assert Path("requirements.txt").read_text().split() == ["tabulate==0.9.0"]


def test_table():
    assert table([{"a": "x"}]).splitlines() == ["| a   |", "|-----|", "| x   |"]
