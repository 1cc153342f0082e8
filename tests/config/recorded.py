"""Recorded results of Kafka 4.3.1 about its settings.

``definitions.jsonl`` has its definitions: of all topic settings, of the broker settings
that `BrokerConfig` has, and the broker's names for topic settings. ``validated.jsonl``
has mappings of settings: what Kafka rejected, with its reason, and for the others the
settings that differ from those of the first, empty mapping of their kind. Both were
printed by ``tests/interop/KafkaSettings.java``, which
``tests/interop/test_settings.py`` runs again.
"""

import json
from pathlib import Path

HERE = Path(__file__).parent


def lines_of(name):
    text = (HERE / name).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


DEFINITIONS = lines_of("definitions.jsonl")
VALIDATED = lines_of("validated.jsonl")


def definitions_of(owner):
    """Return Kafka's definitions by the settings' names."""
    return {each["name"]: each for each in DEFINITIONS if each["of"] == owner}


def values_of(validated):
    """Return all settings that Kafka made of a mapping, or None if it rejected it."""
    if "refused" in validated:
        return None
    empty = next(each for each in VALIDATED if each["of"] == validated["of"])
    return empty["values"] | validated["values"]


def only_differing(results):
    """Return each result reduced to its differences from the first of its kind."""
    first = {}
    for each in results:
        if "values" not in each:
            yield each
            continue
        base = first.get(each["of"], {})
        first.setdefault(each["of"], each["values"])
        values = each["values"].items()
        yield each | {"values": {k: v for k, v in values if base.get(k) != v}}
