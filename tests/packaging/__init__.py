"""The archives that ``make build`` writes into ``dist/``."""
