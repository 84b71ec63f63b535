"""The judge that needs no key: rules that say what they know, and mark what they only guess."""
