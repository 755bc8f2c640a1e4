"""A client of the service, in Python.

    with Client("http://127.0.0.1:8000", token="osamd_...") as service:
        decision = service.decide({"age": 41, "job": "nurse"}, id="order-17")
        if decision["query"]:
            service.tell("yes", id="order-17")

Every answer is the JSON of the service; a refusal is a `ServiceError` with its stable code. Requests that were not
answered in time may be sent again: with an `id` nothing is counted twice.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

try:
    import httpx
except ImportError as error:
    raise ImportError("the client needs httpx: pip install 'osamd[client]'") from error

Features = Sequence[Any] | Mapping[str, Any]


class ServiceError(Exception):
    """A refusal: `code` is stable, `status` that of HTTP (0 where the service does not answer)."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.status, self.code = status, code


class Client:
    """See the module."""

    def __init__(self, url: str = "http://127.0.0.1:8000", *, token: str | None = None, timeout: float = 30.0) -> None:
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        self._http = httpx.Client(base_url=url, headers=headers, timeout=timeout)

    def decide(self, features: Features, *, id: str | None = None) -> dict[str, Any]:
        """The decision on one sample."""
        return self._call("POST", "/v1/samples", {"features": _plain(features), "id": id})

    def decide_many(self, samples: Sequence[Features], *, ids: Sequence[str] | None = None) -> list[dict[str, Any]]:
        """The decisions on samples, one after the other."""
        names = [None] * len(samples) if ids is None else ids
        given = [{"features": _plain(x), "id": name} for x, name in zip(samples, names, strict=True)]
        told: list[dict[str, Any]] = self._call("POST", "/v1/samples", {"samples": given})["decisions"]
        return told

    def tell(self, label: Any, *, round: int | None = None, id: str | None = None) -> dict[str, Any]:
        """Give the label of a query, by its round or by the id of its sample."""
        named = {"round": round, "id": id}
        return self._call("POST", "/v1/labels", {"label": label} | {k: v for k, v in named.items() if v is not None})

    def claim(
        self, holder: str, *, limit: int = 1, order: str = "oldest", lease: float = 120.0
    ) -> list[dict[str, Any]]:
        """Take queries to answer; nobody else gets them while the lease lasts."""
        body = {"holder": holder, "limit": limit, "order": order, "lease": lease}
        told: list[dict[str, Any]] = self._call("POST", "/v1/queries/claim", body)["queries"]
        return told

    def queries(self, *, limit: int = 20, order: str = "oldest") -> list[dict[str, Any]]:
        """The queries that wait."""
        told: list[dict[str, Any]] = self._call("GET", f"/v1/queries?limit={limit}&order={order}")["queries"]
        return told

    def skip(self, round: int, holder: str) -> dict[str, Any]:
        """Leave a query to others."""
        return self._call("POST", f"/v1/queries/{round}/skip", {"holder": holder})

    def expire(self, round: int) -> dict[str, Any]:
        """Give up waiting for a label."""
        return self._call("POST", f"/v1/queries/{round}/expire", {})

    def status(self) -> dict[str, Any]:
        """How it stands."""
        return self._call("GET", "/v1/status")

    def events(self, after: int | None = None) -> Iterator[tuple[str, dict[str, Any]]]:
        """What happens, as it happens: (kind, body), for ever; `after` goes on behind an event that was seen."""
        headers = {} if after is None else {"last-event-id": str(after)}
        with self._http.stream("GET", "/v1/events", headers=headers, timeout=None) as answer:
            _refuse(answer)
            kind = ""
            for line in answer.iter_lines():
                name, _, value = line.partition(": ")
                if name == "event":
                    kind = value
                elif name == "data":
                    yield kind, json.loads(value)

    def close(self) -> None:
        """Let go of the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _call(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        try:
            answer = self._http.request(method, path, json=body)
        except httpx.TransportError as error:
            raise ServiceError(0, "unreachable", f"{self._http.base_url} does not answer ({error}).") from error
        _refuse(answer)
        told: dict[str, Any] = answer.json()
        return told


def _refuse(answer: httpx.Response) -> None:
    if answer.is_success:
        return
    answer.read()
    try:
        said = answer.json()["error"]
    except (ValueError, KeyError, TypeError):
        said = {"code": "no-service", "message": "the answer is not one of osamd's; is this its address?"}
    raise ServiceError(answer.status_code, said["code"], said["message"])


def _plain(features: Features) -> Any:
    """Rows of numpy and pandas as JSON takes them."""
    if isinstance(features, Mapping):
        return {name: _number(value) for name, value in features.items()}
    return features.tolist() if hasattr(features, "tolist") else [_number(value) for value in features]


def _number(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value
