"""Tests of a log with a failing disk, and of power cuts at any moment."""
