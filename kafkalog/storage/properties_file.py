"""``.properties`` files by path, as Kafka's settings are kept in them.

Knows: where the file is. Does not know: which settings there are.
Source: ``Utils.loadProps``.
"""

from __future__ import annotations

from kafkalog.errors import CorruptCheckpointError
from kafkalog.formats.properties import parse_properties
from kafkalog.storage.location import AnyPath, locate, read_small


def read_properties(path: AnyPath) -> dict[str, str]:
    r"""Read a ``.properties`` file: its keys, each with the last value it has there.

    Raises `CorruptCheckpointError`, with file and byte, where it is none; `OSError`.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from kafkalog import LogConfig
    >>> with TemporaryDirectory() as directory:
    ...     path = Path(directory, "topic.properties")
    ...     _ = path.write_text("# one hour\nretention.ms = 3600000\n")
    ...     LogConfig.from_properties(read_properties(path)).retention_ms
    3600000
    """
    place = locate(path)
    try:
        found = parse_properties(read_small(place, links=True))
    except CorruptCheckpointError as error:
        raise error.located(place) from None
    return {key: each.value for key, each in found.items()}
