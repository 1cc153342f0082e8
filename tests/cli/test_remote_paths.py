"""Reading commands take URLs, and print what they print for a local copy."""

import fsspec
import pytest

from tests import golden_data
from tests.cli.shell import call, run
from tests.storage.remote_stores import KEY, SECRET, fill, in_memory, s3_server

NAME = "k431-clean"
LOGS = golden_data.logs(NAME)
READS = [
    ["ls"],
    ["ls", "--topic", "ledger", "--format", "table"],
    ["cat", "--topic", "ledger", "--isolation-level", "read_committed"],
    ["head", "--topic", "__consumer_offsets", "--decode"],
    ["tail", "--topic", "orders.zstd", "-n", "3", "--columns", "offset,value"],
    ["find", "--topic", "orders.none", "--offset", "7"],
    ["groups"],
    ["lag", "--at", "2026-11-21T14:42:00Z"],
    ["txns", "--topic", "ledger"],
]


@pytest.fixture(scope="module")
def url():
    fsspec.filesystem("memory").store.clear()
    return str(in_memory(LOGS, NAME))


@pytest.mark.parametrize("arguments", READS, ids=" ".join)
def test_a_command_prints_the_same_for_a_url(arguments, url):
    command, *options = arguments
    local, remote = call(command, LOGS, *options), call(command, url, *options)
    assert (remote.exit_code, remote.stderr) == (0, "")
    assert remote.stdout.replace(url, str(LOGS)) == local.stdout != ""


def test_a_partition_is_described_the_same_for_a_url(url):
    local = call("info", LOGS / "ledger-0", "--format", "jsonl").stdout
    remote = call("info", f"{url}/ledger-0", "--format", "jsonl")
    assert remote.exit_code == 0
    assert remote.stdout.replace(url, str(LOGS)) == local


def test_records_behind_a_url_are_exported(url, tmp_path):
    for source, out in ((url, "remote.jsonl"), (LOGS, "local.jsonl")):
        assert call("export", source, tmp_path / out, "-q").exit_code == 0
    exported = (tmp_path / "remote.jsonl").read_bytes()
    assert exported == (tmp_path / "local.jsonl").read_bytes() != b""


def test_local_paths_and_urls_are_read_together(url):
    both = call("cat", LOGS / "once-0", f"{url}/once-1", "--columns", "partition")
    lines = both.stdout.splitlines()
    assert {*lines} == {'{"partition": 0}', '{"partition": 1}'}


@pytest.mark.parametrize(
    "command",
    ["verify", "dump", "compact", "whatif", "why", "preflight", "repair", "diff"],
)
def test_a_command_that_needs_local_files_states_so(command):
    ran = call(command, "memory://logs", *(["b"] if command == "diff" else []))
    assert ran.exit_code == 2
    assert "memory:// URL, expected a local path" in ran.stderr


def test_a_missing_url_is_named(url):
    ran = call("cat", f"{url}/nothing-0")
    assert (ran.exit_code, ran.stdout) == (3, "")
    assert f"No such file or directory: {url}/nothing-0" in ran.stderr


@pytest.mark.parametrize("option", ["region", "=x", ""])
def test_a_storage_option_without_a_value_is_wrong_usage(option):
    ran = call("ls", "s3://logs", "--storage-option", option)
    assert ran.exit_code == 2
    assert "expected NAME=VALUE" in ran.stderr


def test_a_storage_option_without_a_url_is_wrong_usage():
    ran = call("ls", LOGS, "--storage-option", "region=x")
    assert ran.exit_code == 2
    assert "--storage-option without a URL" in ran.stderr


def test_an_unknown_storage_option_is_named_without_its_value():
    ran = call("ls", "s3://logs", "--storage-option", f"acces_key={KEY}")
    assert ran.exit_code == 2
    assert "s3 has no storage option acces_key" in ran.stderr
    assert KEY not in ran.stderr


def test_an_s3_server_is_read_with_options_and_with_variables():
    expected = call("head", LOGS / "ledger-0", "--columns", "offset,key").stdout
    with s3_server() as options:
        fill(options, "logs", LOGS / "ledger-0")
        passed = [
            part
            for name, value in options.items()
            for part in ("--storage-option", f"{name}={value}")
        ]
        by_options = run("head", "s3://logs", *passed, "--columns", "offset,key")
        endpoint = f"http://{options['endpoint_override']}"
        for variable in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
            environment = {
                "AWS_ACCESS_KEY_ID": KEY,
                "AWS_SECRET_ACCESS_KEY": SECRET,
                variable: endpoint,
                "AWS_EC2_METADATA_DISABLED": "true",
            }
            ran = run("head", "s3://logs", "--columns", "offset,key", env=environment)
            assert (ran.returncode, ran.stderr) == (0, b"")
            assert ran.stdout.decode() == by_options.stdout.decode() == expected
        by_user = run("head", f"s3://{KEY}:wrong@absent/logs", env=environment)
    assert by_user.returncode == 3
    assert KEY.encode() not in by_user.stderr


def test_a_backup_behind_a_url_is_restored(url, tmp_path):
    options = ["--topic", "orders.*", "--topic", "ledger"]
    for source, copy in ((url, "remote"), (LOGS, "local")):
        assert call("restore", source, tmp_path / copy, *options).exit_code == 0
    remote, local = (
        {
            path.relative_to(tmp_path / copy): path.read_bytes()
            for path in (tmp_path / copy).rglob("*.log")
        }
        for copy in ("remote", "local")
    )
    assert remote == local
