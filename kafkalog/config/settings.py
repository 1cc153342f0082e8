"""A group of settings as one frozen value, named as in Kafka and checked as a whole.

A class derived from `Settings` declares each setting with `setting`, under Kafka's name
with underscores for dots::

    segment_ms: int = setting(LONG, 604800000, Range(1))

A group is created from fields, from a mapping of Kafka's names, or by changing another.
It is checked in the same way each time, and one `ConfigError` lists all faults.

Source: ``ConfigDef.java``, ``AbstractConfig.java``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import Field, dataclass, field, fields
from functools import cache
from typing import Any, ClassVar, Final, NamedTuple, Self

from kafkalog.config.setting_types import Elements, Kind, Valid, parse_value
from kafkalog.errors import ConfigError
from kafkalog.text.close_matches import close_matches

SHOWN_CHARACTERS: Final = 64


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: its `name` in Kafka, type, default, and valid values.

    It may be unset if its default is None.
    """

    name: str
    kind: Kind
    default: Any
    valid: Valid | None
    internal: bool

    def parse(self, value: object) -> Any:
        """Return `value` parsed. Raise `ConfigError` with Kafka's message."""
        if value is None and self.default is None:
            return None
        try:
            parsed = parse_value(self.kind, value)
        except ValueError as error:
            raise self._invalid(value, str(error)) from None
        if isinstance(self.valid, Elements):
            parsed = tuple(dict.fromkeys(parsed))
        if self.valid and (expected := self.valid.fault(parsed)):
            raise self._invalid(value, expected)
        return parsed

    def text(self, value: Any) -> str:
        """Return a parsed value as text that `parse` reads."""
        match self.kind:
            case Kind.BOOLEAN:
                return str(value).lower()
            case Kind.LIST:
                return ",".join(value)
        return str(value)

    def _invalid(self, value: object, expected: str) -> ConfigError:
        return ConfigError(
            f"Invalid value {_shown(value)} for configuration {self.name}: {expected}"
        )


class Conflict(NamedTuple):
    """A reason why settings that are each valid exclude each other.

    `names` are the names of these settings.
    """

    reason: str
    names: tuple[str, ...]


def setting(
    kind: Kind, default: Any, valid: Valid | None = None, *, internal: bool = False
) -> Any:
    """Declare a setting, as a field of a class derived from `Settings`.

    `internal` settings are for Kafka's own tests, and not listed in its documentation.
    """
    metadata = {"kind": kind, "valid": valid, "internal": internal}
    return field(default=default, metadata=metadata)


def settings_of(group: type[Settings]) -> dict[str, Setting]:
    """Return the settings of a class by Kafka's names, in the order of declaration."""
    return _settings_in(fields(group))


@cache
def _settings_in(declared: tuple[Field[Any], ...]) -> dict[str, Setting]:
    settings = [
        Setting(
            name=setting_field.name.replace("_", "."),
            default=setting_field.default,
            **setting_field.metadata,
        )
        for setting_field in declared
    ]
    return {setting_field.name: setting_field for setting_field in settings}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings that are checked when they are created.

    Base class of `LogConfig` and `BrokerConfig`.
    """

    owner: ClassVar[str]
    """Owner of the settings in error messages: topic or broker."""

    def __post_init__(self) -> None:
        """Parse all values; raise one error for all faults."""
        faults: dict[str, str] = {}
        for name, declared in settings_of(type(self)).items():
            attribute = attribute_of(name)
            try:
                parsed = declared.parse(getattr(self, attribute))
            except ConfigError as error:
                faults[name], parsed = str(error), declared.default
            object.__setattr__(self, attribute, parsed)
        conflicts = [
            conflict.reason
            for conflict in self.conflicts()
            if faults.keys().isdisjoint(conflict.names)
        ]
        _raise_if_any([*faults.values(), *conflicts])

    @classmethod
    def from_properties(
        cls, properties: Mapping[str, object], *, ignore_unknown: bool = False
    ) -> Self:
        """Create settings from a mapping of Kafka's names.

        Parameters
        ----------
        properties : mapping of str to object
            Values by Kafka's names, as text or Python values. Settings that are missing
            have Kafka's defaults.
        ignore_unknown : bool, default False
            Ignore unknown names, as a broker does with a stored configuration that
            another release has written. By default they are faults.

        Returns
        -------
        Settings
            An instance of the class that the method is called on.

        Raises
        ------
        ConfigError
            If a name is unknown or a value is invalid; the message lists all faults.

        Examples
        --------
        >>> from kafkalog import LogConfig
        >>> LogConfig.from_properties({"segment.ms": "1000"}).segment_ms
        1000
        """
        known = {
            name: value
            for name, value in properties.items()
            if name in settings_of(cls)
        }
        faults = [
            f"Unknown {cls.owner} config name: {_suggested(name, settings_of(cls))}"
            for name in sorted(properties.keys() - known.keys(), key=str)
            if not ignore_unknown
        ]
        try:
            made = cls(**{attribute_of(name): known[name] for name in known})
        except ConfigError as error:
            raise ConfigError("; ".join([*faults, str(error)])) from None
        _raise_if_any(faults)
        return made

    def with_changes(
        self, changes: Mapping[str, object], *, ignore_unknown: bool = False
    ) -> Self:
        """Return these settings with some of them changed.

        Parameters
        ----------
        changes : mapping of str to object
            New values by Kafka's names, as text or Python values.
        ignore_unknown : bool, default False
            Ignore unknown names instead of raising.

        Returns
        -------
        Settings
            An instance of the class of these settings.

        Raises
        ------
        ConfigError
            If a name is unknown or a value is invalid.

        Examples
        --------
        >>> from kafkalog import BrokerConfig
        >>> BrokerConfig().with_changes({"log.roll.ms": "1000"}).log_roll_ms
        1000
        """
        values = {**self.values(), **changes}
        return self.from_properties(values, ignore_unknown=ignore_unknown)

    def values(self) -> dict[str, Any]:
        """Return all settings by Kafka's names, as Python values.

        Returns
        -------
        dict of str to object
            The value of each setting, None if it is unset.

        Examples
        --------
        >>> from kafkalog import LogConfig
        >>> LogConfig().values()["preallocate"]
        False
        """
        return {
            name: getattr(self, attribute_of(name)) for name in settings_of(type(self))
        }

    def to_properties(self) -> dict[str, str]:
        """Return all settings that are set, as text by Kafka's names.

        Returns
        -------
        dict of str to str
            The text of each setting, which `from_properties` reads.

        Examples
        --------
        >>> from kafkalog import LogConfig
        >>> LogConfig().to_properties()["preallocate"]
        'false'
        """
        declared = settings_of(type(self))
        return {
            name: declared[name].text(value)
            for name, value in self.values().items()
            if value is not None
        }

    def conflicts(self) -> Iterator[Conflict]:
        """Yield the conflicts between settings that are each valid."""
        yield from ()


def attribute_of(name: str) -> str:
    """Return the name of the attribute for a setting.

    >>> attribute_of("segment.bytes")
    'segment_bytes'
    """
    return name.replace(".", "_")


def _shown(value: object) -> str:
    text = repr(value)  # has no line ends
    cut = len(text) > SHOWN_CHARACTERS
    return f"{text[: SHOWN_CHARACTERS - 3]}..." if cut else text


def _suggested(name: object, known: Iterable[str]) -> str:
    question = close_matches(name, known)
    return f"{_shown(name)} ({question})" if question else _shown(name)


def _raise_if_any(faults: Iterable[str]) -> None:
    if reasons := "; ".join(faults):
        raise ConfigError(reasons)
