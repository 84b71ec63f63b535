"""Where a run's report goes, and what of the last one it keeps."""
