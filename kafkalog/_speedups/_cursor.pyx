"""The bounded cursor of all kernels, in ``_cursor.pxd``; here so `Status` is importable."""
