"""The messages of a broker on the page of troubleshooting are in Kafka's classes."""

from zipfile import ZipFile

import pytest

from tests.broker_messages import MESSAGES, parts_of
from tests.interop.broker import JARS

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def classes():
    """Return the bytes of Kafka's classes that have messages, by simple name."""
    found = {}
    for jar in (JARS / "broker").glob("kafka*.jar"):
        with ZipFile(jar) as archive:
            for name in archive.namelist():
                simple = name.rpartition("/")[2].partition(".")[0].partition("$")[0]
                if name.endswith(".class") and simple in MESSAGES.values():
                    found[simple] = found.get(simple, b"") + archive.read(name)
    return found


@pytest.mark.parametrize("message", MESSAGES)
def test_the_words_of_a_message_are_in_its_class(message, classes):
    content = classes[MESSAGES[message]]
    parts = parts_of(message)
    assert parts
    for part in parts:
        assert part.encode() in content
