"""Files for kafka-dump-log and kafkalog: valid, corrupt, with odd names or content.

A case is the arguments of a command; its files are in a folder of the caller. The same
seed makes the same cases.
"""

from __future__ import annotations

import random
from pathlib import Path

from kafkalog import RecordBatchBuilder
from kafkalog.formats.layout import CODECS, TimestampType
from tests import golden_data
from tests.interop import writing

FLAGS = {
    "log": [
        [],
        ["--deep-iteration"],
        ["--print-data-log"],
        ["--print-data-log", "--skip-record-metadata"],
        ["--print-data-log", "--max-bytes", "5000"],
        ["--key-decoder-class", "org.apache.kafka.tools.api.IntegerDecoder"],
        ["--value-decoder-class", "org.apache.kafka.tools.api.LongDecoder"],
        ["--offsets-decoder"],
        ["--transaction-log-decoder"],
        ["--cluster-metadata-decoder"],
        ["--remote-log-metadata-decoder"],
        ["--share-group-state-decoder"],
    ],
    "checkpoint": [["--deep-iteration"], ["--cluster-metadata-decoder"]],
    "index": [[], ["--verify-index-only"], ["--index-sanity-check"]],
    "timeindex": [[], ["--verify-index-only"], ["--index-sanity-check"]],
    "txnindex": [[]],
    "snapshot": [[]],
}
SHARES = {"log": 6, "checkpoint": 1, "index": 1, "timeindex": 1}
SHARES |= {"txnindex": 1, "snapshot": 1}
MAX_BYTES = 300_000
SEGMENT = "00000000000000000000"


def golden_files():
    """Return the golden files of at most `MAX_BYTES`, by their kind."""
    found = {kind: [] for kind in FLAGS}
    for name in golden_data.SETS:
        for directory in golden_data.partitions(name):
            for path in sorted(directory.iterdir()):
                kind = path.suffix.removeprefix(".")
                if kind in FLAGS and path.stat().st_size < MAX_BYTES:
                    found[kind].append(path)
    return found


def damage(draw, data):
    """Flip, cut, append or overwrite bytes, or change nothing."""
    data, places = bytearray(data), range(len(data))
    match draw.randrange(8) if data else 7:
        case 0 | 1 | 2:
            for place in draw.choices(places, k=draw.choice([1, 2, 5])):
                data[place] ^= 1 << draw.randrange(8)
        case 3:
            data[draw.choice(places[:100])] = draw.choice([0, 127, 128, 255])
        case 4:
            del data[draw.choice(places) :]
        case 5:
            data += bytes(draw.choice([1, 17, 18, 1000]))
        case 6:
            place = draw.choice(places)
            data[place : place + 8] = draw.randbytes(draw.choice([1, 8, 100]))
    return bytes(data)


def damaged(folder, seed, count):
    """Yield cases of damaged copies of golden files, with their sibling files."""
    draw, files = random.Random(seed), golden_files()
    for number in range(count):
        (kind,) = draw.choices(list(SHARES), list(SHARES.values()))
        path = draw.choice(files[kind])
        copy = Path(folder) / str(number)
        copy.mkdir()
        for sibling in path.parent.glob(f"{path.name.split('.')[0]}.*"):
            if sibling.is_file():
                (copy / sibling.name).write_bytes(sibling.read_bytes())
        (copy / path.name).write_bytes(damage(draw, path.read_bytes()))
        yield [*draw.choice(FLAGS[kind]), "--files", f"{number}/{path.name}"]


TEXTS = [
    None,
    b"",
    b"plain",
    "żółć 中文 😀".encode(),
    b"\xff\xfe \x80 \xc0\xaf \xf5\x80\x80\x80",
    b"\xe4\xb8 \xf0\x9f\x98 \xed\xa0\x80 \xed\xb0 \xf4\x90\x80\x80",
    b"cut \xf0\x9f\x98",
    b"cut \xed\xa0",
    b"cut \xe0\x80",
    b"cut \xf1\x80",
    b"lines\nand\ttabs\r\x00\x1b[31m",
    b"\xe2" * 40 + b"x" * 70 + b"\xc3\xa9" * 33,
]


def odd_batches():
    """Build batches of all magics, codecs and timestamp types, with odd texts."""
    for magic in (0, 1, 2):
        for codec in CODECS[: 5 if magic == 2 else 4]:
            for clock in TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME:
                settings = {"magic": magic, "codec": codec, "timestamp_type": clock}
                if clock == TimestampType.LOG_APPEND_TIME:
                    settings["log_append_time"] = writing.T
                if magic == 2:
                    settings |= {"producer_id": 7, "producer_epoch": 1}
                    settings |= {"base_sequence": 2**31 - 5, "leader_epoch": 3}
                yield odd_batch(settings, headed=magic == 2)


