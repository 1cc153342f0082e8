"""Floor 9: one question over many logs: which bytes, which columns, bounded memory."""
