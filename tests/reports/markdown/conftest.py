import pytest

from evalscribe.model.report import Report
from support.example_report import example_report


@pytest.fixture
def report() -> Report:
    return example_report()
