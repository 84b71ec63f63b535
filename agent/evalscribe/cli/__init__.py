"""The command line: parse, call one use case, render. Nothing heavy is imported until a command runs."""

import sys

EXAMPLES = """\
evalscribe tells you why a model failed an eval run, and whose fault it was. Three ways to begin:

  evalscribe analyze sample --judge rules      the run that ships with evalscribe: no key, no network
  evalscribe analyze RUN_URL                   a run of your own, by URL, id or snapshot folder
  evalscribe doctor                            what is configured, from where, and what is missing

All commands: evalscribe --help"""


def main() -> None:
    """The `evalscribe` command."""
    for stream in (sys.stdout, sys.stderr):
        # Evidence holds any character; a terminal of the C locale must not end the command.
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command line and return its exit code."""
    from evalscribe.cli.exits import exit_code

    if not arguments:
        return exit_code(lambda: print(EXAMPLES))
    from evalscribe.cli.commands import app

    return exit_code(lambda: app(arguments, prog_name="evalscribe", standalone_mode=False))
