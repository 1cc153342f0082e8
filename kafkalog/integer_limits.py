"""The least and greatest integers of Java's types, which are those of Kafka's files.

Where an offset, a time or a number may be missing or has no limit, Kafka uses the least
or the greatest one for it, and so do the modules here.
"""

from typing import Final

MAX_INT32: Final = 2**31 - 1
MIN_INT64: Final = -(2**63)
MAX_INT64: Final = 2**63 - 1
