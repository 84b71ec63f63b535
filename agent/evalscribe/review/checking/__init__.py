"""Whether a report is right: readable, in agreement with itself, well linked, its quotations real. Pure."""
