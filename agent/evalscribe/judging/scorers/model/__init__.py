"""Scorers that ask a model: each is a rubric and what its labels are worth, judged as any rubric is."""
