"""The triage cascade: rules, then a cheap model that tags, then an expensive one only where that is worth it."""

from evalscribe.judging.cascade.cases import CaseCascade
from evalscribe.judging.cascade.subjects import Cascaded, SubjectCascade, first_pass

__all__ = ["Cascaded", "CaseCascade", "SubjectCascade", "first_pass"]
