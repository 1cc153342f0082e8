"""What Kafka 4.3.1 itself said of its settings, written down.

``definitions.jsonl`` has its definitions: of all topic settings, of the broker's that
`BrokerConfig` has, and the broker's names for the topic's. ``judged.jsonl`` has
mappings that were given to it: what it refused, with its reason, and of the others the
settings that differ from those of the first, empty mapping of their kind. Both were
printed by ``tests/interop/KafkaSettings.java``, which is run again by
``tests/interop/test_settings.py``.
"""

import json
from pathlib import Path

HERE = Path(__file__).parent


def lines_of(name):
    text = (HERE / name).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


DEFINITIONS = lines_of("definitions.jsonl")
JUDGED = lines_of("judged.jsonl")


def definitions_of(owner):
    """Give Kafka's definitions by the settings' names."""
    return {each["name"]: each for each in DEFINITIONS if each["of"] == owner}


def values_of(judged):
    """Give all that Kafka made of a mapping, or None where it refused it."""
    if "refused" in judged:
        return None
    empty = next(each for each in JUDGED if each["of"] == judged["of"])
    return empty["values"] | judged["values"]


def only_differing(answers):
    """Leave of each answer what differs from the first of its kind."""
    first = {}
    for each in answers:
        if "values" not in each:
            yield each
            continue
        base = first.get(each["of"], {})
        first.setdefault(each["of"], each["values"])
        values = each["values"].items()
        yield each | {"values": {k: v for k, v in values if base.get(k) != v}}
