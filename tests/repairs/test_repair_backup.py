"""Manifests on a disk of unknown origin: only files of the log directory change."""

import hashlib
import json
import os
import stat

import pytest

from kafkalog import repair, verify
from kafkalog.errors import CorruptCheckpointError, LogStateError
from tests.repairs.damaged_logs import copy_log, tree
from tests.startup import damages

SOURCE = ("k431-clean", "ledger-0")
KEPT = ".kafkalog-repair-20990101T000000Z"
DATA = b"content of an attacker"
STATES = ("keeping", "applying", "applied", "undoing", "undone")
SET_USER_ID = 0o4755


@pytest.fixture
def disk(tmp_path):
    """Return a directory with a log directory, and a file next to it."""
    copy_log(SOURCE, tmp_path / "mount" / "disk" / "logs", clean=True)
    for name in ("victim", "mount/victim", "mount/disk/victim"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "precious").write_bytes(b"precious")
    return tmp_path / "mount" / "disk"


def content_of(data, **attributes):
    digest = hashlib.sha256(data).hexdigest()
    values = {"mtime_ns": 0, "mode": SET_USER_ID, "uid": os.getuid()}
    values |= {"gid": os.getgid(), **attributes}
    return {"size": len(data), "sha256": digest, **values}


def write_manifest(disk, *files, state="applying", **others):
    values = {"schema": 1, "log_directory": "logs", "state": state, "marker": None}
    values |= {"files": files, "actions": [], **others}
    (disk / KEPT).mkdir(exist_ok=True)
    (disk / KEPT / "manifest.json").write_text(json.dumps(values))


def keep(disk, path, data=DATA):
    place = disk / KEPT / "originals" / path
    for parent in reversed(place.parents):  # `..` is a name of them
        parent.mkdir(exist_ok=True)
    place.write_bytes(data)


@pytest.mark.parametrize("options", [{"apply": True}, {"undo": True}])
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize(
    "path",
    [
        "../victim/precious",
        "../../../victim/precious",
        "ledger-0/../../victim/precious",
    ],
)
def test_no_path_leads_out_of_the_log_directory(disk, tmp_path, path, state, options):
    removed = {"path": path, "original": None, "result": content_of(b"precious")}
    written = {"path": path, "original": content_of(DATA), "result": None}
    for file in (removed, written):
        keep(disk, path)
        write_manifest(disk, file, state=state)
        before = tree(tmp_path)
        with pytest.raises(CorruptCheckpointError, match="names of files"):
            repair(disk / "logs", **options)
        assert tree(tmp_path) == before


def test_an_absolute_path_is_refused(disk, tmp_path):
    path = str(tmp_path / "victim" / "precious")
    write_manifest(
        disk, {"path": path, "original": None, "result": content_of(b"precious")}
    )
    before = tree(tmp_path)
    with pytest.raises(CorruptCheckpointError, match="names of files"):
        repair(disk / "logs", undo=True)
    assert tree(tmp_path) == before


@pytest.mark.parametrize("linked", ["partition", "originals", "of one partition"])
@pytest.mark.parametrize("options", [{"apply": True}, {"undo": True}])
def test_no_link_leads_out_of_the_directories(disk, tmp_path, linked, options):
    victim = tmp_path / "victim"
    match linked:
        case "partition":
            (disk / "logs" / "x").symlink_to(victim)
            keep(disk, "x/evil")
        case "originals":
            (victim / "x").mkdir()
            (victim / "x" / "evil").write_bytes(DATA)
            (disk / KEPT).mkdir()
            (disk / KEPT / "originals").symlink_to(victim)
        case _:
            (victim / "evil").write_bytes(DATA)
            (disk / KEPT / "originals").mkdir(parents=True)
            (disk / KEPT / "originals" / "x").symlink_to(victim)
    write_manifest(
        disk, {"path": "x/evil", "original": content_of(DATA), "result": None}
    )
    before = tree(tmp_path)
    with pytest.raises(LogStateError, match="symbolic link"):
        repair(disk / "logs", **options)
    assert tree(tmp_path) == before


