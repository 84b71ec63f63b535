"""Where runs come from: adapters that read a run and its evidence, redacted as it is read."""
