"""The files of a scenario: damage to them, and their listing."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import time
from pathlib import Path
from typing import Any

from tests.reference import codec_of, unpack

Step = dict[str, Any]
BATCH_HEADER = 61
SNAPSHOT_HEADER, SNAPSHOT_ENTRY = 10, 46
SLACK_MS = 5_000


def damage(step: Step, directory: Path) -> Any:
    """Damage a file as a step describes, and return its size."""
    path = _file_of(step, directory)
    if path is None:
        return None
    match step["action"]:
        case "xor" | "write":
            data = bytearray(path.read_bytes())
            if data:
                at = _position(step, len(data))
                mask = step.get("mask", 0xFF)
                xored = bytes([data[at] ^ mask & 0xFF])
                hexed = step.get("hex")
                new = xored if step["action"] == "xor" else bytes.fromhex(hexed)
                with path.open("r+b") as file:
                    file.seek(at)
                    file.write(new)
        case "truncate":
            size = path.stat().st_size
            permille = step.get("to_permille")
            to = step["to"] if permille is None else size * permille // 1000
            os.truncate(path, max(0, size + to) if to < 0 else to)
        case "append":
            with path.open("ab") as file:
                file.write(_content(step))
        case "create":
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(_content(step))
        case "delete":
            path.unlink()
        case "rename":
            path.replace(_inside(directory, step["to"]))
        case "copy":
            shutil.copyfile(path, _inside(directory, step["to"]))
    return {"size": path.stat().st_size if path.exists() else None}


def _file_of(step: Step, directory: Path) -> Path | None:
    if "nth" not in step:
        return _inside(directory, step["file"])
    files = sorted(directory.glob(f"*.{step['suffix']}"))
    nth = step["nth"] + (len(files) if step["nth"] < 0 else 0)
    return files[nth] if 0 <= nth < len(files) else None


def _inside(directory: Path, name: str) -> Path:
    return Path(os.path.normpath(directory / name))


def _position(step: Step, size: int) -> int:
    if "at_permille" in step:
        return size * int(step["at_permille"]) // 1000
    at = int(step["at"])
    return at + size if at < 0 else at


def _content(step: Step) -> bytes:
    if "bytes" in step:
        return base64.b64decode(step["bytes"])
    if "text" in step:
        return str(step["text"]).encode()
    return bytes.fromhex(step.get("hex", ""))


def tree(root: Path, entries: dict[Path, int]) -> list[Step]:
    """List the files below `root`, with the used part of the indexes in `entries`."""
    listed = []
    for path in files_below(root):
        data = path.read_bytes()
        line: Step = {
            "path": str(path.relative_to(root)),
            "size": len(data),
            "sha256": _sha256(data),
        }
        if path in entries:
            used = entries[path] * (12 if ".timeindex" in path.name else 8)
            line["entries"] = entries[path]
            line["used_sha256"] = _sha256(data[:used].ljust(used, b"\0"))
        if ".log" in path.name:
            line["mtime"] = path.stat().st_mtime_ns // 1_000_000
            if (digest := _decoded(data)) is not None:
                line["decoded_sha256"] = digest
        if ".snapshot" in path.name and (digest := _sorted_entries(data)) is not None:
            line["entries_sha256"] = digest
        listed.append(line)
    return listed


def files_below(root: Path) -> list[Path]:
    """Return all files below a directory, by path."""
    return sorted(path for path in root.rglob("*") if path.is_file())


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _decoded(data: bytes) -> str | None:
    """Return the digest of decompressed batches; None without any, or if corrupt."""
    parts, at, compressed = [], 0, False
    while len(data) - at >= 17:
        size = 12 + int.from_bytes(data[at + 8 : at + 12], signed=True)
        if size < 26 or size > len(data) - at:
            break
        batch = data[at : at + size]
        at += size
        codec = batch[22] & 7 if batch[16] == 2 and size >= BATCH_HEADER else 0
        if not codec:
            parts.append(batch)
            continue
        compressed = True
        try:
            records = unpack(codec_of(codec), batch[BATCH_HEADER:])
        except Exception:  # each library has its own error for damaged bytes
            return None
        parts += [batch[:8], batch[12:17], batch[21:BATCH_HEADER], records]
    return _sha256(b"".join(parts) + data[at:]) if compressed else None


def _sorted_entries(data: bytes) -> str | None:
    body = data[SNAPSHOT_HEADER:]
    if len(data) < SNAPSHOT_HEADER or len(body) % SNAPSHOT_ENTRY:
        return None
    places = range(0, len(body), SNAPSHOT_ENTRY)
    entries = sorted(body[at : at + SNAPSHOT_ENTRY] for at in places)
    return _sha256(b"".join(entries))


def set_modified(path: Path, time_ms: int) -> None:
    """Set when a file was last modified."""
    os.utime(path, ns=(time_ms * 1_000_000, time_ms * 1_000_000))


class MtimeStamper:
    """Sets the modification time of files that a step changed to the scenario's."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._known: dict[tuple[int, int], int] = {}
        self._began_ms = 0.0

    def begin(self) -> None:
        """Record that a step begins."""
        self._began_ms = time.time() * 1000

    def stamp(self, now_ms: int) -> None:
        """Stamp the files that were modified since."""
        start = self._began_ms - SLACK_MS
        end = time.time() * 1000 + SLACK_MS
        seen = {}
        for path in files_below(self._root):
            stat = path.stat()
            key, mtime = (stat.st_dev, stat.st_ino), stat.st_mtime_ns // 1_000_000
            if self._known.get(key) != mtime and start <= mtime <= end:
                set_modified(path, now_ms)
                mtime = now_ms
            seen[key] = mtime
        self._known = seen
