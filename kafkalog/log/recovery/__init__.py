"""Loading of a log for appends, after a clean shutdown or a crash."""
