"""Two sides compared, or several, and why what got worse did."""
