"""`ports.Engine`: `local` in this process, `ray` on many machines. Ray is imported only when it is chosen."""
