"""Tests of the log package."""
