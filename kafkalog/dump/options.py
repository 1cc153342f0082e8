"""What is asked of the tool.

Knows: flags by their meaning. Does not know: how they are spelled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kafkalog.dump.arguments import Argument

UNLIMITED_BYTES: Final = 2**31 - 1
STRING_DECODER: Final = "org.apache.kafka.tools.api.StringDecoder"

MAX_BYTES: Final = Argument("max-bytes", str(UNLIMITED_BYTES))
MAX_MESSAGE_BYTES: Final = Argument("max-message-size", str(5 << 20))
KEY_DECODER: Final = Argument("key-decoder-class", STRING_DECODER)
VALUE_DECODER: Final = Argument("value-decoder-class", STRING_DECODER)


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
    decoder: str | None = None
    max_bytes: Argument = MAX_BYTES
    max_message_bytes: Argument = MAX_MESSAGE_BYTES
    key_decoder: Argument = KEY_DECODER
    value_decoder: Argument = VALUE_DECODER
