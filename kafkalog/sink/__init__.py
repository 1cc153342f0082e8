"""Commits of staged batches to log directories, exactly once.

Tasks write encoded batches to staged files. A commit appends them to the logs and
remembers its identity, so that the same commit repeated writes nothing. If a commit is
interrupted, the next one completes or undoes it.
"""
