"""Functions that each remove one rule from the engine, so that a test fails."""
