"""Makes ``tests/dump/runs.jsonl.xz``, the output of Kafka's tool for golden files.

``python -m tests.interop.record_dumps`` runs kafka-dump-log 4.3.1 (the jars are those
of ``make test-interop``) over copies of the files, since it may change an index. A run
is a line: set, arguments, both streams without the working directory, exit code.
"""

from __future__ import annotations

import json
import lzma
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests import golden_data
from tests.dump.runs import RUNS
from tests.interop.kafka_dump import kafka_dumps

API = "org.apache.kafka.tools.api"
KEY, VALUE = "--key-decoder-class", "--value-decoder-class"
OF_LOGS = [
    ["--deep-iteration"],
    ["--deep-iteration", "--skip-record-metadata"],
    ["--print-data-log", "--skip-record-metadata"],
    ["--max-bytes", "700"],
    ["--deep-iteration", "--max-bytes", "1500"],
    ["--print-data-log", "--max-bytes", "0"],
    [KEY],
    [VALUE, f"{API}.StringDecoder"],
    [KEY, f"{API}.LongDecoder"],
    [KEY, f"{API}.IntegerDecoder", "--skip-record-metadata"],
    [VALUE, f"{API}.LongDecoder"],
    [VALUE, f"{API}.IntegerDecoder", KEY, f"{API}.StringDecoder"],
    ["--remote-log-metadata-decoder"],
    ["--remote-log-metadata-decoder", "--skip-record-metadata"],
]
OF_INTERNAL_TOPICS = [
    ["--offsets-decoder", "--skip-record-metadata"],
    ["--transaction-log-decoder", "--skip-record-metadata"],
    ["--cluster-metadata-decoder", "--skip-record-metadata"],
    ["--share-group-state-decoder", "--skip-record-metadata"],
]
OF_INDEXES = [["--max-message-size", size] for size in ("0", "17", "61", "700", "-1")]
KINDS = {".log": OF_LOGS, ".checkpoint": OF_LOGS, ".index": OF_INDEXES}
KINDS[".timeindex"] = [["--max-message-size", "61"], ["--deep-iteration"]]
MAX_BYTES = 4000
LEDGER = "logs/ledger-0/00000000000000000000"
LOG, INDEX = f"{LEDGER}.log", f"{LEDGER}.index"
NUMBERS = ["abc", "", " 7", "1_0", "0x10", "+421", "-1", "99999999999", "-", "٤٢١"]
LINES = [
    ["--version"],
    ["-version", "--files", LOG],
    ["-files", INDEX],
    [f"-files={LOG}", "-print-data-log"],
    ["--files", LOG, "-max-bytes", "300"],
    ["--files", f"{INDEX},{LOG},,"],
    ["--files="],
    ["--files", ","],
    ["--files"],
    ["--files", "--deep-iteration"],
    ["--files", LOG, "--files", INDEX],
    ["--files", LOG, "-files", LOG],
    ["--version", "--files"],
    ["--files", LOG, "--max-bytes"],
    ["--files", LOG, "--max-bytes", "--deep-iteration"],
    ["--files", LOG, KEY, "--deep-iteration"],
    ["--files", LOG, f"{KEY}="],
    ["--files", LOG, KEY, KEY],
    ["--files", LOG, KEY, "--value-decoder-class", f"{API}.LongDecoder"],
    ["--files", LOG, KEY, KEY, f"{API}.StringDecoder"],
    ["--files", LOG, "--print-data-log", "--print-data-log"],
    ["--files", LOG, "--print-data-log=false"],
    ["--files", LOG, "--offsets-decoder=", "--offsets-decoder"],
    ["--files", LOG, KEY, "no.such.Decoder", "--max-bytes", "abc"],
    *(["--files", LOG, "--max-bytes", number] for number in NUMBERS),
    *(["--files", f"{LOG},{INDEX}", "--max-message-size", one] for one in NUMBERS),
    *(
        ["--files", file, flag, "1", flag, "1"]
        for file in (LOG, INDEX)
        for flag in ("--max-bytes", "--max-message-size", KEY, VALUE)
    ),
    *(
        ["--files", LOG, "--offsets-decoder", KEY, one, KEY, "b"]
        for one in ("a", "b", f"{API}.StringDecoder")
    ),
    *(["--files", f"nowhere{end}", *OF_LOGS[0]] for end in ("", ".log", "/7.log")),
]
"""Command lines with unusual spellings, repeated flags and odd values."""


def cases(set_name: str) -> Iterator[list[str]]:
    """Yield the cases of a set: the smallest useful files of each directory."""
    logs = golden_data.logs(set_name)
    for directory in golden_data.partitions(set_name):
        for kind, choices in KINDS.items():
            files = directory.glob(f"*{kind}")
            sizes = sorted((file.stat().st_size, file.name) for file in files)
            names = [name for size, name in sizes if 100 <= size <= MAX_BYTES]
            internal = directory.name.startswith("__") and choices is OF_LOGS
            for flags in choices + OF_INTERNAL_TOPICS * internal if names else ():
                file = directory.relative_to(logs.parent) / names[0]
                yield [*flags, "--files", str(file)]
    if set_name == "k431-clean":
        yield from LINES


def recorded(set_name: str) -> Iterator[bytes]:
    """Run the tool over a copy of a set, and yield a line for each run."""
    with tempfile.TemporaryDirectory() as folder:
        logs = golden_data.logs(set_name)
        shutil.copytree(logs, Path(folder) / "logs")
        arguments = list(cases(set_name))
        outputs = kafka_dumps(Path(folder), arguments)
        for case, printed in zip(arguments, outputs, strict=True):
            run = {
                "set_name": set_name,
                "arguments": case,
                "stdout": printed.out.decode(),
                "stderr": printed.err.replace(f"{folder}/", ""),
                "exit_code": printed.exit_code,
            }
            yield json.dumps(run, ensure_ascii=False).encode() + b"\n"


if __name__ == "__main__":
    lines = b"".join(line for name in golden_data.SETS for line in recorded(name))
    RUNS.write_bytes(lzma.compress(lines, preset=9))
