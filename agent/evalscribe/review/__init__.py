"""What people make of a report: their corrections as labels, and how well judges agree with them. Pure."""
