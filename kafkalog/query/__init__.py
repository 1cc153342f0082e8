"""Reads over many logs, with records as columns: scan, find, tail, list, compare."""
