"""The Python client of the service.

    with Client("http://127.0.0.1:8000", token="osamd_...") as service:
        decision = service.decide({"age": 41, "job": "nurse"}, id="order-17")
        if decision["query"]:
            service.tell("yes", id="order-17")

Every result is the JSON of the service. A refusal raises `ServiceError` with a stable code. If there was no response,
the code is "unreachable", and the request may be sent again: with an `id`, nothing is counted twice.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self

from osamd.tables.values import NotThis, numbers, text_of

try:
    import httpx
except ImportError as error:
    raise ImportError("the client needs httpx: pip install 'osamd[client]'") from error

Features = Sequence[Any] | Mapping[str, Any]
"""The values of a sample in the order of its columns, or by name: lists, dictionaries, arrays, rows of pandas. NaN is a
missing value. An array with several axes is flattened row by row."""


class ServiceError(Exception):
    """A refusal: `code` is stable, `status` is the HTTP status (0 if the service does not respond), and the message
    names the remedy; `where` is the place in the request, if there is one."""

    def __init__(self, status: int, code: str, message: str, where: str | None = None) -> None:
        super().__init__(f"{code}: {message}")
        self.status, self.code, self.where = status, code, where


class Client:
    """Talks to the service at `url`, with a `token` if it needs one; waits `timeout` seconds for a response."""

    def __init__(self, url: str = "http://127.0.0.1:8000", *, token: str | None = None, timeout: float = 30.0) -> None:
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        self._http = httpx.Client(base_url=url, headers=headers, timeout=timeout)

    def decide(
        self, features: Features, *, id: str | None = None, display: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Decide on one sample. With an `id` of yours it is safe to send it again; `display` is what people see."""
        return self._call("POST", "/v1/samples", {"features": _plain(features), "id": id, "display": display})

    def decide_many(
        self,
        samples: Sequence[Features],
        *,
        ids: Sequence[str] | None = None,
        displays: Sequence[Mapping[str, Any] | None] | None = None,
    ) -> list[dict[str, Any]]:
        """Decide on samples, one after the other; {"error": ...} stands for a sample that the model could not
        score."""
        if not len(samples):
            return []
        names = [None] * len(samples) if ids is None else ids
        shown = [None] * len(samples) if displays is None else displays
        given = [
            {"features": _plain(x), "id": name, "display": display}
            for x, name, display in zip(samples, names, shown, strict=True)
        ]
        told: list[dict[str, Any]] = self._call("POST", "/v1/samples", {"samples": given})["decisions"]
        return told

    def decide_table(self, table: Any) -> Any:
        """Decide on the rows of a `pyarrow.Table` or a pandas or polars data frame, and return a `pyarrow.Table`;
        nothing is turned into text. A column `id` names the samples."""
        import pyarrow as pa  # type: ignore[import-untyped]

        if not isinstance(table, pa.Table):
            table = pa.table(table) if hasattr(table, "__arrow_c_stream__") else pa.Table.from_pandas(table)
        held = pa.BufferOutputStream()
        with pa.ipc.new_stream(held, table.schema) as stream:
            stream.write_table(table)
        headers = {"content-type": "application/vnd.apache.arrow.stream"}
        with self._reached():
            answer = self._http.post("/v1/samples/arrow", content=held.getvalue().to_pybytes(), headers=headers)
        _refuse(answer)
        return pa.ipc.open_stream(answer.content).read_all()

    def tell(self, label: Any, *, round: int | None = None, id: str | None = None) -> dict[str, Any]:
        """Give the label of a query, by its round or by the id of its sample."""
        named = {"round": _number(round), "id": id, "label": _number(label)}
        return self._call("POST", "/v1/labels", {name: value for name, value in named.items() if value is not None})

    def tell_many(self, labels: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Give labels, each as {"round": 17, "label": "cat"} or {"id": "order-17", "label": "cat"}, and return the
        outcomes; {"error": ...} stands for a refused label."""
        if not labels:
            return []
        given = [{name: _number(value) for name, value in one.items()} for one in labels]
        told: list[dict[str, Any]] = self._call("POST", "/v1/labels", {"labels": given})["outcomes"]
        return told

    def labels(self, after: int = 0) -> Iterator[dict[str, Any]]:
        """The answered queries with their samples; `after` is the `seq` of the last one that you have."""
        with self._reached(), self._http.stream("GET", f"/v1/labels?format=jsonl&after={after}") as answer:
            _refuse(answer)
            yield from map(json.loads, filter(None, answer.iter_lines()))

    def correct(self, label: Any, *, round: int, holder: str | None = None) -> dict[str, Any]:
        """Record another label for an answered query; the learner keeps what it has learned. `holder` names the person
        if several share a token."""
        given = {"round": _number(round), "label": _number(label)}
        return self._call("POST", "/v1/corrections", given | ({} if holder is None else {"holder": holder}))

    def claim(
        self, holder: str, *, limit: int = 1, order: str = "oldest", lease: float = 120.0
    ) -> list[dict[str, Any]]:
        """Claim queries to answer; nobody else gets them during the lease."""
        body = {"holder": holder, "limit": limit, "order": order, "lease": lease}
        told: list[dict[str, Any]] = self._call("POST", "/v1/queries/claim", body)["queries"]
        return told

    def queries(self, *, limit: int = 20, order: str = "oldest") -> list[dict[str, Any]]:
        """The pending queries."""
        told: list[dict[str, Any]] = self._call("GET", f"/v1/queries?limit={limit}&order={order}")["queries"]
        return told

    def skip(self, round: int, holder: str) -> dict[str, Any]:
        """Leave a query to others."""
        return self._call("POST", f"/v1/queries/{round}/skip", {"holder": holder})

    def none(self, round: int, holder: str) -> dict[str, Any]:
        """Say that no class fits: the query ends without a label."""
        return self._call("POST", f"/v1/queries/{round}/none", {"holder": holder})

    def medium(self, round: int, place: str) -> tuple[str, bytes]:
        """The image or the sound ("audio") of a query: its type and its bytes."""
        with self._reached():
            answer = self._http.get(f"/v1/queries/{round}/{place}")
        _refuse(answer)
        return answer.headers["content-type"], answer.content

    def expire(self, round: int) -> dict[str, Any]:
        """Expire a query."""
        return self._call("POST", f"/v1/queries/{round}/expire", {})

    def expire_older(self, rounds: int) -> int:
        """Expire the queries that were asked more than this many rounds ago, and return their number."""
        return int(self._call("POST", "/v1/queries/expire", {"older_than": rounds})["expired"])

    def change_budget(self, **limits: Any) -> dict[str, Any]:
        """Change the budget from the next round on: any of budget, budget_window, max_labels and target_accuracy; None
        removes a limit. This needs a token with the role admin."""
        return self._call("POST", "/v1/budget", {name: _number(value) for name, value in limits.items()})

    def add_class(self, name: Any, *, title: str = "", about: str = "") -> list[Any]:
        """Add a class, and return all classes. This needs a token with the role admin."""
        body = {"name": _number(name), "title": title, "about": about}
        classes: list[Any] = self._call("POST", "/v1/classes", body)["classes"]
        return classes

    def archive(self, older_than_days: float) -> dict[str, Any]:
        """Move older events into a Parquet file beside the log: {"events", "file"}. This needs the role admin."""
        return self._call("POST", "/v1/archive", {"older_than_days": older_than_days})

    def erase(
        self, *, ids: Sequence[str] = (), rounds: Sequence[int] = (), labeller: str | None = None
    ) -> dict[str, Any]:
        """Erase samples by their ids or rounds, and all answers of a labeller: {"samples", "answers"}. This needs the
        role admin."""
        body = {"ids": list(ids), "rounds": [_number(one) for one in rounds], "labeller": labeller}
        return self._call("POST", "/v1/erase", body)

    def status(self) -> dict[str, Any]:
        """The status of the stream."""
        return self._call("GET", "/v1/status")

    def history(self, points: int = 300) -> list[dict[str, Any]]:
        """The history of the stream, in at most this many points."""
        told: list[dict[str, Any]] = self._call("GET", f"/v1/history?points={points}")["points"]
        return told

    def schema(self) -> dict[str, Any]:
        """The schema of samples and classes."""
        return self._call("GET", "/v1/schema")

    def events(self, after: int | None = None) -> Iterator[tuple[str, dict[str, Any]]]:
        """The events as they happen, as (kind, body), without end; `after` continues after an event that you have."""
        headers = {} if after is None else {"last-event-id": str(after)}
        with self._reached(), self._http.stream("GET", "/v1/events", headers=headers, timeout=None) as answer:
            _refuse(answer)
            kind = ""
            for line in answer.iter_lines():
                name, _, value = line.partition(": ")
                if name == "event":
                    kind = value
                elif name == "data":
                    yield kind, json.loads(value)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _call(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        with self._reached():
            answer = self._http.request(method, path, json=body)
        _refuse(answer)
        told: dict[str, Any] = answer.json()
        return told

    @contextmanager
    def _reached(self) -> Iterator[None]:
        try:
            yield
        except httpx.TransportError as error:
            message = f"{self._http.base_url} does not respond ({error}); is `osamd serve` running there?"
            raise ServiceError(0, "unreachable", message) from error


def _refuse(answer: httpx.Response) -> None:
    if answer.is_success:
        return
    answer.read()
    try:
        said = answer.json()["error"]
    except (ValueError, KeyError, TypeError):
        said = {"code": "no-service", "message": "the response is not from osamd; is the address right?"}
    raise ServiceError(answer.status_code, said["code"], said["message"], said.get("where"))


def typed(row: Mapping[str, Any], schema: Mapping[str, Any], decimal: str = ".") -> dict[str, Any]:
    """A row of a table in the types of the schema: text from a CSV file becomes numbers, true or false, and columns
    that the service does not know are left out. `decimal` is the decimal mark of numbers in text.

    >>> columns = [{"name": "age", "kind": "numeric"}, {"name": "owner", "kind": "boolean"}]
    >>> typed({"age": "41", "owner": "True", "label": "yes"}, {"columns": columns, "ignored": []})
    {'age': 41.0, 'owner': True}
    """
    kinds = {column["name"]: column["kind"] for column in schema["columns"] or []}
    kinds |= dict.fromkeys(schema["ignored"], "categorical")
    return {name: _typed(value, kinds[name], decimal) for name, value in row.items() if name in kinds}


_BOOLEANS = {"true": True, "yes": True, "1": True, "1.0": True, "false": False, "no": False, "0": False, "0.0": False}


def _typed(value: Any, kind: str, decimal: str) -> Any:
    value = _number(value)
    if not isinstance(value, str):
        return value
    text = text_of(value)
    if text is None:
        return None
    if kind == "boolean":
        return _BOOLEANS.get(text.lower(), value)
    if kind == "numeric":
        try:
            return _number(float(numbers([text], decimal)[0]))
        except NotThis:
            return value  # the service says what is wrong with it
    return value


def _plain(features: Features) -> Any:
    """Rows of numpy and pandas as values for JSON."""
    if hasattr(features, "to_dict"):  # a row of pandas
        features = features.to_dict()
    if isinstance(features, Mapping):
        return {str(name): _number(value) for name, value in features.items()}
    if hasattr(features, "ravel"):
        features = features.ravel().tolist()
    return [_number(value) for value in features]


def _number(value: Any) -> Any:
    """A value for JSON: a missing value of any kind becomes null."""
    if hasattr(value, "item"):
        value = value.item()
    if (isinstance(value, float) and math.isnan(value)) or type(value).__name__ in ("NAType", "NaTType"):
        return None
    return value.isoformat() if hasattr(value, "isoformat") else value
