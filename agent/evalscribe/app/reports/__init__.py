"""Reports that are there: read, checked, published, corrected, discussed, applied."""
