"""The rules: a judge without a model. It decides clear failures and marks its guesses as uncertain."""
