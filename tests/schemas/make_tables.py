"""Generator of the tables of Kafka's messages from its sources: records and requests.

    python -m tests.schemas.make_tables KAFKA RELEASE

Run it for a new release of Kafka, and review the difference. New messages and fields
need no further change. ``tests/interop/test_internal_topics.py`` compares the decoder
with that release's own classes.

A table has one message per line: the content of Kafka's ``.json`` files without
comments, and without members that decoding does not need (``about``, ``entityType``).
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any, Final

SCHEMAS: Final = Path(__file__).parents[2] / "kafkalog/messages/schemas"
TABLE: Final = SCHEMAS / "internal_topics.json"
PROTOCOL_TABLE: Final = SCHEMAS / "protocol.json"

FOLDERS: Final = {
    "__consumer_offsets": "group-coordinator/src/main/resources/common/message",
    "__transaction_state": "transaction-coordinator/src/main/resources/common/message",
    "__share_group_state": "share-coordinator/src/main/resources/common/message",
    "__cluster_metadata": "metadata/src/main/resources/common/metadata",
    "__remote_log_metadata": "storage/src/main/resources/message",
    "consumer protocol": "clients/src/main/resources/common/message",
}
KINDS: Final = {"coordinator-key", "coordinator-value", "metadata"}
PROTOCOL: Final = re.compile("ConsumerProtocol(Subscription|Assignment)")
REQUESTS: Final = {"request", "response", "header"}

OF_A_MESSAGE: Final = (
    "apiKey",
    "type",
    "name",
    "validVersions",
    "latestVersionUnstable",
    "flexibleVersions",
    "commonStructs",
    "fields",
)
OF_A_FIELD: Final = (
    "name",
    "type",
    "versions",
    "nullableVersions",
    "taggedVersions",
    "tag",
    "default",
    "flexibleVersions",
    "fields",
)


def make(kafka: Path, release: str) -> str:
    """Return the table of the messages in `kafka`, a checkout."""
    lines = [f'"release": {json.dumps(release)}']
    for topic, folder in FOLDERS.items():
        messages = [
            json.dumps(message, separators=(",", ":"))
            for message in map(read_message, sorted((kafka / folder).glob("*.json")))
            if message["type"] in KINDS or PROTOCOL.fullmatch(message["name"])
        ]
        lines.append(f"{json.dumps(topic)}: [\n" + ",\n".join(messages) + "\n]")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def make_protocol(kafka: Path, release: str) -> str:
    """Return the table of the requests and responses in `kafka`, a checkout."""
    paths = sorted((kafka / FOLDERS["consumer protocol"]).glob("*.json"))
    messages = [
        json.dumps(message, separators=(",", ":"))
        for message in map(read_message, paths)
        if message["type"] in REQUESTS and message["validVersions"] != "none"
    ]
    listed = ",\n".join(messages)
    return f'{{\n"release": {json.dumps(release)},\n"messages": [\n{listed}\n]\n}}\n'


def read_message(path: Path) -> dict[str, Any]:
    """Read one of Kafka's files; comments are on lines of their own."""
    text = re.sub(r"^\s*//.*$", "", path.read_text(encoding="utf-8"), flags=re.M)
    return kept(json.loads(text), OF_A_MESSAGE)


def kept(spec: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Return the members `names` of a message, and those of its fields."""
    result = {name: spec[name] for name in names if name in spec}
    for inner in {"fields", "commonStructs"} & result.keys():
        result[inner] = [kept(field, OF_A_FIELD) for field in result[inner]]
    return result


if __name__ == "__main__":
    checkout, of_release = Path(sys.argv[1]), sys.argv[2]
    TABLE.write_text(make(checkout, of_release), encoding="utf-8")
    PROTOCOL_TABLE.write_text(make_protocol(checkout, of_release), encoding="utf-8")
