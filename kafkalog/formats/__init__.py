"""Floor 2: bytes <-> Kafka's structures. Knows layouts. Does not know files."""