def test_a_linked_directory_of_a_repair_is_ignored(disk, tmp_path):
    victim = tmp_path / "victim"
    write_manifest(disk, state="undone")
    (disk / KEPT).rename(victim / "kept")
    (disk / KEPT).symlink_to(victim / "kept")
    before = tree(victim)
    with pytest.raises(FileNotFoundError, match="No repair to undo"):
        repair(disk / "logs", undo=True)
    repair(disk / "logs", apply=True)
    assert tree(victim) == before


def test_links_among_the_originals_are_removed_and_not_followed(disk, tmp_path):
    write_manifest(disk, state="undone")
    (disk / KEPT / "link").symlink_to(tmp_path / "victim")
    before = tree(tmp_path / "victim")
    repair(disk / "logs", undo=True)
    assert not (disk / KEPT).exists()
    assert tree(tmp_path / "victim") == before


@pytest.mark.parametrize("state", STATES[1:4])
def test_a_restored_file_gets_permissions_of_a_log_and_the_owner_of_the_original(
    disk, state, monkeypatch
):
    owners = []
    monkeypatch.setattr(os, "fchown", lambda _, *owner: owners.append(owner))
    keep(disk, "ledger-0/evil")
    original = content_of(DATA, uid=12345, gid=12345)
    write_manifest(
        disk,
        {"path": "ledger-0/evil", "original": original, "result": None},
        state=state,
    )
    repair(disk / "logs", undo=True)
    status = (disk / "logs" / "ledger-0" / "evil").stat()
    assert stat.S_IMODE(status.st_mode) == 0o755
    assert owners == []


def test_an_original_with_another_content_is_not_restored(disk, tmp_path):
    file = {"path": "ledger-0/evil", "original": content_of(DATA), "result": None}
    write_manifest(disk, file)
    for place in (None, b"cut off"):
        if place is not None:
            keep(disk, "ledger-0/evil", place)
        before = tree(tmp_path)
        with pytest.raises(LogStateError, match="original has another content"):
            repair(disk / "logs", undo=True)
        assert tree(tmp_path) == before


ABSURD = [
    [],
    "text",
    {"files": [{"path": "a"}]},
    {"files": [{"path": "a", "original": {"size": "1"}, "result": None}]},
    {
        "files": [
            {"path": "a", "original": {**content_of(DATA), "uid": 1.5}, "result": None}
        ]
    },
    {
        "files": [
            {"path": "a", "original": {**content_of(DATA), "x": 1}, "result": None}
        ]
    },
    {"files": [{"path": "a", "original": content_of(DATA, uid=2**70), "result": None}]},
    {"files": {"path": 1}},
    {"state": "other"},
    {"state": []},
    {"log_directory": 3},
    {"actions": [{"path": "", "action": "cut", "reason": ""}]},
    {"actions": [{"path": "../x", "action": "cut", "reason": ""}]},
    {"actions": [{"path": "x", "action": "cut"}]},
    {"marker": "text"},
]


@pytest.mark.parametrize("values", ABSURD, ids=repr)
def test_any_other_json_is_a_corrupt_manifest(disk, tmp_path, values):
    write_manifest(disk)
    if isinstance(values, dict):
        write_manifest(disk, **values)
    else:
        (disk / KEPT / "manifest.json").write_text(json.dumps(values))
    before = tree(tmp_path)
    with pytest.raises(CorruptCheckpointError, match="manifest of a repair"):
        repair(disk / "logs", undo=True)
    assert tree(tmp_path) == before


def test_json_that_is_nested_too_deep_is_a_corrupt_manifest(disk):
    write_manifest(disk)
    (disk / KEPT / "manifest.json").write_text("[" * 100_000)
    with pytest.raises(CorruptCheckpointError, match="manifest of a repair"):
        repair(disk / "logs", undo=True)


def test_a_partition_that_is_a_link_is_repaired_and_undone_by_its_own_path(disk):
    log = disk / "logs" / "ledger-0"
    moved = log.rename(disk / "ledger-0")
    log.symlink_to(moved)
    damages.torn_index(moved)
    before = tree(moved)
    assert repair(log, apply=True).applied
    assert verify(log).ok
    assert repair(log, undo=True).undone
    assert tree(moved) == before
