"""Scorers: judges of one run item. Those that need no model are here, those that ask one are in `model`."""
