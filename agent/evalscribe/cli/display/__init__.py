"""What commands print: results, progress, and files of lines."""
