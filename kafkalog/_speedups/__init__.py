"""Compiled kernels: typed loops over arrays that the caller owns.

A kernel takes arrays and scalars, and fills arrays. It makes no system call, keeps no
state between calls, and raises no error on data: it returns a `Status`, from which its
caller makes an error with file and byte.
"""

from pathlib import Path

from kafkalog._speedups.source_tree import explain_uncompiled

if _uncompiled := explain_uncompiled(Path(__file__).parents[1]):
    raise ImportError(_uncompiled)

from kafkalog._speedups._cursor import Status
from kafkalog._speedups.batches import (
    all_uncompressed,
    check_counts,
    fill_begin_times,
    find_batch,
    locate_payloads,
    offsets_in_order,
    scan_batches,
    sum_counts,
)
from kafkalog._speedups.crc32c import check_batches
from kafkalog._speedups.decode import (
    decode_headers,
    decode_records,
    gather_records,
    measure_wrappers,
    skip_records,
)
from kafkalog._speedups.decompress import decompress_streams
from kafkalog._speedups.dump_lines import DumpFlag, Halt, dump_batches, dump_records
from kafkalog._speedups.encode import (
    measure_records,
    split_records,
    write_headers,
    write_records,
)
from kafkalog._speedups.entries import (
    IndexFault,
    make_entries,
    offset_entry,
    time_entry,
)
from kafkalog._speedups.frames import (
    FrameStatus,
    bound_decompressed_sizes,
    measure_frame,
)
from kafkalog._speedups.gather import gather_bytes, join_buffers, lengths_to_offsets
from kafkalog._speedups.group_rows import (
    add_measures,
    divide_totals,
    fill_slots,
    find_groups,
    hash_rows,
)
from kafkalog._speedups.index_search import (
    count_rising,
    find_slot,
    first_nonzero,
    search_ranges,
    search_slots,
    search_value,
    take_field,
    widen_slots,
)
from kafkalog._speedups.json_framing import find_single_documents
from kafkalog._speedups.legacy_messages import write_messages
from kafkalog._speedups.murmur2 import murmur2_keys
from kafkalog._speedups.offset_map import (
    Mark,
    find_offsets,
    find_superseded,
    put_offsets,
    read_marks,
)
from kafkalog._speedups.plan import is_next_sequence, must_roll, plan_run
from kafkalog._speedups.validate import (
    EntryFault,
    HeaderFault,
    RecordFault,
    find_record_faults,
    header_fault,
    place_batches,
    read_required_entry,
    stamp_batches,
    stays_in_format,
    survey_batches,
    take_batches,
)
from kafkalog._speedups.wire_format import (
    count_message_indexes,
    read_message_indexes,
    read_schema_ids,
    skip_schema_headers,
)

__all__ = [
    "DumpFlag",
    "EntryFault",
    "FrameStatus",
    "Halt",
    "HeaderFault",
    "IndexFault",
    "Mark",
    "RecordFault",
    "Status",
    "add_measures",
    "all_uncompressed",
    "bound_decompressed_sizes",
    "check_batches",
    "check_counts",
    "count_message_indexes",
    "count_rising",
    "decode_headers",
    "decode_records",
    "decompress_streams",
    "divide_totals",
    "dump_batches",
    "dump_records",
    "fill_begin_times",
    "fill_slots",
    "find_batch",
    "find_groups",
    "find_offsets",
    "find_record_faults",
    "find_single_documents",
    "find_slot",
    "find_superseded",
    "first_nonzero",
    "gather_bytes",
    "gather_records",
    "hash_rows",
    "header_fault",
    "is_next_sequence",
    "join_buffers",
    "lengths_to_offsets",
    "locate_payloads",
    "make_entries",
    "measure_frame",
    "measure_records",
    "measure_wrappers",
    "murmur2_keys",
    "must_roll",
    "offset_entry",
    "offsets_in_order",
    "place_batches",
    "plan_run",
    "put_offsets",
    "read_marks",
    "read_message_indexes",
    "read_required_entry",
    "read_schema_ids",
    "scan_batches",
    "search_ranges",
    "search_slots",
    "search_value",
    "skip_records",
    "skip_schema_headers",
    "split_records",
    "stamp_batches",
    "stays_in_format",
    "sum_counts",
    "survey_batches",
    "take_batches",
    "take_field",
    "time_entry",
    "widen_slots",
    "write_headers",
    "write_messages",
    "write_records",
]
