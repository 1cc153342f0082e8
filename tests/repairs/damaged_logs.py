"""Small log directories with random damage, made from the golden partitions."""

import shutil

from kafkalog.formats.checkpoint import format_offsets, parse_offsets
from tests import golden_data
from tests.startup import damages

CHECKPOINTS = (
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    "cleaner-offset-checkpoint",
)
SOURCES = [
    ("k431-clean", "ledger-0"),
    ("k431-clean", "ledger-1"),
    ("k431-clean", "orders.zstd-0"),
    ("k431-clean", "state.txn-0"),
    ("k431-clean", "state.none-0"),
    ("k431-clean", "once-0"),
    ("k431-clean", "cutoff-0"),
    ("k431-clean", "expired-0"),
    ("k431-clean", "__transaction_state-0"),
    ("k431-crash", "torn.txn-0"),
    ("k431-crash", "torn.none-0"),
    ("k431-crash", "torn.preallocated-0"),
    ("k282-clean", "legacy.m0.gzip-0"),
    ("k282-clean", "legacy.m1.none-0"),
    ("k282-clean", "legacy.upgraded-0"),
    ("k282-clean", "legacy.m2.txn-0"),
]
KINDS = [
    damages.cut_tail,
    damages.cut_last_batch,
    damages.empty_last,
    damages.flip_payload,
    damages.flip_payload_in_first,
    damages.flip_size,
    damages.negative_size,
    damages.flip_magic,
    damages.flip_crc,
    damages.zero_tail,
    damages.garbage_tail,
    damages.zero_batch,
    damages.no_index,
    damages.no_index_in_first,
    damages.no_time_index,
    damages.index_past_end,
    damages.torn_index,
    damages.no_snapshots,
    damages.flip_snapshots,
    damages.stray_snapshot,
    damages.no_epochs,
    damages.leftover_cleaned,
    damages.leftover_swap,
    damages.leftover_deleted,
]


def copy_log(source, root, *, clean):
    """Copy a golden partition with its lines of the checkpoints; return its place."""
    set_name, name = source
    logs = golden_data.logs(set_name)
    root.mkdir(parents=True)
    shutil.copytree(logs / name, root / name)
    topic, _, partition = name.rpartition("-")
    key = topic, int(partition)
    for file in CHECKPOINTS:
        if (logs / file).exists():
            offsets = parse_offsets((logs / file).read_bytes())
            kept = {key: offsets[key]} if key in offsets else {}
            (root / file).write_bytes(format_offsets(kept))
    shutil.copy(logs / "meta.properties", root / "meta.properties")
    if clean:
        (root / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":7}')
    return root / name


def files_to_damage(root, directory):
    wanted = [path for path in directory.iterdir() if path.stat().st_size]
    wanted = [path for path in wanted if path.name != "partition.metadata"]
    logs = [path for path in wanted if path.suffix == ".log"]
    checkpoints = [root / name for name in CHECKPOINTS if (root / name).exists()]
    return sorted(wanted), sorted(logs), checkpoints


def damage_bytes(random, path):
    """Change a file at random; return a description."""
    data = bytearray(path.read_bytes())
    kind = random.choice(
        ("flip", "flip", "flip", "zeros", "noise", "cut", "add", "gap")
    )
    at = random.randrange(len(data)) if data else 0
    length = random.choice((1, 4, 16, 100, 512))
    match kind:
        case "flip" if data:
            data[at] ^= 1 << random.randrange(8)
        case "zeros":
            data[at : at + length] = bytes(len(data[at : at + length]))
        case "noise":
            data[at : at + length] = random.randbytes(len(data[at : at + length]))
        case "cut":
            del data[at:]
        case "add":
            data += random.choice((bytes(length), random.randbytes(length)))
        case "gap":
            del data[at : at + length]
    path.write_bytes(data)
    return f"{kind} {path.name} {at} {length}"


def damage_at_random(random, root, directory):
    """Damage one to three things; return their descriptions."""
    done = []
    for _ in range(random.choice((1, 1, 2, 3))):
        files, logs, checkpoints = files_to_damage(root, directory)
        what = random.choice(("log", "log", "file", "file", "checkpoint", "kind"))
        if what == "log" and logs:
            done.append(damage_bytes(random, random.choice(logs)))
        elif what == "checkpoint" and checkpoints:
            done.append(damage_bytes(random, random.choice(checkpoints)))
        elif what == "kind":
            kind = random.choice(KINDS)
            try:
                kind(directory)
                done.append(kind.__name__)
            except (IndexError, FileNotFoundError, ValueError):
                continue  # the log has no such file or batch
        elif files:
            done.append(damage_bytes(random, random.choice(files)))
    return done


def tree(place):
    """Return content, time and permissions of every file below a directory."""
    found = {}
    for path in place.rglob("*"):
        if path.is_file():
            status = path.stat()
            times = status.st_mtime_ns, status.st_mode
            found[path] = path.read_bytes(), *times
    return found
