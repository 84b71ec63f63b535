"""What a report prints beside what its own content would print: which generated lines are not evalscribe's. Pure."""
