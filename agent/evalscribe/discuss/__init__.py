"""Questions about a report, answered from its findings and their evidence. Nothing is written."""
