"""Earlier reports of a model, ours or in any free form: what they say, and what it means for a run of today."""
