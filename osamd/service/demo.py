"""The stream of the demo: rings and crosses that slowly circle around the image.

A fixed linear model of the pixels is right at first, and can only guess once the shapes have moved away. A simulated
person answers the queries after a few seconds, so that you have time to answer some yourself.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from osamd.client import Client, ServiceError
from osamd.numerics import Array
from osamd.service.folder import ServiceState, create
from osamd.service.schema import Image, NamedClass, Schema

SIZE = 16
"""Pixels per side."""
ORBIT = 4.0
"""Pixels between the shapes and the middle of the image."""
CLASSES = ("ring", "cross")
TURN = 20_000
"""Rounds per full circle."""
PATIENCE = 2.5
"""Seconds that a query waits before the simulated person answers it."""
BATCH = 5
BETWEEN = 0.1
"""Seconds between two batches: fifty samples per second."""


def image(kind: int, angle: float, generator: np.random.Generator) -> Array:
    """A ring (0) or a cross (1), white on black; it has moved clockwise by this angle from the top."""
    middle = (SIZE - 1) / 2 + ORBIT * np.array([-math.cos(angle), math.sin(angle)])
    places: Array = np.mgrid[:SIZE, :SIZE] - (middle + generator.uniform(-0.5, 0.5, size=2))[:, None, None]
    down, right = np.abs(places)
    if kind == 0:
        distance = np.abs(np.hypot(down, right) - 2.8)
    else:
        distance = np.abs(down - right) / math.sqrt(2.0) + np.maximum(0.0, np.maximum(down, right) - 2.5)
    shown = np.clip(1.4 - distance, 0.0, 1.0) + generator.normal(scale=0.15, size=distance.shape)
    pixels: Array = np.clip(shown, 0.0, 1.0).ravel()
    return pixels


def samples(count: int, first: int, generator: np.random.Generator) -> tuple[Array, list[int]]:
    """Rows of pixels and their classes, starting at this round of the stream."""
    kinds = generator.integers(0, 2, count).tolist()
    rows = [image(kind, 2 * math.pi * (first + i) / TURN, generator) for i, kind in enumerate(kinds)]
    return np.array(rows), kinds


def demo_state(folder: Path, seed: int = 0) -> ServiceState:
    """The service of the demo: a linear model, trained at the start of the circle, with a budget of 5 %."""
    from osamd.learner.linear import OSAMD

    rows, kinds = samples(300, 0, np.random.default_rng([seed, 1]))
    labels = [CLASSES[kind] for kind in kinds]
    learner = OSAMD.from_source(rows, labels, classes=CLASSES, budget=0.05, seed=seed)
    schema = Schema(
        title="Ring or cross",
        image=Image(height=SIZE, width=SIZE),
        classes=[NamedClass(name="ring", title="Ring"), NamedClass(name="cross", title="Cross")],
    )
    return create(folder, learner, schema=schema)


class Feeder:
    """Sends the stream to a service, and answers its queries after a while, until it is stopped."""

    def __init__(self, url: str, seed: int = 0, told: Callable[[str], None] = print) -> None:
        self._url, self._generator, self._told = url, np.random.default_rng([seed, 2]), told
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="osamd-demo", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        truth: dict[int, str] = {}
        with Client(self._url) as service:
            first = 0
            while not self._stopping.wait(BETWEEN):
                rows, kinds = samples(BATCH, first, self._generator)
                first += BATCH
                try:
                    for kind, decision in zip(kinds, service.decide_many(list(rows)), strict=True):
                        if decision["query"]:
                            truth[decision["round"]] = CLASSES[kind]
                    self._answer(service, truth)
                except ServiceError as error:
                    if error.code == "unreachable":  # the service has stopped
                        return
                    self._told(f"demo: {error}")

    def _answer(self, service: Client, truth: dict[int, str]) -> None:
        for query in service.queries(limit=100):
            late = time.time() - query["asked_at"] > PATIENCE
            if late and not query["held"] and query["round"] in truth:
                service.tell(truth.pop(query["round"]), round=query["round"])
