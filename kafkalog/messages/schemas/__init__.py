"""Schemas of Kafka's messages, as tables."""
