"""File names, local and remote paths, reads and durable writes.

Does not know what the files contain.
"""
