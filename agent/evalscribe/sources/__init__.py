"""Adapters that read runs and their evidence, redacting secrets as they read."""
