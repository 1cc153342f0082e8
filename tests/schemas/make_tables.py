"""Makes the table of internal topics' messages from a checkout of Kafka's sources.

    python -m tests.schemas.make_tables KAFKA RELEASE

Run it when Kafka has a new release, and look at what changed: messages and fields that
are new need nothing more. ``tests/interop/test_internal_topics.py`` then holds the
decoder to that release's own classes.

What Kafka's ``.json`` files say of messages is kept, a line a message, without comments
and without what is of no use for reading: what a field is about, of which entity.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any, Final

TABLE: Final = (
    Path(__file__).parents[2] / "kafkalog/messages/schemas/internal_topics.json"
)

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

OF_A_MESSAGE: Final = (
    "apiKey",
    "type",
    "name",
    "validVersions",
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
    """Return the table of what lies in `kafka`, a checkout."""
    lines = [f'"release": {json.dumps(release)}']
    for topic, folder in FOLDERS.items():
        messages = [
            json.dumps(message, separators=(",", ":"))
            for message in map(read_message, sorted((kafka / folder).glob("*.json")))
            if message["type"] in KINDS or PROTOCOL.fullmatch(message["name"])
        ]
        lines.append(f"{json.dumps(topic)}: [\n" + ",\n".join(messages) + "\n]")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def read_message(path: Path) -> dict[str, Any]:
    """Read one of Kafka's files; comments have lines of their own there."""
    text = re.sub(r"^\s*//.*$", "", path.read_text(encoding="utf-8"), flags=re.M)
    return kept(json.loads(text), OF_A_MESSAGE)


def kept(said: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Keep what is named, of fields within as well."""
    result = {name: said[name] for name in names if name in said}
    for inner in {"fields", "commonStructs"} & result.keys():
        result[inner] = [kept(field, OF_A_FIELD) for field in result[inner]]
    return result


if __name__ == "__main__":
    TABLE.write_text(make(Path(sys.argv[1]), sys.argv[2]), encoding="utf-8")
