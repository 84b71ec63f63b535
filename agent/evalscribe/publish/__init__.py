"""Where a run's report goes, and what of the last one it keeps."""

from evalscribe.publish.begun import begun
from evalscribe.publish.merge import Merged, merge
from evalscribe.publish.placement import Place, folder_of, place
from evalscribe.publish.reconcile import reconciled

__all__ = ["Merged", "Place", "begun", "folder_of", "merge", "place", "reconciled"]
