import csv
import io


def totals(text: str) -> dict[str, float]:
    """Sum the amounts per name."""
    result: dict[str, float] = {}
    for row in csv.DictReader(io.StringIO(text)):
        result[row["name"]] = result.get(row["name"], 0.0) + float(row["amount"])
    return result
