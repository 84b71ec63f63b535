"""Nouns to text for people and programs, the report itself aside."""
