"""A report in a narrow terminal."""

import io

from rich.console import Console

from evalscribe.cli.terminal import TerminalPage

NAME = "category/003-a_rather_long_name_of_an_eval"
TABLE = f"| # | Eval |\n|--:|---|\n| 1 | {NAME} |\n"


def test_no_name_is_cut_in_a_narrow_terminal() -> None:
    out = io.StringIO()
    Console(file=out, width=30).print(TerminalPage(TABLE))
    assert NAME in "".join(line[4:].strip() for line in out.getvalue().splitlines())
