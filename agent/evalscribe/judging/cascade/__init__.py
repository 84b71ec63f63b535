"""The triage cascade: rules, then a cheap model that tags, then an expensive one only where that is worth it."""
