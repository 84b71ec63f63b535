"""Confidence intervals, agreement of raters, and paired comparisons."""
