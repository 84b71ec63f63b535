"""The rules: a judge without a model. The rules decide clear failures and mark their guesses as uncertain."""
