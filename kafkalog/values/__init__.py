"""Read what keys and values hold: typed columns of JSON, Avro and Protobuf.

`decode` makes typed columns. Below it are `schema_ids`, `payloads` and
`message_indexes`, which read the header that serializers of Confluent's Schema Registry
write before a payload:

    0       1           5
    | magic | schema id | message indexes, in Protobuf only | payload

The magic is 0 and the schema id a big-endian int32. Message indexes are the path to a
message type in its file, as zig-zag varints: a count, and as many indexes. A count of 0
stands for the one index 0, the first type of the file.

Each of these takes a whole column: an Arrow array, also chunked, of type ``binary`` or
``large_binary``, or a column of `Records`. A value is not in the wire format if it is
null, shorter than 5 bytes, or begins with another magic.

Source: *Wire format* in the documentation of Confluent's Schema Registry.
"""

from kafkalog.values.schema_headers import (
    MessageIndexes,
    message_indexes,
    payloads,
    schema_ids,
)
from kafkalog.values.value_decoding import decode

__all__ = ["MessageIndexes", "decode", "message_indexes", "payloads", "schema_ids"]
