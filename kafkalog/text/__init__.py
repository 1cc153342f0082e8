"""Numbers, ids and bytes as text."""
