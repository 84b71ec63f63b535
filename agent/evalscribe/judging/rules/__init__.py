"""A judge that needs no key: rules that decide clear failures and mark guesses as uncertain."""
