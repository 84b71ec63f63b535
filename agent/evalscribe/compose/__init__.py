"""A run, its collated findings and its history into the report, and into the JSON document of the analysis. Pure."""

from evalscribe.compose.analysis import analysis
from evalscribe.compose.outline import compose
from evalscribe.compose.saving import cascade_saving, was_spared

__all__ = ["analysis", "cascade_saving", "compose", "was_spared"]
