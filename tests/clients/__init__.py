"""Clients of others, unchanged, on what kafkalog serves."""
