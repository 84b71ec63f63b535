"""Judges that apply a rubric: the prompt, the answer, its citations, and the vote over several."""
