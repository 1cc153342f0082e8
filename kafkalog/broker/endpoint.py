"""The address that clients connect to."""

from __future__ import annotations

from typing import Any, NamedTuple


class Endpoint(NamedTuple):
    """A host and a port, as clients are told.

    >>> str(Endpoint("127.0.0.1", 9092)), str(Endpoint("::1", 9092))
    ('127.0.0.1:9092', '[::1]:9092')
    """

    host: str
    port: int

    def as_node(self, node_id: int) -> dict[str, Any]:
        """Return the members that responses have of a broker."""
        return {"nodeId": node_id, "host": self.host, "port": self.port}

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"
