"""The compiled cellar: typed loops over bytes the caller owns.

The boundary is this page. A kernel takes arrays and fills arrays; it opens no file
(`fetch_headers` and `write_each` are given open ones), keeps no state and raises
nothing about data: it answers with a `Status`, or an errno, and the floor above turns
that into an error that knows its file.
"""

from pathlib import Path

from kafkalog._speedups.source_tree import explain_uncompiled

if _uncompiled := explain_uncompiled(__name__, Path(__file__).parent):
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
from kafkalog._speedups.glance import fetch_headers
from kafkalog._speedups.messages import write_messages
from kafkalog._speedups.plan import is_next_sequence, must_roll, plan_run
from kafkalog._speedups.records import (
    decode_headers,
    decode_records,
    gather_records,
    measure_wrappers,
    pass_records,
)
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
from kafkalog._speedups.writing import write_each

__all__ = [
    "Framing",
    "Halt",
    "Status",
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
    "fetch_headers",
    "find_batch",
    "find_slot",
    "first_nonzero",
    "gather",
    "gather_records",
    "in_order",
    "is_next_sequence",
    "join",
    "locate_payloads",
    "measure",
    "measure_records",
    "measure_wrappers",
    "must_roll",
    "pass_records",
    "place_batches",
    "plan_run",
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
    "write_each",
    "write_headers",
    "write_messages",
    "write_records",
]
