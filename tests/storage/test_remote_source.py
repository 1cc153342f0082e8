"""Remote paths: their URLs, their methods, and hidden credentials."""

import os
import pickle
import subprocess
import sys
import traceback
from pathlib import Path

import fsspec
import pyarrow.fs
import pytest

import kafkalog
from kafkalog.errors import ConfigError, MissingDependencyError
from kafkalog.storage import stores
from kafkalog.storage.location import locate
from kafkalog.storage.remote_source import as_path, on_filesystem
from kafkalog.storage.store_options import read_options, redacted_error
from tests import golden_data
from tests.storage.remote_stores import KEY, SECRET, in_memory

CREDENTIALS = {"access_key": KEY, "secret_key": SECRET}

# ------------------------------------------------------------------------- URLs


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/var/kafka-logs", "/var/kafka-logs"),
        ("logs/orders-0", "logs/orders-0"),
        ("a:b/c", "a:b/c"),
        ("logs/s3://b", "logs/s3://b"),
        ("file:/var/logs", "/var/logs"),
        ("file:///var/logs/", "/var/logs"),
        ("FILE://localhost/var/logs", "/var/logs"),
        ("file:///var/kafka%20logs/caf%C3%A9%23%3F", "/var/kafka logs/café#?"),
        ("file:///a?b#c", "/a?b#c"),
    ],
)
def test_local_paths_and_file_urls_are_local(text, path):
    assert as_path(text, {"region": "x"}) == Path(path)


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("s3://bucket/logs", "s3://bucket/logs"),
        ("s3a://bucket/logs/", "s3://bucket/logs"),
        ("S3N://bucket//logs//orders-0", "s3://bucket/logs/orders-0"),
        ("s3://bucket", "s3://bucket"),
        ("gs://bucket/a%20b", "gs://bucket/a%20b"),
        ("hdfs://namenode:8020/logs", "hdfs://namenode:8020/logs"),
        ("hdfs:///logs", "hdfs:///logs"),
        ("hdfs:/logs", "hdfs:///logs"),
        ("abfs://box@account.dfs.core.windows.net/a", None),
        ("memory://logs/a", "memory://logs/a"),
    ],
)
def test_urls_are_normalized(text, url):
    assert str(as_path(text, {})) == (url or text)


def test_a_remote_path_has_the_members_of_a_local_one():
    path = as_path("s3://bucket/logs/orders-0/0.log", {})
    local = Path("/logs/orders-0/0.log")
    for one, other in [(path, local), (path.parent, local.parent)]:
        assert one.name == other.name
        assert str(one.with_suffix(".txnindex")).endswith(
            str(other.with_suffix(".txnindex"))
        )
        assert str(one.with_name("x.log")).endswith(str(other.with_name("x.log")))
        assert str(one / "a" / "b").endswith(str(other / "a" / "b"))
    root = as_path("s3://bucket", {})
    assert (root.name, root.parent, root / "a") == ("", root, as_path(f"{root}/a", {}))
    assert path.absolute() == path.resolve() == path
    assert sorted([path, path.parent]) == [path.parent, path]
    assert len({path, as_path(str(path), {}), as_path(str(path), CREDENTIALS)}) == 2
    assert locate(path) is path
    assert not hasattr(path, "__fspath__")  # Path(path) would eat a slash of the URL


@pytest.mark.parametrize(
    "text",
    [
        "file://elsewhere/logs",
        "s3:///logs",
        "s3://bucket/logs?access_key=AKIAWHOEVER",
        "s3://bucket/logs#AKIAWHOEVER",
        f"s3://{KEY}:{SECRET}@bucket/logs",  # a slash that was not quoted
        f"s3://{KEY}:123/x@bucket/logs",
        "hdfs://name node/logs",
    ],
)
def test_an_invalid_url_is_rejected_and_not_shown(text):
    with pytest.raises(ConfigError) as caught:
        as_path(text, {})
    assert KEY not in str(caught.value)
    assert "wJalr" not in str(caught.value)


# ------------------------------------------------------------------ schemes, options


def test_an_unknown_scheme_is_named():
    with pytest.raises(ConfigError, match="scheme wonder:"):
        kafkalog.scan("wonder://somewhere/logs")


