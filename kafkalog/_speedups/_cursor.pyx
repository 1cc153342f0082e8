"""Export `Status` to Python; the bounded cursor itself is in ``_cursor.pxd``."""
