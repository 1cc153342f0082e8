"""Bytes to columns of records."""
