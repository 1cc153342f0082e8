"""The manifest of a repair: the state, and each file before and after.

It may be on a disk of unknown origin. Whatever it says, only files of the log directory
are changed, and they get permissions and owners that a log's file may have:

- paths are names of files, at most one directory deep;
- permissions are those to read, write and execute;
- the owner is that of the original that was kept, not that in the manifest.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from kafkalog.integer_limits import MAX_INT64
from kafkalog.repairs.repair_report import RepairAction, RepairKind
from kafkalog.storage.byte_source import open_regular
from kafkalog.storage.contained_path import contained_names

SCHEMA: Final = 1
KEEPING: Final = "keeping"
APPLYING: Final = "applying"
APPLIED: Final = "applied"
UNDOING: Final = "undoing"
UNDONE: Final = "undone"
STATES: Final = (KEEPING, APPLYING, APPLIED, UNDOING, UNDONE)

PERMISSIONS: Final = 0o777
PATH_NAMES: Final = 2
"""A partition's directory, and a file in it."""

_SHA256: Final = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class FileState:
    """The content of a file, and its attributes: time, permissions, owner, group."""

    size: int
    sha256: str
    mtime_ns: int = 0
    mode: int = 0
    uid: int = 0
    gid: int = 0

    @classmethod
    def of(cls, path: Path) -> FileState | None:
        """Return the state of a regular file; None if there is none."""
        try:
            file, status = open_regular(path)
            with file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except FileNotFoundError:
            return None
        return cls(
            status.st_size,
            digest,
            status.st_mtime_ns,
            status.st_mode & PERMISSIONS,
            status.st_uid,
            status.st_gid,
        )

    def is_content_of(self, other: FileState | None) -> bool:
        """Return whether another file has the same content."""
        return other is not None and self.sha256 == other.sha256


@dataclass(frozen=True, slots=True)
class KeptFile:
    """A file of the log directory before and after a repair; None if missing.

    `path` is relative to the log directory.
    """

    path: str
    original: FileState | None
    result: FileState | None


class Manifest(NamedTuple):
    """The content of a manifest; `marker` is the clean shutdown marker before."""

    log_directory: str
    state: str
    marker: FileState | None
    files: tuple[KeptFile, ...]
    actions: tuple[RepairAction, ...]


def format_manifest(manifest: Manifest) -> bytes:
    """Return the bytes of a manifest."""
    values = {
        "schema": SCHEMA,
        "log_directory": manifest.log_directory,
        "state": manifest.state,
        "marker": _values(manifest.marker),
        "files": [
            {
                "path": each.path,
                "original": _values(each.original),
                "result": _values(each.result),
            }
            for each in manifest.files
        ],
        "actions": [action.as_dict() for action in manifest.actions],
    }
    return json.dumps(values, ensure_ascii=False).encode()


def parse_manifest(data: bytes) -> Manifest:
    """Return the content of a manifest.

    Raises `ValueError`, `KeyError` or `TypeError` for anything else.
    """
    try:
        values: Any = json.loads(data)
    except RecursionError:
        raise ValueError("JSON nested too deep") from None
    if values["state"] not in STATES:
        raise ValueError(f"state {values['state']!r}, expected one of {STATES}")
    return Manifest(
        _text(values["log_directory"]),
        values["state"],
        _state(values["marker"]),
        tuple(map(_kept_file, values["files"])),
        tuple(map(_action, values["actions"])),
    )


def _kept_file(values: Mapping[str, Any]) -> KeptFile:
    contained_names(values["path"], PATH_NAMES)
    return KeptFile(
        values["path"], _state(values["original"]), _state(values["result"])
    )


def _action(values: Mapping[str, Any]) -> RepairAction:
    contained_names(values["path"], PATH_NAMES)
    action = RepairAction(**{**values, "action": RepairKind(values["action"])})
    _text(action.reason)
    return action


def _state(values: Mapping[str, Any] | None) -> FileState | None:
    if values is None:
        return None
    state = FileState(**values)
    numbers = state.size, state.mtime_ns, state.mode, state.uid, state.gid
    if not all(type(each) is int and abs(each) <= MAX_INT64 for each in numbers):
        raise ValueError(f"numbers {numbers} of a file, expected integers")
    if not _SHA256.fullmatch(_text(state.sha256)):
        raise ValueError(f"SHA-256 {state.sha256!r}, expected 64 hex digits")
    return replace(state, mode=state.mode & PERMISSIONS)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r}, expected text")
    return value


def _values(state: FileState | None) -> dict[str, Any] | None:
    if state is None:
        return None
    return {name: getattr(state, name) for name in FileState.__slots__}
