"""The files of one segment, kept in step. Does not know other segments."""
