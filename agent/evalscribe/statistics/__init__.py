"""Confidence intervals, agreement of raters, and paired comparisons."""

from evalscribe.statistics.agreement import Kappa, clustered_kappa, kappa
from evalscribe.statistics.intervals import (
    Interval,
    TrialCluster,
    cluster_interval,
    pass_at,
    pass_every,
    passing_range,
    wilson_interval,
)
from evalscribe.statistics.paired import Paired, Task, difference, paired
from evalscribe.statistics.significance import (
    ALPHA,
    fisher_exact_test,
    holm,
    sign_flip_test,
    stratified_permutation_test,
)

__all__ = [
    "ALPHA",
    "Interval",
    "Kappa",
    "Paired",
    "Task",
    "TrialCluster",
    "cluster_interval",
    "clustered_kappa",
    "difference",
    "fisher_exact_test",
    "holm",
    "kappa",
    "paired",
    "pass_at",
    "pass_every",
    "passing_range",
    "sign_flip_test",
    "stratified_permutation_test",
    "wilson_interval",
]
