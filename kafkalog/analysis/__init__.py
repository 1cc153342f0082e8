"""Statistics, consumer groups, lag and transactions, computed from logs."""
