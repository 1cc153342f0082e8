"""The offset, time and transaction index of one segment. Does not know records."""
