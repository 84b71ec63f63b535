"""How sure a figure is, given how often it was tried."""

from evalscribe.statistics.agreement import Interval, Kappa, kappa, wilson
from evalscribe.statistics.clustered import Cluster, clustered
from evalscribe.statistics.clustered_kappa import clustered_kappa
from evalscribe.statistics.dealt import dealt
from evalscribe.statistics.detectable import SIGNIFICANT
from evalscribe.statistics.difference import difference
from evalscribe.statistics.flips import Luck, sign_flip
from evalscribe.statistics.paired import Paired, Task, paired
from evalscribe.statistics.passing import tells_apart
from evalscribe.statistics.several import holm
from evalscribe.statistics.tries import fisher, pass_at, pass_every

__all__ = [
    "SIGNIFICANT",
    "Cluster",
    "Interval",
    "Kappa",
    "Luck",
    "Paired",
    "Task",
    "clustered",
    "clustered_kappa",
    "dealt",
    "difference",
    "fisher",
    "holm",
    "kappa",
    "paired",
    "pass_at",
    "pass_every",
    "sign_flip",
    "tells_apart",
    "wilson",
]
