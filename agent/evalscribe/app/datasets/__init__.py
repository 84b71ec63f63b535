"""Use cases of datasets: a draft that is added to, and versions that are published from it."""
