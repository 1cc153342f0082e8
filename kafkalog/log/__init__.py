"""The log of one partition: reading, appending, retention, truncation, recovery."""
