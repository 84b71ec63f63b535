"""What making a regression dataset works with: experiments, and what is known of the failures of any run."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

from evalscribe import wiring
from evalscribe.app.experiments.regression import RegressionDesk
from evalscribe.settings import Settings
from evalscribe.wiring.experiments import open_desk


@contextmanager
def open_regression_desk(found: Settings) -> Iterator[RegressionDesk]:
    with open_desk(found) as experiments, closing(wiring.store(found)) as store:
        yield RegressionDesk(experiments, store, wiring.library(found))
