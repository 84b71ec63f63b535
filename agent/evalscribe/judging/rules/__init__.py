"""A judge that uses rules instead of a model. The rules decide clear failures and mark their guesses as uncertain."""