def test_a_missing_package_is_named_with_the_pip_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "adlfs", None)
    with pytest.raises(MissingDependencyError, match=r"pip install adlfs$"):
        as_path("abfs://box@account/x", {}).exists()
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(MissingDependencyError, match=r"'kafkalog\[remote\]'"):
        as_path("memory://nowhere-yet/x", {}).exists()
    monkeypatch.setitem(sys.modules, "pyarrow.fs", None)
    with pytest.raises(MissingDependencyError, match=r"'kafkalog\[remote\]'"):
        as_path("gs://nowhere-yet/x", {}).exists()


def test_neither_package_is_imported_before_it_is_needed():
    code = (
        "import sys, kafkalog.query.scan;"
        "from kafkalog.storage.remote_source import as_path;"
        "as_path('s3://b/x', {'region': 'x'}); as_path('memory://x', {});"
        "print({'fsspec', 'pyarrow', 'pyarrow.fs'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout == "set()\n"


def test_all_invalid_options_are_named_without_their_values():
    wrong = {"acces_key": KEY, "anonymous": SECRET, "request_timeout": SECRET}
    with pytest.raises(ConfigError) as caught:
        as_path("s3://bucket/logs", wrong)
    message = str(caught.value)
    assert all(
        name in message for name in ("acces_key", "anonymous", "request_timeout")
    )
    assert "secret_key" in message  # one of the known options
    assert KEY not in message
    assert SECRET not in message


def test_contradicting_options_are_rejected_without_their_values():
    path = as_path("s3://bucket/logs", {"access_key": KEY, "region": "eu-west-1"})
    with pytest.raises(ConfigError, match=r"s3: .*secret_key") as caught:
        path.exists()
    assert KEY not in "".join(traceback.format_exception(caught.value))


def test_options_of_fsspec_are_text_booleans_or_json():
    given = {"anon": "true", "key": "7", "client_kwargs": '{"a": [1]}', "token": "{"}
    assert read_options("abfs", given) == {
        "anon": True,
        "key": "7",
        "client_kwargs": {"a": [1]},
        "token": "{",
    }


# ------------------------------------------------------------------------ secrets


@pytest.mark.parametrize(
    "path",
    [
        as_path("s3://bucket/logs", CREDENTIALS),
        as_path(f"s3://{KEY}:wJalr%2FXUtn+FEMI%20secret@bucket/logs", {}),
        as_path(f"sftp://{KEY}:wJalr%2FXUtn+FEMI%20secret@host:22/logs", {}),
    ],
)
def test_a_path_does_not_show_its_credentials(path):
    again = pickle.loads(pickle.dumps(path / "orders-0"))
    assert again.parent == path
    assert {KEY, SECRET} <= set(dict(path.options).values())
    shown = [str(path), repr(path), f"{path}", repr(again), repr([path.options])]
    shown.append(repr(kafkalog.query.sources.PartitionSource(directory=path)))
    for text in shown:
        assert KEY not in text
        assert "wJalr" not in text


def test_options_override_the_user_in_a_url():
    path = as_path("s3://someone:else@bucket/logs", CREDENTIALS)
    assert dict(path.options) == CREDENTIALS
    assert dict(as_path("hdfs://kafka@namenode/x", {}).options) == {"user": "kafka"}


@pytest.mark.parametrize("kind", [OSError, ValueError, RuntimeError, PermissionError])
def test_the_message_of_a_library_is_shown_without_credentials(kind, monkeypatch):
    class Careless:
        def find(self, below):
            raise kind(f"{below}: {SECRET!r} of {KEY}\nin wJalr%2FXUtn%2BFEMI%20secret")

    careless = Careless()
    monkeypatch.setitem(stores.CONNECT, "careless", lambda *_: careless)
    path = as_path(f"careless://{kind.__name__}/a", {"password": SECRET, "user": KEY})
    with pytest.raises(OSError, match=r"\*\*\*") as caught:
        path.exists()
    message = "".join(traceback.format_exception(caught.value))
    assert f"careless://{kind.__name__}/a" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert KEY not in message
    assert "wJalr" not in message
    assert caught.value.__context__ is caught.value.__cause__ is None


def test_each_process_and_set_of_options_has_its_own_connection(monkeypatch):
    made = []

    def connect(scheme, authority, options):
        made.append((authority, options))
        return object()

    monkeypatch.setitem(stores.CONNECT, "own", connect)
    for options in ({}, {"user": "a"}, {"user": "b"}, {"user": "a"}):
        path = as_path("own://host/x", options)
        stores.connect(path.scheme, path.authority, path.options)
    assert made == [("host", {}), ("host", {"user": "a"}), ("host", {"user": "b"})]
    monkeypatch.setattr(os, "getpid", lambda: -1)
    stores.connect(path.scheme, path.authority, path.options)
    assert len(made) == 4


def test_a_long_message_of_a_library_is_shortened():
    error = OSError(f"no {SECRET} in " + "/usr/lib/jvm " * 4000)
    options = as_path("hdfs://namenode/x", {"user": SECRET}).options
    message = str(redacted_error(error, "hdfs://namenode/x", "hdfs", options))
    assert message.startswith("no *** in /usr/lib/jvm")
    assert message.endswith("...: hdfs://namenode/x")
    assert len(message) < 600


def test_a_missing_file_of_an_option_is_not_reported_as_a_missing_path(monkeypatch):
    def connect(scheme, authority, options):
        raise FileNotFoundError(2, "no such certificate", "ca.pem")

    monkeypatch.setitem(stores.CONNECT, "certified", connect)
    with pytest.raises(ConfigError, match="no such certificate"):
        as_path("certified://host/x", {}).exists()


# ----------------------------------------------------------- file system objects


def memory_with(name):
    memory = fsspec.filesystem("memory")
    memory.store.clear()
    in_memory(golden_data.logs(name), name)
    return memory


def test_a_filesystem_of_fsspec_or_of_pyarrow_is_a_source():
    name, logs = "k431-recovered", golden_data.logs("k431-recovered")
    expected = kafkalog.scan(logs).to_arrow()
    memory = memory_with(name)
    wrapped = pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(memory))
    tree = pyarrow.fs.SubTreeFileSystem(str(logs), pyarrow.fs.LocalFileSystem())
    for filesystem, path in (
        (memory, f"/{name}"),
        (memory, name),
        (wrapped, name),
        (tree, ""),
        (tree, "/"),
        (pyarrow.fs.LocalFileSystem(), str(logs)),
        (fsspec.filesystem("file"), logs),
    ):
        assert kafkalog.scan(path, filesystem=filesystem).to_arrow().equals(expected)
    parts = [f"{name}/torn.gzip-0", f"/{name}/torn.gzip-0"]
    count = kafkalog.scan(logs / "torn.gzip-0").count()
    assert kafkalog.scan(parts[:1], filesystem=memory).count() == count
    topics = kafkalog.topics(name, filesystem=memory)
    assert topics.equals(kafkalog.topics(logs))


