"""Kafka's messages: structs encoded by a schema and a version."""
