"""Floor 6: one partition, segments in order. Does not know topics."""
