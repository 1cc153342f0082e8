"""Floor 5: one segment's files, kept in step. Does not know its neighbours."""
