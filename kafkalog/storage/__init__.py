"""File names, local and remote paths, reads and durable writes."""
