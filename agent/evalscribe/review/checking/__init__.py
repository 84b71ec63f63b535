"""Whether a report is right: readable, in agreement with itself, well linked, its quotations real. Pure."""

from evalscribe.review.checking.links import links
from evalscribe.review.checking.page import Page, inspect, is_ours, markers
from evalscribe.review.checking.quotations import Quotation, compared, quotations
from evalscribe.review.checking.said import Said

__all__ = ["Page", "Quotation", "Said", "compared", "inspect", "is_ours", "links", "markers", "quotations"]
