"""A run, its collated findings and its history into the report, and into the JSON document of the analysis. Pure."""
