"""Encoding of records as record batches."""
