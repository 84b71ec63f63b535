"""The JSON Schemas that judges answer in: which are allowed, and whether an answer fits one."""

from evalscribe.output_schema.answer import agreement_keys, check_output, cited_strings, for_provider, has_citations
from evalscribe.output_schema.check import check_schema
from evalscribe.output_schema.meta import META_SCHEMA

__all__ = [
    "META_SCHEMA",
    "agreement_keys",
    "check_output",
    "check_schema",
    "cited_strings",
    "for_provider",
    "has_citations",
]
