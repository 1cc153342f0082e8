"""Repair of log directories in place, with the originals kept and restorable."""
