"""Compiled kernels: typed loops over arrays that the caller owns.

A kernel takes arrays and scalars, and fills arrays. It makes no system call, keeps no
state between calls (except `Tail`, which a log's writer owns), and raises no error on
data: it returns a `Status`, from which its caller makes an error with file and byte.
"""

from pathlib import Path

from kafkalog._speedups.source_tree import explain_uncompiled

if _uncompiled := explain_uncompiled(Path(__file__).parents[1]):
    raise ImportError(_uncompiled)

from kafkalog._speedups._cursor import Status
from kafkalog._speedups.batches import (
    add_up,
    all_plain,
    countable,
    find_batch,
    in_order,
    locate_payloads,
    scan_batches,
)
from kafkalog._speedups.crc32c import best_path, check_batches, crc_many
from kafkalog._speedups.due import due_entries
from kafkalog._speedups.dump import Halt, Want, dump_batches, dump_records
from kafkalog._speedups.encode import (
    measure_records,
    split_records,
    write_headers,
    write_records,
)
from kafkalog._speedups.frames import Framing, bound_streams, walk_frame
from kafkalog._speedups.gather import gather, join, measure
from kafkalog._speedups.messages import write_messages
from kafkalog._speedups.records import (
    decode_headers,
    decode_records,
    gather_records,
    measure_wrappers,
    pass_records,
)
from kafkalog._speedups.runs import Tail
from kafkalog._speedups.search import (
    count_rising,
    find_slot,
    first_nonzero,
    search_ranges,
    search_slots,
    search_value,
    take_field,
    widen_slots,
)
from kafkalog._speedups.unpack import unpack_streams
from kafkalog._speedups.validate import (
    place_batches,
    stamp_batches,
    survey_batches,
    take_batches,
)
from kafkalog._speedups.varint import decode_varints, encode_varints

__all__ = [
    "Framing",
    "Halt",
    "Status",
    "Tail",
    "Want",
    "add_up",
    "all_plain",
    "best_path",
    "bound_streams",
    "check_batches",
    "count_rising",
    "countable",
    "crc_many",
    "decode_headers",
    "decode_records",
    "decode_varints",
    "due_entries",
    "dump_batches",
    "dump_records",
    "encode_varints",
    "find_batch",
    "find_slot",
    "first_nonzero",
    "gather",
    "gather_records",
    "in_order",
    "join",
    "locate_payloads",
    "measure",
    "measure_records",
    "measure_wrappers",
    "pass_records",
    "place_batches",
    "scan_batches",
    "search_ranges",
    "search_slots",
    "search_value",
    "split_records",
    "stamp_batches",
    "survey_batches",
    "take_batches",
    "take_field",
    "unpack_streams",
    "walk_frame",
    "widen_slots",
    "write_headers",
    "write_messages",
    "write_records",
]
