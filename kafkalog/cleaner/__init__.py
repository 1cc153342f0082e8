"""Log compaction: of the records of each key, the last one is kept.

>>> LogCleaner({}).clean_filthiest() is None
True
"""

from kafkalog.cleaner.log_cleaner import LogCleaner

__all__ = ["LogCleaner"]
