"""The judge that needs no key: rules that say what they know, and mark what they only guess."""

from evalscribe.judging.rules.engine import ID, KEY_PREFIX, RULES, VERSION, RulesJudge

__all__ = ["ID", "KEY_PREFIX", "RULES", "VERSION", "RulesJudge"]
