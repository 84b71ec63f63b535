"""Whether a report is right: readable, in agreement with itself, well linked, its quotations real. Pure."""

from evalscribe.proofread.said import Said
from evalscribe.review.checking.links import linked_reports, links
from evalscribe.review.checking.page import Page, inspect, is_ours, markers
from evalscribe.review.checking.quotations import Quotation, compared, quotations

__all__ = [
    "Page",
    "Quotation",
    "Said",
    "compared",
    "inspect",
    "is_ours",
    "linked_reports",
    "links",
    "markers",
    "quotations",
]
