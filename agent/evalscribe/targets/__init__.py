"""Components as `Target`: Python functions in a process of their own, addresses over HTTP, and commands."""
