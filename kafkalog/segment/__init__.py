"""The files of one segment: the log and its indexes."""
