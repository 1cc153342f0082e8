"""Structures that Kafka writes to disk, and the bytes of each."""
