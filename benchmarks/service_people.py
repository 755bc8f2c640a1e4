"""The people of a service under load: those who send samples, those who answer queries, and what they know."""

from __future__ import annotations

import itertools
import random
import threading
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

FEATURES, CLASSES = 5, ["low", "middle", "high"]
FEW, MANY = 5, 60
"""The most samples of a small request, and of a large one."""
PATIENCE = 60.0
"""Seconds that one request may take."""


class Sent(NamedTuple):
    """A sample that was acknowledged: its decision as it was told."""

    features: bytes
    decision: dict[str, Any]


@dataclass
class Known:
    """What clients know: everything that was acknowledged, from all threads."""

    samples: dict[str, Sent] = field(default_factory=dict)
    nameless: dict[int, Sent] = field(default_factory=dict)
    """Samples without a client id, by their rounds."""
    labels: dict[int, str] = field(default_factory=dict)
    contradicted: int = 0
    """Answers that do not agree with one before."""
    requests: int = 0
    failures: list[BaseException] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def decided(self, samples: list[dict[str, Any]], decisions: list[dict[str, Any]]) -> None:
        with self.changed:
            for sample, decision in zip(samples, decisions, strict=True):
                sent = Sent(np.array(sample["features"]).tobytes(), decision)
                if "id" not in sample:
                    self.contradicted += decision["round"] in self.nameless
                    self.nameless[decision["round"]] = sent
                else:
                    self.contradicted += self.samples.setdefault(sample["id"], sent) != sent
            self._count()

    def labelled(self, label: str, outcome: dict[str, Any]) -> None:
        with self.changed:
            self.contradicted += self.labels.setdefault(outcome["round"], label) != label
            self._count()

    def _count(self) -> None:
        self.requests += 1
        self.changed.notify_all()

    def failed(self, error: BaseException) -> None:
        with self.changed:
            self.failures.append(error)
            self.changed.notify_all()

    def wait_for(self, requests: int) -> None:
        """Until so many requests were acknowledged."""
        with self.changed:
            while self.requests < requests and not self.failures:
                if not self.changed.wait(PATIENCE):
                    raise RuntimeError(f"the service has answered nobody for {PATIENCE:g} seconds.")


class Sender:
    """Sends samples, a few as JSON or many as Arrow; what was not answered is sent again first."""

    def __init__(self, name: str, seed: int, known: Known) -> None:
        self._name, self._known, self._rng = name, known, np.random.default_rng(seed)
        self._numbers = itertools.count()
        self._unanswered: list[dict[str, Any]] = []

    def step(self, client: Any) -> None:
        samples = self._unanswered or self._new()
        # One without an id cannot be sent again: whether it was counted is not known.
        self._unanswered = [sample for sample in samples if "id" in sample]
        decisions = _by_arrow(client, samples) if len(samples) > FEW else _by_json(client, samples)
        self._unanswered = []
        self._known.decided(samples, decisions)

    def _new(self) -> list[dict[str, Any]]:
        made = []
        for _ in range(self._rng.integers(1, 1 + (FEW if self._rng.random() < 0.8 else MANY))):
            sample: dict[str, Any] = {"features": self._rng.normal(size=FEATURES).tolist()}
            if self._rng.random() < 0.8:
                sample["id"] = f"{self._name}-{next(self._numbers)}"
            made.append(sample)
        return made


def _by_json(client: Any, samples: list[dict[str, Any]]) -> list[dict[str, Any]]:
    answer = client.post("/v1/samples", json={"samples": samples}).raise_for_status()
    told: list[dict[str, Any]] = answer.json()["decisions"]
    return told


def _by_arrow(client: Any, samples: list[dict[str, Any]]) -> list[dict[str, Any]]:
    import pyarrow as pa  # type: ignore[import-untyped]

    ids = pa.array([sample.get("id") for sample in samples], pa.string())
    table = pa.table({"id": ids, "features": [sample["features"] for sample in samples]})
    held = pa.BufferOutputStream()
    with pa.ipc.new_stream(held, table.schema) as stream:
        stream.write_table(table)
    kind = {"content-type": "application/vnd.apache.arrow.stream"}
    answer = client.post("/v1/samples/arrow", content=held.getvalue().to_pybytes(), headers=kind).raise_for_status()
    rows = pa.ipc.open_stream(answer.content).read_all().to_pylist()
    return [row | {"id": name} for row, name in zip(rows, ids.to_pylist(), strict=True)]


class Annotator:
    """Claims queries and answers them; an answer that was not acknowledged is given again first."""

    def __init__(self, name: str, seed: int, known: Known) -> None:
        self._name, self._known, self._rng = name, known, random.Random(seed)
        self._held: list[int] = []
        self._unanswered: dict[str, Any] | None = None

    def step(self, client: Any) -> None:
        if self._unanswered is None:
            if not self._held:
                found = client.post("/v1/queries/claim", json={"holder": self._name, "limit": 5}).raise_for_status()
                self._held = [query["round"] for query in found.json()["queries"]]
            if not self._held:
                return
            number = self._held.pop()
            if self._rng.random() < 0.1:
                _unless_expired(client.post(f"/v1/queries/{number}/skip", json={"holder": self._name}))
                return
            self._unanswered = {"round": number, "label": self._rng.choice(CLASSES)}
        outcome = _unless_expired(client.post("/v1/labels", json=self._unanswered))
        if outcome is not None:
            self._known.labelled(self._unanswered["label"], outcome)
        self._unanswered = None


def _unless_expired(answer: Any) -> dict[str, Any] | None:
    """The answer, where the query was not given up meanwhile for newer ones."""
    if answer.status_code == 409 and answer.json()["error"]["code"] == "expired":
        return None
    told: dict[str, Any] = answer.raise_for_status().json()
    return told
