"""Floor 8: many partitions in log directories."""
