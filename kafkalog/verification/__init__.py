"""Verify what lies under a path, and foresee what a broker would do about it."""
