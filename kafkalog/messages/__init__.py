"""Kafka's messages: bytes that a schema and a version explain."""
