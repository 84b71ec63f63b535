"""Sites that host repositories, and branches of our own in a repository."""
