"""Options of remote file systems: parsed from text, and never shown.

They include credentials. Their values are not in any error, and are removed from the
messages of libraries.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import quote

from kafkalog.errors import ConfigError


class Hidden(str):
    """Text that `repr` does not show.

    >>> [Hidden("secret")], Hidden("secret") == "secret"
    ([***], True)
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return "***"


Options = tuple[tuple[str, Hidden], ...]
Readers = Mapping[str, Callable[[str], Any]]


def _truth(text: str) -> bool:
    return {"true": True, "false": False}[text.strip().lower()]


def _seconds(text: str) -> timedelta:
    return timedelta(seconds=float(text))


S3_OPTIONS: Final[Readers] = {
    "access_key": str,
    "secret_key": str,
    "session_token": str,
    "anonymous": _truth,
    "region": str,
    "scheme": str,
    "endpoint_override": str,
    "force_virtual_addressing": _truth,
    "role_arn": str,
    "session_name": str,
    "external_id": str,
    "load_frequency": int,
    "proxy_options": str,
    "request_timeout": float,
    "connect_timeout": float,
    "tls_ca_file_path": str,
}
GCS_OPTIONS: Final[Readers] = {
    "anonymous": _truth,
    "access_token": str,
    "credential_token_expiration": datetime.fromisoformat,
    "target_service_account": str,
    "scheme": str,
    "endpoint_override": str,
    "project_id": str,
    "retry_time_limit": _seconds,
}
HDFS_OPTIONS: Final[Readers] = {
    "user": str,
    "kerb_ticket": str,
    "buffer_size": int,
    "extra_conf": json.loads,
}
OPTIONS: Final[Mapping[str, Readers]] = {
    "s3": S3_OPTIONS,
    "gs": GCS_OPTIONS,
    "gcs": GCS_OPTIONS,
    "hdfs": HDFS_OPTIONS,
}
"""The options of pyarrow's schemes, named as in its constructors."""

MAX_MESSAGE: Final = 500
"""Characters kept of a library's message; without libjvm it has forty thousand."""

EXPECTED: Final[Mapping[Callable[[str], Any], str]] = {
    _truth: "true or false",
    _seconds: "a number of seconds",
    int: "an integer",
    float: "a number",
    datetime.fromisoformat: "a time as in ISO 8601",
    json.loads: "JSON",
}
"""What text each reader can parse; ``str`` parses any."""

NO_SECRETS: Final = frozenset(EXPECTED) - {json.loads}


def read_options(scheme: str, options: Mapping[str, str]) -> dict[str, Any]:
    """Convert text to the option values of the file system of `scheme`.

    Raises `ConfigError` that names all wrong options, without their values.

    >>> read_options("s3", {"region": "eu-west-1", "anonymous": "true"})
    {'region': 'eu-west-1', 'anonymous': True}
    >>> read_options("s3", {"acces_key": "...", "anonymous": "?"})
    Traceback (most recent call last):
        ...
    kafkalog.errors.ConfigError: s3 has no storage option acces_key (it has access_key,
    ...); expected true or false as the storage option anonymous
    """
    readers = OPTIONS.get(scheme)
    if readers is None:
        return {name: _read_any(text) for name, text in options.items()}
    read, faults = {}, []
    for name, text in options.items():
        if name not in readers:
            known = ", ".join(readers)
            faults.append(f"{scheme} has no storage option {name} (it has {known})")
            continue
        try:
            read[name] = readers[name](text)
        except (ValueError, KeyError):
            expected = EXPECTED[readers[name]]
            faults.append(f"expected {expected} as the storage option {name}")
    if faults:
        raise ConfigError("; ".join(faults))
    return read


def _read_any(text: str) -> Any:
    """Parse ``true``, ``false``, JSON objects and lists; anything else stays text."""
    with suppress(ValueError):
        if text in ("true", "false") or text[:1] in ("{", "["):
            return json.loads(text)
    return str(text)


def redacted_error(
    error: Exception, url: str, scheme: str, options: Options
) -> OSError:
    """Return an `OSError` for a library's error, without the values of options.

    >>> error = OSError("AWS Error ACCESS_DENIED for key AKIA7")
    >>> redacted_error(error, "s3://b/x", "s3", (("access_key", Hidden("AKIA7")),))
    OSError('AWS Error ACCESS_DENIED for key ***: s3://b/x')
    """
    if isinstance(error, FileNotFoundError):
        return FileNotFoundError(2, os.strerror(2), url)
    message = redacted_message(error, scheme, options)
    if isinstance(error, OSError) and error.errno is not None:
        return OSError(error.errno, message, url)
    return OSError(f"{message}: {url}")


def redacted_message(error: Exception, scheme: str, options: Options) -> str:
    """Return an error's message as one line, with the values of options as ``***``."""
    message = error.strerror if isinstance(error, OSError) else None
    text = message or str(error) or type(error).__name__
    readers = OPTIONS.get(scheme, {})
    hidden = {
        spelled
        for name, value in options
        if readers.get(name, str) not in NO_SECRETS
        for part in _texts(_read_any(value))
        for spelled in (part, quote(part, safe=""), repr(part)[1:-1])
    }
    for spelled in sorted(hidden, key=len, reverse=True):
        text = text.replace(spelled, "***")
    line = " ".join(text.split())
    return line if len(line) <= MAX_MESSAGE else f"{line[:MAX_MESSAGE]} ..."


def _texts(value: Any) -> list[str]:
    """List all texts in a nested value, and the lines of each."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [text for element in value for text in _texts(element)]
    if value is None or isinstance(value, bool):
        return []
    return [text for text in (str(value), *str(value).splitlines()) if text.strip()]
