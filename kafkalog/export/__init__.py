"""Floor 10: records as other people's arrays. Imports all, imported by none."""
