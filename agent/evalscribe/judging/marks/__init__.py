"""Citations in a judge's words, resolved against what it was shown.

The grammar: `[T0B1]`, `[R0M.scores.reward]`, `[A0]`, `[failure]`, `[output src/main.py:3-9]`, each of them also with
`:<RANGE>quoted text</RANGE>` before the bracket closes, several in one bracket behind commas.
"""
