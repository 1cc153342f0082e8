"""Options are parsed as in Spark's own Kafka source."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.errors import ConfigError
from kafkalog.spark.offset_limits import (
    EARLIEST,
    LATEST,
    GlobalTimestamp,
    SpecificOffsets,
    SpecificTimestamps,
)
from kafkalog.spark.read_options import SourceOptions, parse_options
from kafkalog.spark.topic_selection import (
    AllTopics,
    Assign,
    Subscribe,
    SubscribePattern,
)

OFFSETS = '{"orders":{"0":23}}'


def parse(options=(), /, *, streaming=False, **more):
    return parse_options({"path": "/data"} | dict(options) | more, streaming=streaming)


def refused(options=(), /, *, streaming=False, **more):
    """Return the message of the error that the options cause."""
    with pytest.raises(ConfigError) as caught:
        parse(options, streaming=streaming, **more)
    return str(caught.value)


def test_by_default_all_topics_are_read_from_earliest_to_latest():
    options = parse()
    assert options == SourceOptions(paths=("/data",))
    assert options.topics == AllTopics()
    assert (options.starting, options.ending) == (EARLIEST, LATEST)
    assert options.fail_on_data_loss
    assert not options.include_headers
    assert options.max_trigger_delay_ms == 900_000
    assert options.target_partition_bytes == 134_217_728


def test_a_stream_starts_at_the_latest_by_default():
    assert parse(streaming=True).starting is LATEST
    assert parse(streaming=True, startingOffsets="earliest").starting is EARLIEST


def test_load_takes_a_list_of_paths():
    options = parse_options({"paths": '["/a", "/b,c"]'}, streaming=False)
    assert options.paths == ("/a", "/b,c")


def test_option_names_are_case_insensitive():
    options = parse(INCLUDEHEADERS="TRUE", failondataloss="False")
    assert options.include_headers
    assert not options.fail_on_data_loss


def test_one_error_reports_every_invalid_option():
    message = refused(
        {
            "minPartitions": "0",
            "maxRecordsPerPartition": " 5",
            "failOnDataLoss": "yes",
            "startingOffsets": "first",
            "columns": "key,color",
            "onCorruption": "ignore",
            "kafka.isolation.level": "READ_COMMITTED",
            "nonsense": "1",
        }
    )
    for part in (
        "option minPartitions: expected an integer of at least 1, got 0",
        "option maxRecordsPerPartition: expected an integer of at least 1, got  5",
        "option failOnDataLoss: expected true or false, got yes",
        'option startingOffsets: expected e.g. {"topicA":{"0":23,"1":-1},',
        "got first",
        "option columns: expected columns of key, value,",
        "got color",
        "option onCorruption: expected raise or skip, got ignore",
        "option kafka.isolation.level: expected read_committed or read_uncommitted",
        "option nonsense: unknown option",
    ):
        assert part in message
    assert "\n" not in message


def test_a_path_is_required():
    with pytest.raises(ConfigError, match="option path: expected log directories"):
        parse_options({}, streaming=False)


def test_topics_are_selected_by_at_most_one_option():
    message = refused(subscribe="a", subscribePattern="b")
    assert message == "expected one of the options subscribe, subscribePattern"


@pytest.mark.parametrize(
    ("option", "text", "chosen"),
    [
        ("subscribe", "a, b ,,c", Subscribe(("a", "b", "c"))),
        ("subscribePattern", " orders.* ", SubscribePattern("orders.*")),
        ("assign", '{"b":[1,0,1],"a":[2]}', Assign((("a", 2), ("b", 0), ("b", 1)))),
        ("assign", "{}", Assign(())),
    ],
)
def test_topics_are_selected_by_each_option(option, text, chosen):
    assert parse({option: text}).topics == chosen


@pytest.mark.parametrize(
    ("option", "text", "expected"),
    [
        ("subscribe", " , ", "expected names separated by commas"),
        ("subscribePattern", "  ", "expected a pattern, got none"),
        ("subscribePattern", "(", "expected a pattern, got ("),
        ("subscribePattern", r"\p{Lower}", r"without \p{Lower}, which Python"),
        ("assign", "a-0", 'expected e.g. {"topicA":[0,1],"topicB":[0,1]}, got a-0'),
        ("assign", '{"a":["0"]}', "expected e.g."),
        ("assign", '{"a":[true]}', "expected e.g."),
        ("assign", '{"a":[99999999999]}', "expected e.g."),
    ],
)
def test_an_invalid_selection_of_topics_is_rejected(option, text, expected):
    assert expected in refused({option: text})


@pytest.mark.parametrize(
    ("options", "limit"),
    [
        ({"startingOffsets": " EARLIEST "}, EARLIEST),
        ({"startingOffsets": OFFSETS}, SpecificOffsets({("orders", 0): 23})),
        (
            {"startingOffsetsByTimestamp": OFFSETS, "startingOffsets": "invalid"},
            SpecificTimestamps({("orders", 0): 23}),
        ),
        (
            {
                "startingTimestamp": " 1000 ",
                "startingOffsetsByTimestamp": "invalid",
                "startingOffsets": OFFSETS,
            },
            GlobalTimestamp(1000),
        ),
    ],
)
def test_a_timestamp_precedes_timestamps_and_these_precede_offsets(options, limit):
    assert parse(options).starting == limit
    ending = {name.replace("starting", "ending"): at for name, at in options.items()}
    if limit is not EARLIEST:
        assert parse(ending).ending == limit


@pytest.mark.parametrize(
    "form",
    [
        '{"a":{"0":2.5}}',
        '{"a":{"0":null}}',
        '{"a":{"0":"23"}}',
        '{"a":{"0":true}}',
        '{"a":{"0":99999999999999999999}}',
        '{"a":{"99999999999":1}}',
        '{"a":{" 1":1}}',
        '{"a":{"x":1}}',
        '{"a":{"0":NaN}}',
        '{"a":{"0":1e999}}',
        '{"a":[1]}',
        '{"a":"{}"}',
        "[]",
        "null",
        '{"a":{"0":1}} more',
    ],
)
def test_invalid_offsets_are_rejected_with_an_example(form):
    assert refused(startingOffsets=form) == (
        'option startingOffsets: expected e.g. {"topicA":{"0":23,"1":-1},'
        f'"topicB":{{"0":-2}}}}, got {form}'
    )


def test_integers_may_be_written_as_floats():
    offsets = parse(startingOffsets='{"a":{"01":1e3,"+2":4.0}}').starting.offsets
    assert offsets == {("a", 1): 1000, ("a", 2): 4}


def test_an_offset_below_minus_two_is_rejected():
    assert "got -3 for orders-0" in refused(startingOffsets='{"orders":{"0":-3}}')


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"startingOffsets": "latest"}, "expected a start other than latest"),
        ({"startingOffsets": '{"a":{"0":-1}}'}, "got latest for [a-0]"),
        ({"endingOffsets": "earliest"}, "expected an end other than earliest"),
        ({"endingOffsets": '{"a":{"0":-2}}'}, "got earliest for [a-0]"),
        (
            {"startingOffsets": '{"a":{"0":1}}', "endingOffsets": '{"a":{"1":2}}'},
            "expected the same partitions in start and end, got [a-0] and [a-1]",
        ),
        (
            {"startingOffsets": '{"a":{"0":5}}', "endingOffsets": '{"a":{"0":4}}'},
            "the start offset 5 is greater than the end offset 4 for a-0",
        ),
        (
            {
                "startingOffsetsByTimestamp": '{"a":{"0":5}}',
                "endingOffsetsByTimestamp": '{"a":{"0":4}}',
            },
            "the start timestamp 5 is greater than the end timestamp 4 for a-0",
        ),
        ({"startingTimestamp": "1.5"}, "expected milliseconds since 1970, got 1.5"),
        ({"startingTimestamp": "-1"}, "expected milliseconds since 1970, got -1"),
        ({"startingOffsetsByTimestamp": "x"}, '{"topicA":{"0":123456789}'),
        ({"startingOffsetsByTimestamp": '{"a":{"0":-5}}'}, "got -5 for a-0"),
    ],
)
def test_a_batch_cannot_start_at_latest_or_end_at_earliest(options, expected):
    assert expected in refused(options)


def test_edges_are_not_compared_with_offsets():
    options = {"startingOffsets": '{"a":{"0":5}}', "endingOffsets": '{"a":{"0":-1}}'}
    assert parse(options).ending.offsets == {("a", 0): -1}


def test_a_stream_may_start_at_the_latest_of_a_partition():
    at = '{"a":{"0":-1,"1":-2}}'
    started = parse(streaming=True, startingOffsets=at).starting
    assert started.offsets == {("a", 0): LATEST, ("a", 1): EARLIEST}


@pytest.mark.parametrize("kind", ["Offsets", "OffsetsByTimestamp", "Timestamp"])
def test_a_stream_has_no_end(kind):
    message = refused({f"ending{kind}": "latest"}, streaming=True)
    assert message == f"option ending{kind}: a stream has no end"


def test_the_minimum_of_a_trigger_may_not_exceed_its_maximum():
    message = refused(
        minOffsetsPerTrigger="9", maxOffsetsPerTrigger="8", streaming=True
    )
    assert message.startswith("option minOffsetsPerTrigger: expected at most")
    options = parse(minOffsetsPerTrigger="8", maxOffsetsPerTrigger="8", streaming=True)
    assert options.min_offsets_per_trigger == options.max_offsets_per_trigger == 8


def test_options_for_brokers_are_ignored_and_listed():
    options = {
        "kafka.bootstrap.servers": "localhost:9092",
        "kafka.sasl.jaas.config": "s3cret",
        "groupIdPrefix": "mine",
        "kafkaConsumer.pollTimeoutMs": "1",
        "fetchOffset.numRetries": "2",
        "maxOffsetsPerTrigger": "10",
        "checkpointLocation": "/c",
    }
    batch = parse(options)
    assert set(batch.ignored) == options.keys() - {"checkpointLocation"}
    assert "s3cret" not in repr(batch)
    assert "maxOffsetsPerTrigger" not in parse(options, streaming=True).ignored


@pytest.mark.parametrize(
    "name",
    [
        "auto.offset.reset",
        "key.deserializer",
        "value.deserializer",
        "enable.auto.commit",
        "interceptor.classes",
    ],
)
def test_kafka_options_that_spark_rejects_are_rejected(name):
    message = refused({f"kafka.{name}": "s3cret"})
    assert message.startswith(f"option kafka.{name}: not supported")
    assert "s3cret" not in message


def test_checksums_are_verified_by_default():
    assert parse().check_crcs
    unchecked = parse({"kafka.check.crcs": "false"})
    assert (unchecked.check_crcs, unchecked.ignored) == (False, ())
    assert "option kafka.check.crcs: expected" in refused({"kafka.check.crcs": "no"})


def test_isolation_is_read_uncommitted_by_default():
    assert not parse().read_committed
    assert parse({"kafka.isolation.level": "read_committed"}).read_committed
    assert not parse({"kafka.isolation.level": "read_uncommitted"}).read_committed


def test_credentials_are_in_no_repr():
    options = parse({"storage.secret": "s3cret", "storage.user": "me"})
    assert options.storage == {"secret": "s3cret", "user": "me"}
    assert "s3cret" not in repr(options)
    assert "s3cret" not in refused(
        {"storage.secret": "s3cret", "storagesecret": "s3cret"}
    )


def test_on_corruption_has_two_spellings():
    assert parse(onCorruption="skip").on_corruption == "skip"
    assert parse(on_corruption="skip").on_corruption == "skip"
    assert "set twice" in refused(onCorruption="skip", on_corruption="skip")


def test_the_strategy_for_missing_timestamps_is_case_insensitive():
    assert (
        parse(startingOffsetsByTimestampStrategy="LATEST").on_missing_time == "latest"
    )
    assert "expected error or latest, got x" in refused(
        startingOffsetsByTimestampStrategy="x"
    )


def test_unknown_columns_are_rejected():
    assert parse(columns="offset, key").columns == ("offset", "key")
    assert "each column once, got key twice" in refused(columns="key,value,key")


def test_topic_and_splits_are_aliases():
    assert parse(topic=" orders ", splits="3") == parse(
        subscribe="orders", minPartitions="3"
    )
    assert refused(topic="a,b") == "option topic: expected one topic, got 'a,b'"
    assert refused(splits="0").startswith("option splits: expected an integer")
    for one, other in (("subscribe", "topic"), ("minPartitions", "splits")):
        text = f"expected one of the options {one}, {other}"
        assert text in refused({one: "1", other: "1"})


@pytest.mark.parametrize("name", ["topics", "split", "startingOffset"])
def test_unknown_options_are_rejected(name):
    assert refused({name: "x"}).startswith(f"option {name}: unknown option")


@given(
    st.dictionaries(
        st.sampled_from(
            [
                *("assign", "subscribe", "subscribePattern", "startingOffsets"),
                *("endingOffsetsByTimestamp", "startingTimestamp", "minPartitions"),
                *("maxTriggerDelay", "targetPartitionBytes", "columns", "paths"),
            ]
        ),
        st.text() | st.from_regex(r'\{"a":[\[{]["0-9:e.]*[}\]]\}', fullmatch=True),
    ),
    st.booleans(),
)
def test_any_text_is_parsed_or_rejected_with_a_config_error(options, streaming):
    try:
        parsed = parse(options, streaming=streaming)
    except ConfigError:
        return
    assert pickle.loads(pickle.dumps(parsed)) == parsed
