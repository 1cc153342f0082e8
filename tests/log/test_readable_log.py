"""Logs for reading and for writing are asked the same questions in the same way."""

import inspect

import pytest

import kafkalog
from kafkalog.log.readable_log import ReadableLog

MEMBERS = [name for name in vars(ReadableLog) if name[0] != "_" and name != "path"]
CLASSES = [kafkalog.Log, kafkalog.WritableLog]


def parameters_of(method):
    return {
        name: (parameter.kind, parameter.default)
        for name, parameter in inspect.signature(method).parameters.items()
    }


@pytest.mark.parametrize("log", CLASSES)
@pytest.mark.parametrize("name", MEMBERS)
def test_a_member_of_the_protocol_is_one_of_the_class(name, log):
    expected, found = getattr(ReadableLog, name), getattr(log, name)
    assert isinstance(found, property) == isinstance(expected, property)
    if isinstance(expected, property):
        return
    assert parameters_of(expected).items() <= parameters_of(found).items()


def test_all_that_can_be_read_of_a_log_is_in_the_protocol():
    public = [{name for name in vars(log) if name[0] != "_"} for log in CLASSES]
    assert {*MEMBERS} == public[0] & public[1] == public[0]