def odd_batch(settings, *, headed):
    builder = RecordBatchBuilder(base_offset=2**40, **settings)
    for number, text in enumerate(TEXTS):
        key = TEXTS[-number]
        headers = [(one or b"", key) for one in TEXTS[: number % 4]] if headed else []
        builder.append(key, text, timestamp=writing.T - number, headers=headers)
    return builder.build()


def compressed(folder, seed, count):
    """Yield cases of batches whose compressed bytes are damaged, one in each file."""
    draw = random.Random(seed)
    for number in range(count):
        magic = draw.choice([0, 1, 2, 2, 2])
        codec = draw.choice(CODECS[1 : 5 if magic == 2 else 4])
        builder = RecordBatchBuilder(magic=magic, codec=codec)
        for place in range(draw.choice([1, 5, 60])):
            words = draw.choices([b"alpha", b"beta", bytes(20)], k=draw.choice([1, 60]))
            noise = draw.randbytes(draw.choice([0, 8, 40]))
            builder.append(b"%d" % place, b" ".join(words) + noise, timestamp=place)
        path = folder / f"{number}.log"
        path.write_bytes(damage_stream(draw, bytearray(builder.build()), magic))
        yield ["--deep-iteration", "--files", path.name]


def damage_stream(draw, data, magic):
    """Damage a batch after its header; a truncated one has its new size there."""
    start = {0: 26, 1: 34, 2: 61}[magic]
    place = draw.randrange(start, len(data))
    match draw.randrange(5):
        case 0 | 1:
            data[place] ^= 1 << draw.randrange(8)
        case 2:
            data[min(place, start + draw.randrange(24))] = draw.randrange(256)
        case 3:
            data[place:] = bytes(len(data) - place)
        case 4:
            del data[place:]
            data[8:12] = (len(data) - 12).to_bytes(4)
            if magic < 2:
                data[start - 4 : start] = (len(data) - start).to_bytes(4)
    return bytes(data)


CONTROL_KEYS = ["0000000{}", "0005000{}", "ffff000{}", "0000000{}ff", "00000{}"]
CONTROL_VALUES = [
    None,
    "",
    "00",
    "000000000009",
    "ffff00000009",
    "0005",
    "0000000000070200000008000200000009000000",
    "0001000000070200000008000200000009000000",
    "0000000000000000007b00",
    "00000001" + "00" * 40,
    "0000ffffffff0f",
    "0000ffffffffffff",
    "000041",
]


def control_batch(key, value):
    settings = {"is_control": True, "is_transactional": True, "producer_id": 5}
    builder = RecordBatchBuilder(**settings, producer_epoch=0)
    data = None if value is None else bytes.fromhex(value)
    builder.append(bytes.fromhex(key), data, timestamp=writing.T)
    return builder.build()


def control(folder):
    """Yield cases of control records, one in each file: all types, and odd contents."""
    number = 0
    for form in CONTROL_KEYS:
        for kind in range(8):
            for value in CONTROL_VALUES:
                key = form.format(kind)
                key = key[: len(key) // 2 * 2]
                number += 1
                (folder / f"{number}.log").write_bytes(control_batch(key, value))
                yield ["--deep-iteration", "--files", f"{number}.log"]


def odd(folder):
    """Yield cases of odd records, odd names and odd lists of names."""
    segment = b"".join(odd_batches())
    for name in (f"{SEGMENT}.log", "+5.log", "-7.log", "12.log", "x.log", ".log"):
        (folder / name).write_bytes(segment)
    for name in ("nodot", "9.txt", "8.log.deleted", "short.checkpoint", "7.index"):
        (folder / name).write_bytes(b"")
    for name in ("7.log", "7.timeindex", "bootstrap.checkpoint", "3.snapshot"):
        (folder / name).write_bytes(b"")
    many = [f"{number}.{end}" for number in range(30, 50) for end in ("log", "index")]
    for name in many:
        entries = bytes.fromhex("0000000100000000 0000000200000000")
        (folder / name).write_bytes(segment if name.endswith("log") else entries)
    names = [path.name for path in sorted(folder.iterdir()) if path.name not in many]
    for named in [*names, "none.log", "99.log", "99.txnindex", "a,,b", "nodot,,", "."]:
        yield ["--files", named]
    for flags in FLAGS["log"]:
        yield [*flags, "--files", f".//{SEGMENT}.log,9.txt"]
    yield ["--deep-iteration", "--files", ",".join(many)]
    yield ["--max-message-size", "18", "--files", "30.index"]
    for size in ("0", "-1", "800"):
        yield ["--max-bytes", size, "--files", "12.log"]
    for decoder in ("org.apache.kafka.tools.api.StringDecoder", "no.such.Decoder"):
        yield ["--key-decoder-class", decoder, "--files", "12.log"]
