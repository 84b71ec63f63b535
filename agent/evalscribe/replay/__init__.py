"""Replay failures.

Reference answers and stored outputs are graded again, usually in a sandbox, and the results can show what caused a
failure.
"""
