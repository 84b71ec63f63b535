"""The tables of the newest revision. What older databases look like is in `migrations/versions`, never edited."""
