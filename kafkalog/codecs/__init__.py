"""Encodings of bytes: compression and checksums."""
