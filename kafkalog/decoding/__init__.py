"""Bytes of record batches to columns of records, by any codec and magic."""
