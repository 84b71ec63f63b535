"""Why a text cannot be read as a report."""

from evalscribe.errors import DataError


class UnreadableReport(DataError):
    """Names the lines (counted from 1) and the reason."""

    def __init__(self, reason: str, *lines: int) -> None:
        where = " and ".join(str(line) for line in lines)
        super().__init__(f"{'lines' if len(lines) > 1 else 'line'} {where}: {reason}")
        self.reason = reason
        self.lines = lines


class ConflictingEdits(UnreadableReport):
    """A label was changed in two places, differently: only a person can say which one holds."""
