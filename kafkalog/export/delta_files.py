"""Files of a Delta table on disk: what the library writes, it does not force there.

Delta's library writes data files, then the commit, a JSON file in ``_delta_log``, and
syncs none of them. So after each commit the data files that it names, the commit and
their directories are synced here, and the library's checkpoint, if it has made one. A
power cut before that may leave one of these files torn: the library then skips an empty
commit without an error, or cannot open the table. Such a file is found before the next
commit, and named; the commits before it are on disk.

Source: "Delta Log Entries" in the Delta transaction log protocol.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from kafkalog.errors import CorruptCheckpointError
from kafkalog.storage.durable_file import Disk

LOG_FOLDER: Final = "_delta_log"
LAST_CHECKPOINT: Final = "_last_checkpoint"
COMMIT: Final = re.compile(r"\d{20}\.json")
PARQUET: Final = b"PAR1"
"""The last bytes of a Parquet file."""
MAX_POINTER_BYTES: Final = 1 << 20
MAX_COMMIT_BYTES: Final = 1 << 30
"""More than any commit of an export; a larger one is another writer's."""


def check_last_files(table: Path, application: str) -> None:
    """Raise an error if the last commit or checkpoint of a table is torn.

    Raises
    ------
    CorruptCheckpointError
        If the commit is not lines of JSON, or if it is one of ours, and a data file
        that it names is missing or has another size; the file and byte are those of the
        commit. Or if the checkpoint is missing or no whole Parquet file.
    """
    _check_checkpoint(table / LOG_FOLDER)
    commits = sorted(filter(COMMIT.fullmatch, _names(table / LOG_FOLDER)))
    if not commits:
        return
    path = table / LOG_FOLDER / commits[-1]
    if path.stat().st_size > MAX_COMMIT_BYTES:
        return
    try:
        actions = list(_actions(path.read_bytes()))
        if _is_ours(actions, application):
            for line, action in actions:
                _check_data_file(table, line, action)
    except CorruptCheckpointError as error:
        error.add_note(
            "A power cut may leave this of a commit that had not returned. Remove the "
            "file, and repeat the export: it appends the records of the commit again."
        )
        raise error.located(path) from None


def sync_creation(table: Path, disk: Disk) -> None:
    """Force the first commit of a table to disk, and its directories."""
    log = table / LOG_FOLDER
    disk.sync_path(log / f"{0:020}.json")
    for directory in (log, table, table.parent):
        disk.sync_directory(directory)


def sync_commits(
    table: Path, versions: Iterable[int], application: str, disk: Disk
) -> bool:
    """Force our commits of some versions to disk, with all that they name.

    Returns whether the library has made a checkpoint at one of these versions.
    """
    log = table / LOG_FOLDER
    directories, checkpointed = {table.parent, table, log}, False
    for version in versions:
        path = log / f"{version:020}.json"
        actions = list(_actions(path.read_bytes()))
        if not _is_ours(actions, application):
            continue
        for _, action in actions:
            if "add" in action:
                data = table / unquote(action["add"]["path"])
                disk.sync_path(data)
                directories |= {
                    folder for folder in data.parents if folder.is_relative_to(table)
                }
        disk.sync_path(path)
        for checkpoint in sorted(log.glob(f"{version:020}.checkpoint*")):
            disk.sync_path(checkpoint)
            checkpointed = True
    if checkpointed:
        disk.sync_path(log / LAST_CHECKPOINT)
    for directory in sorted(directories):
        disk.sync_directory(directory)
    return checkpointed


def _names(folder: Path) -> Iterator[str]:
    return (path.name for path in folder.iterdir()) if folder.is_dir() else iter(())


def _actions(data: bytes) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the position of each line of a commit, and its action."""
    position = 0
    for line in data.splitlines(keepends=True):
        try:
            action: Any = json.loads(line)
        except ValueError:
            action = None
        if not isinstance(action, dict):
            raise CorruptCheckpointError(
                "expected a line of JSON in the last commit of a Delta table",
                position=position,
            )
        yield position, action
        position += len(line)
    if not position:
        reason = "expected lines of JSON in the last commit of a Delta table, found 0"
        raise CorruptCheckpointError(f"{reason} bytes", position=0)


def _is_ours(actions: list[tuple[int, dict[str, Any]]], application: str) -> bool:
    return any(
        str(_member(action, "txn", "appId")).startswith(f"{application}/")
        for _, action in actions
    )


def _member(action: dict[str, Any], kind: str, name: str) -> object:
    found = action.get(kind)
    return found.get(name) if isinstance(found, dict) else None


def _check_checkpoint(log: Path) -> None:
    """Raise an error if the checkpoint that is to be read first is torn.

    The library reads all commits if the file that names it is torn.
    """
    pointer = log / LAST_CHECKPOINT
    if not pointer.is_file() or pointer.stat().st_size > MAX_POINTER_BYTES:
        return
    try:
        found: Any = json.loads(pointer.read_bytes())
        version = f"{found['version']:020}"
    except (ValueError, TypeError, LookupError):
        return
    path = log / f"{version}.checkpoint.parquet"
    if not path.is_file() and any(log.glob(f"{version}.checkpoint*")):
        return  # of another form, which our library does not write
    size, ends = 0, b""
    if path.is_file():
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - len(PARQUET), 0))
            ends = file.read()
    if size > 2 * len(PARQUET) and ends == PARQUET:
        return
    error = CorruptCheckpointError(
        f"expected a Parquet file as checkpoint of a Delta table, found {size} bytes"
    )
    error.add_note(
        f"A power cut may leave this. Remove {LAST_CHECKPOINT} and the checkpoint: the "
        "table is then read from its commits."
    )
    raise error.located(path)


def _check_data_file(table: Path, position: int, action: dict[str, Any]) -> None:
    path, size = _member(action, "add", "path"), _member(action, "add", "size")
    if not isinstance(path, str) or not isinstance(size, int):
        return
    file = table / unquote(path)
    found = file.stat().st_size if file.is_file() else None
    if found != size:
        there = "no file" if found is None else f"{found} bytes"
        raise CorruptCheckpointError(
            f"the last commit of a Delta table names {file} with {size} bytes, found "
            f"{there}",
            position=position,
        )
