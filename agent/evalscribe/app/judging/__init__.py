"""Subjects judged by rubrics, and judges measured by what people said."""
