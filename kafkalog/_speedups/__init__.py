"""The compiled cellar: typed loops over bytes the caller owns.

The boundary is this page. A kernel takes arrays and fills arrays; it opens no file,
keeps no state and raises nothing about data: it answers with a `Status`, and the
floor above turns a status into an error that knows its file.
"""

from kafkalog._speedups._cursor import Status

__all__ = ["Status"]
