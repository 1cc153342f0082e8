"""Kafka's protocol: its requests and responses, frames, and error codes."""
