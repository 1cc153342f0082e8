"""A group of settings as one frozen value, spelled as in Kafka and checked whole.

A class derived from `Settings` declares each with `setting`, under Kafka's name with
underscores for dots::

    segment_ms: int = setting(LONG, 604800000, Range(1))

Made from fields, from a mapping of Kafka's names or by changing another, it is checked
in the same way, and all that is wrong is named in one `ConfigError`.

Knows: names, defaults, checks, errors. Does not know: what a setting means.
Source: ``ConfigDef.java``, ``AbstractConfig.java``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import Field, dataclass, field, fields
from functools import cache
from typing import Any, ClassVar, Final, NamedTuple, Self

from kafkalog.config.setting_types import Elements, Kind, Valid, parse_value
from kafkalog.errors import ConfigError

SHOWN_CHARACTERS: Final = 64


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: its `name` in Kafka, type, default, and what is valid.

    It may be left unset where its default is None.
    """

    name: str
    kind: Kind
    default: Any
    valid: Valid | None
    internal: bool

    def parse(self, value: object) -> Any:
        """Read `value`; `ConfigError` says what was expected, in Kafka's words."""
        if value is None and self.default is None:
            return None
        try:
            parsed = parse_value(self.kind, value)
        except ValueError as error:
            raise self._refusal(value, str(error)) from None
        if isinstance(self.valid, Elements):
            parsed = tuple(dict.fromkeys(parsed))
        if self.valid and (expected := self.valid.fault(parsed)):
            raise self._refusal(value, expected)
        return parsed

    def text(self, value: Any) -> str:
        """Write a parsed value as text, from which `parse` reads it again."""
        match self.kind:
            case Kind.BOOLEAN:
                return str(value).lower()
            case Kind.LIST:
                return ",".join(value)
        return str(value)

    def _refusal(self, value: object, expected: str) -> ConfigError:
        return ConfigError(
            f"Invalid value {_shown(value)} for configuration {self.name}: {expected}"
        )


class Conflict(NamedTuple):
    """What is wrong between settings that are each valid: `names` are theirs."""

    reason: str
    names: tuple[str, ...]


def setting(
    kind: Kind, default: Any, valid: Valid | None = None, *, internal: bool = False
) -> Any:
    """Declare a setting, as a field of a class derived from `Settings`.

    `internal` ones are Kafka's own, for tests, and stand in none of its listings.
    """
    metadata = {"kind": kind, "valid": valid, "internal": internal}
    return field(default=default, metadata=metadata)


def settings_of(group: type[Settings]) -> dict[str, Setting]:
    """Give the settings of a class by Kafka's names, in the order of declaration."""
    return _settings_in(fields(group))


@cache
def _settings_in(declared: tuple[Field[Any], ...]) -> dict[str, Setting]:
    found = [
        Setting(name=each.name.replace("_", "."), default=each.default, **each.metadata)
        for each in declared
    ]
    return {each.name: each for each in found}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings that are checked when they are made; see `LogConfig`, `BrokerConfig`."""

    owner: ClassVar[str]
    """Whose settings these are, for errors: topic or broker."""

    def __post_init__(self) -> None:
        """Put parsed values in place of those given; name all that is wrong."""
        wrong: dict[str, str] = {}
        for name, each in settings_of(type(self)).items():
            attribute = attribute_of(name)
            try:
                parsed = each.parse(getattr(self, attribute))
            except ConfigError as error:
                wrong[name], parsed = str(error), each.default
            object.__setattr__(self, attribute, parsed)
        conflicts = [
            conflict.reason
            for conflict in self.conflicts()
            if wrong.keys().isdisjoint(conflict.names)
        ]
        _refuse([*wrong.values(), *conflicts])

    @classmethod
    def from_properties(
        cls, properties: Mapping[str, object], *, ignore_unknown: bool = False
    ) -> Self:
        """Take settings by Kafka's names, with texts or Python values; defaults else.

        Unknown names are wrong. With `ignore_unknown` they are passed over, as a
        broker does with a stored configuration that another release has written.
        """
        known = {
            name: value
            for name, value in properties.items()
            if name in settings_of(cls)
        }
        faults = [
            f"Unknown {cls.owner} config name: {_shown(name)}"
            for name in sorted(properties.keys() - known.keys(), key=str)
            if not ignore_unknown
        ]
        try:
            made = cls(**{attribute_of(name): known[name] for name in known})
        except ConfigError as error:
            raise ConfigError("; ".join([*faults, str(error)])) from None
        _refuse(faults)
        return made

    def with_changes(
        self, changes: Mapping[str, object], *, ignore_unknown: bool = False
    ) -> Self:
        """Give these settings with some of them changed, by Kafka's names."""
        values = {**self.values(), **changes}
        return self.from_properties(values, ignore_unknown=ignore_unknown)

    def values(self) -> dict[str, Any]:
        """Give all settings by Kafka's names, as Python values; None is unset."""
        return {
            name: getattr(self, attribute_of(name)) for name in settings_of(type(self))
        }

    def to_properties(self) -> dict[str, str]:
        """Give all settings that are set as texts, by Kafka's names."""
        found = settings_of(type(self))
        return {
            name: found[name].text(value)
            for name, value in self.values().items()
            if value is not None
        }

    def conflicts(self) -> Iterator[Conflict]:
        """Yield what is wrong between settings that are valid each by itself."""
        yield from ()


def attribute_of(name: str) -> str:
    """Give the attribute that holds a setting.

    >>> attribute_of("segment.bytes")
    'segment_bytes'
    """
    return name.replace(".", "_")


def _shown(value: object) -> str:
    text = repr(value)  # of which no character ends a line
    cut = len(text) > SHOWN_CHARACTERS
    return f"{text[: SHOWN_CHARACTERS - 3]}..." if cut else text


def _refuse(faults: Iterable[str]) -> None:
    if reasons := "; ".join(faults):
        raise ConfigError(reasons)
