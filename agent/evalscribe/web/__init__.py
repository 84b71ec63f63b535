"""The page in the browser: an inbox of decisions, runs with their evidence, and comparisons, served or as files."""
