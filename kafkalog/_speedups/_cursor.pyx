"""The bounded cursor of all kernels is in ``_cursor.pxd``; this makes `Status` one."""
