"""What is shipped: the archives that ``make build`` writes into ``dist/``."""
