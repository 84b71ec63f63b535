"""What a judge is shown: items, each of which it can cite by its mark."""
