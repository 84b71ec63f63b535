"""Render rows as a GitHub-flavoured table."""

from tabulate import tabulate


def table(rows: list[dict[str, str]]) -> str:
    """Format rows, using the keys as headers."""
    return str(tabulate(rows, headers="keys", tablefmt="github"))
