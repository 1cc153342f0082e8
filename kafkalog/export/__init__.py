"""Floor 10: records as other people's arrays. Imports everything, imported by nothing."""
