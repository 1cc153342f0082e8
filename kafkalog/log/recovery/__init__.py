"""Opening a log to write to it, after a clean stop or a crash."""
