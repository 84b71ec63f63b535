"""The rules: a judge without a model, which decides clear failures and marks its guesses as uncertain."""