def test_a_path_in_a_filesystem_is_named_in_errors_and_can_be_pickled():
    memory = memory_with("k431-recovered")
    with pytest.raises(FileNotFoundError, match="memory:///nothing"):
        kafkalog.scan("/nothing", filesystem=memory)
    path = on_filesystem("k431-recovered/torn.gzip-0", memory)
    assert str(path) == "memory://k431-recovered/torn.gzip-0"
    again = pickle.loads(pickle.dumps(path))
    assert kafkalog.scan(again).count() == kafkalog.scan(path).count() > 0


def test_what_is_no_filesystem_is_rejected():
    with pytest.raises(TypeError, match="filesystem of type str"):
        kafkalog.scan("logs", filesystem="s3://bucket")
    memory = fsspec.filesystem("memory")
    with pytest.raises(ConfigError, match="memory: URL, expected a path in the given"):
        kafkalog.scan("memory://logs", filesystem=memory)
    with pytest.raises(ConfigError, match="filesystem and storage_options"):
        kafkalog.scan("logs", filesystem=memory, storage_options={"region": "x"})


def test_storage_options_are_those_of_the_url():
    with pytest.raises(ConfigError, match="no storage option acces_key") as caught:
        kafkalog.scan(["s3://bucket/logs"], storage_options={"acces_key": KEY})
    assert KEY not in str(caught.value)
