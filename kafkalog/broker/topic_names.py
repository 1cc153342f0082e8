"""What is wrong with the name of a topic, in Kafka's words.

Source: ``Topic.java``.
"""

from __future__ import annotations

from kafkalog.storage.file_names import MAX_TOPIC_LENGTH, is_topic_name


def topic_name_fault(name: str) -> str | None:
    """Return why Kafka does not take a text for the name of a topic; None if it does.

    >>> topic_name_fault("..")
    "Topic name is invalid: '..' is not allowed"
    """
    if is_topic_name(name):
        return None
    if not name:
        reason = "the empty string is not allowed"
    elif name in (".", ".."):
        reason = f"'{name}' is not allowed"
    elif len(name) > MAX_TOPIC_LENGTH:
        most = f"the max allowed length {MAX_TOPIC_LENGTH}"
        reason = f"the length of '{name}' is longer than {most}"
    else:
        reason = (
            f"'{name}' contains one or more characters other than ASCII alphanumerics, "
            "'.', '_' and '-'"
        )
    return f"Topic name is invalid: {reason}"
