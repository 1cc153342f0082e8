"""What is shipped: the archives that ``make build`` put into ``dist/``."""
