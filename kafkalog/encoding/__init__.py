"""Columns of records to batches."""
