"""Floor 1: bytes <-> numbers. Knows encodings. Does not know what they encode."""
