"""Questions that people ask about runs and results: what the model is shown, and what its answer comes to."""
