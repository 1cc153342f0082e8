"""The offset, time and transaction index of one segment."""
