"""No error shows credentials, even if Spark shows Python's variables."""

from __future__ import annotations

import pickle
import traceback

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.types import StructType

from kafkalog.spark.source import KafkaLogDataSource
from kafkalog.storage import stores

SECRETS = ("hush1", "hush2", "hush3")
OPTIONS = {
    "path": "tree://me:hush1@host/logs",
    "storage.secret": "hush2",
    "kafka.sasl.jaas.config": "hush3",
}
LOCALS = "spark.sql.execution.pyspark.udf.tracebackWithLocals.enabled"  # from 4.3 on


class Failing:
    """A store that fails at every call, with credentials in the message."""

    def __getattr__(self, name):
        raise OSError("hush1 and hush2 are wrong")


def plan(**options):
    source = KafkaLogDataSource(OPTIONS | options)
    return source.reader(StructType().add("offset", "long")).partitions()


def latest(**options):
    source = KafkaLogDataSource(OPTIONS | options)
    return source.streamReader(StructType().add("offset", "long")).latestOffset()


def printed_by(question, **options):
    """Return the text of an error with the variables of all frames, as Spark does."""
    with pytest.raises(Exception) as caught:  # noqa: PT011
        question(**options)
    message = traceback.TracebackException.from_exception(
        caught.value, capture_locals=True
    )
    while message.stack and message.stack[0].filename == __file__:
        del message.stack[0]
    return "".join(message.format())


@pytest.mark.filterwarnings("ignore:options without effect")
@pytest.mark.parametrize("question", [plan, latest])
@pytest.mark.parametrize(
    ("options", "printed"),
    [
        ({"columns": "nope"}, "option columns"),
        (
            {"path": "s3://me:hush1@no host/logs"},
            "expected a host or bucket after s3://",
        ),
        ({"path": "s3://bucket/logs"}, "no storage option secret"),
        ({"path": "nobody://me:hush1@host/logs"}, "fsspec"),
        ({}, "*** and *** are wrong: tree://host/logs"),
    ],
)
def test_an_error_shows_no_credentials(monkeypatch, question, options, printed):
    monkeypatch.setitem(stores.CONNECT, "tree", lambda *_: Failing())
    message = printed_by(question, **options)
    assert printed in message
    assert "self = <kafkalog" in message
    assert [secret for secret in SECRETS if secret in message] == []


def test_no_option_is_in_the_repr_of_a_source():
    source = pickle.loads(pickle.dumps(KafkaLogDataSource(OPTIONS)))
    assert dict(source.options) == OPTIONS
    message = repr(vars(source))
    assert "storage.secret" in message
    assert [secret for secret in SECRETS if secret in message] == []


@pytest.mark.spark
@pytest.mark.parametrize("place", ["bucket/logs", "no host/logs"])
def test_errors_in_spark_show_no_credentials(spark, place):
    spark.conf.set(LOCALS, "true")
    options = OPTIONS | {"path": f"s3://me:hush1@{place}"}
    frame = spark.read.format("kafkalog").options(**options).load()
    try:
        with pytest.raises(PySparkException, match="s3") as caught:
            frame.collect()
    finally:
        spark.conf.unset(LOCALS)
    assert [secret for secret in SECRETS if secret in str(caught.value)] == []
