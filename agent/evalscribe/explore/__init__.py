"""Explore: what many agent runs have in common, observed batch by batch, clustered, and answered from that."""
