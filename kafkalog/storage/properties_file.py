"""``.properties`` files, which hold Kafka's settings.

This is a separate module so that reading settings imports nothing else.

Source: ``Utils.loadProps``.
"""

from __future__ import annotations

from kafkalog.errors import CorruptCheckpointError
from kafkalog.formats.properties import parse_properties
from kafkalog.storage.location import AnyPath, locate, read_small


def read_properties(path: AnyPath) -> dict[str, str]:
    r"""Read a ``.properties`` file.

    Parameters
    ----------
    path : path-like, str or RemotePath
        The file; text may be a URL.

    Returns
    -------
    dict of str to str
        The last value of each key.

    Raises
    ------
    CorruptCheckpointError
        If the file is not a valid properties file, with its path and the byte.
    OSError
        If the file cannot be read.

    Examples
    --------
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
        properties = parse_properties(read_small(place, links=True))
    except CorruptCheckpointError as error:
        raise error.located(place) from None
    return {key: value.value for key, value in properties.items()}
