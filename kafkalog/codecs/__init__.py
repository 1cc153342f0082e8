"""Encodings of bytes: compression, checksums, varints, text."""
