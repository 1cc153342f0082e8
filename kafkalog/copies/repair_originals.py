"""Originals that repairs of a log directory have kept, as far as they hold records."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from kafkalog.repairs.repair_backup import MANIFEST, ORIGINALS, PREFIX
from kafkalog.repairs.repair_manifest import parse_manifest
from kafkalog.storage.byte_source import read_regular
from kafkalog.storage.location import is_directory

INVALID: Final = (ValueError, KeyError, TypeError, AttributeError, OSError)


def kept_originals(root: Path) -> Iterator[Path]:
    """Yield the directories of originals of a log directory, by time.

    They are in the directory itself or next to it. One whose manifest cannot be read
    may be this log directory's.
    """
    for parent in (root, root.absolute().parent):
        for backup in sorted(parent.glob(f"{PREFIX}*")):
            originals = backup / ORIGINALS
            if is_directory(originals) and not _is_of_another(backup, root):
                yield originals


def _is_of_another(backup: Path, root: Path) -> bool:
    try:
        manifest = parse_manifest(read_regular(backup / MANIFEST))
    except INVALID:
        return False
    kept_of = os.path.normpath(backup.parent / manifest.log_directory)
    return os.path.realpath(kept_of) != os.path.realpath(root)
