"""Floor 4: one segment's lookup tables. Knows order. Does not know records."""
