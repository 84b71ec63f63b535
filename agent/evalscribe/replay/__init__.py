"""Replay failures.

References and stored outputs are graded again in a sandbox, and the results show what caused a failure.
"""
