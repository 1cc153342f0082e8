"""Schemas of Kafka's messages, as tables: data, and nothing that acts."""
