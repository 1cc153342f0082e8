"""Floor 3: names, reads and durable writes. Does not know what a file stores."""
