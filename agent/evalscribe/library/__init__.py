"""The folder of reports that people keep in git."""

from evalscribe.library.folder import ReportsFolder

__all__ = ["ReportsFolder"]
