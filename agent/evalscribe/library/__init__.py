"""The folder of reports that people keep in git."""
