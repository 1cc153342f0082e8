"""Log compaction, which keeps the last record of each key.

>>> LogCleaner({}).clean_filthiest() is None
True
"""

from kafkalog.cleaner.log_cleaner import LogCleaner

__all__ = ["LogCleaner"]
