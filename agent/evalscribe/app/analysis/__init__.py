"""From a run to its report: failures read, judged, and written down."""
