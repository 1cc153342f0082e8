"""What is asked of the tool.

Knows: flags by their meaning. Does not know: how they are spelled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

UNLIMITED_BYTES: Final = 2**31 - 1
MESSAGE_BYTES: Final = 5 << 20

STRING_DECODER: Final = "org.apache.kafka.tools.api.StringDecoder"


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpOptions:
    """The tool's flags; `decoder` is a kind of internal topic, or None.

    `max_bytes` of a log are read, and `max_message_bytes` from where an index points.
    """

    print_contents: bool = False
    deep: bool = False
    skip_metadata: bool = False
    verify_only: bool = False
    sanity_only: bool = False
    max_bytes: int = UNLIMITED_BYTES
    max_message_bytes: int = MESSAGE_BYTES
    decoder: str | None = None
    key_decoder: str = STRING_DECODER
    value_decoder: str = STRING_DECODER
