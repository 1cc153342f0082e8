"""``--key``, ``--header`` and ``--producer-id``: the same records in all commands."""

import base64

import pyarrow.parquet
import pytest

import kafkalog

from . import golden
from .shell import call, objects

STATE = golden.CLEAN / "state.gzip-0"
WANTED = {
    "a key": (["--key", "key-16"], {"keys": b"key-16"}),
    "two keys": (["--key", "key-1", "--key", "key-22"], {"keys": ["key-1", "key-22"]}),
    "bytes": (
        ["--key", f"base64:{base64.b64encode(b'key-4').decode()}"],
        {"keys": "key-4"},
    ),
    "a producer": (["--producer-id", "-1"], {"producer_ids": -1}),
    "no key": (["--key", "missing"], {"keys": "missing"}),
}


@pytest.mark.parametrize(("options", "filters"), WANTED.values(), ids=WANTED)
def test_commands_select_the_records_of_a_scan(tmp_path, options, filters):
    offsets = kafkalog.scan(STATE, **filters).to_arrow()["offset"].to_pylist()

    def printed(command, *more):
        ran = call(command, STATE, *options, *more)
        assert ran.exit_code == 0, ran.output
        return [row["offset"] for row in objects(ran.stdout)]

    assert printed("cat") == offsets
    assert printed("find") == offsets
    assert printed("head", "-n", 3) == offsets[:3]
    assert printed("tail", "-n", 2) == offsets[-2:]
    file = tmp_path / "state.parquet"
    ran = call("export", STATE, file, *options, "--quiet")
    assert ran.exit_code == 0, ran.output
    assert pyarrow.parquet.read_table(file)["offset"].to_pylist() == offsets


def test_each_key_of_a_file_is_selected_and_none_of_an_empty_one(tmp_path):
    file = tmp_path / "keys"
    file.write_text("key-1\n\nkey-22\n", encoding="utf-8")
    ran = call("cat", STATE, "--key", f"@{file}", "--columns", "key")
    assert {row["key"] for row in objects(ran.stdout)} == {"key-1", "key-22"}
    file.write_text("", encoding="utf-8")
    ran = call("cat", STATE, "--key", f"@{file}")
    assert (ran.exit_code, ran.stdout) == (0, "")


@pytest.mark.parametrize("command", ["cat", "head", "tail", "find"])
def test_a_key_that_is_not_base64_is_a_usage_error(command):
    ran = call(command, STATE, "--key", "base64:?")
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert "is not base64" in ran.stderr
