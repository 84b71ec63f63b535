"""Tables for people."""

from tabulate import tabulate


def table(rows: list[dict[str, str]]) -> str:
    """The rows as a table."""
    return str(tabulate(rows, headers="keys", tablefmt="github"))
