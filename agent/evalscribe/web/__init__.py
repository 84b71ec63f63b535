"""The pages in the browser: an inbox of decisions, runs with their evidence, and comparisons.

A server shows them, or they are written as files.
"""
