"""Reads over many logs: scan, find, tail, describe; records as columns."""
