"""Tests of log compaction."""
