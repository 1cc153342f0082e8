"""Validation of appends, and the changes that a leader makes to their batches."""
