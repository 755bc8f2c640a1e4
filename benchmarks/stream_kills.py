"""Three streams in one service, two of them networks, killed again and again, with another number of cores each time.

People send samples and answers to every stream, and an admin changes budgets meanwhile. After so many answers in one of
the streams the process is killed; the next one runs on one core, or on all. In the end the log of every stream is
examined as in `benchmarks.service_kills`: nothing lost, nothing twice, and its fold equal to what was served.

`make kills` does it sixty times on SQLite and on PostgreSQL.
"""

from __future__ import annotations

import os
import random
import sys
import threading
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.service_kills import EARLY, SNAPSHOT_EVERY, Server, examined
from benchmarks.service_people import CLASSES, FEATURES, PATIENCE, Annotator, Known, Sender

STREAMS = ("table", "network", "papers-network")
MOST_ACKNOWLEDGED = 150
"""Requests to one stream between two kills; how many is drawn."""
CHANGED = 0.02
"""How often an admin's turn changes the budget."""


class Admin:
    """Changes the budget now and then; an answer that was lost is not asked for again."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)

    def step(self, client: Any) -> None:
        if self._rng.random() < CHANGED:
            client.post("/v1/budget", json={"budget": self._rng.choice((0.3, 0.5, 0.7))}).raise_for_status()
        else:
            client.get("/v1/status").raise_for_status()


class KilledStream(NamedTuple):
    """One of the streams, with those who use it and what they know."""

    name: str
    state: Any
    known: Known
    people: list[Any]


def network() -> Any:
    """The module of the two networks, as a service imports it by its name."""
    import torch
    from torch import nn

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(FEATURES, 16), nn.ReLU(), nn.Linear(16, len(CLASSES)))


def made(root: Path, seed: int) -> list[KilledStream]:
    """The streams, each in its folder."""
    from osamd.learner.linear import OSAMD
    from osamd.learner.network import NetworkOSAMD
    from osamd.service.folder import create
    from osamd.service.inferred_schema import of_learner

    schema = of_learner(CLASSES, FEATURES, "kills")
    module = f"{__spec__.name}:{network.__name__}" if __name__ != "__main__" else "benchmarks.stream_kills:network"
    learners: dict[str, Any] = {
        "table": OSAMD(features=FEATURES, classes=CLASSES, budget=0.5, seed=seed),
        "network": NetworkOSAMD(network(), classes=CLASSES, budget=0.5, seed=seed),
        "papers-network": NetworkOSAMD(network(), classes=CLASSES, eta=0.02, sigma=0.5, budget=0.5, seed=seed),
    }
    streams = []
    for place, (name, learner) in enumerate(learners.items()):
        own: dict[str, Any] = {} if name == "table" else {"module": module}
        state = create(root / name, learner, schema=schema, max_pending=200, **own)
        known = Known()
        people: list[Any] = [Sender(f"sender{i}", 1000 * seed + 10 * place + i, known) for i in range(2)]
        people += [Annotator("person", 2000 * seed + place, known), Admin(3000 * seed + place)]
        streams.append(KilledStream(name, state, known, people))
    return streams


class OnCores(Server):
    """The service of all streams, on so many cores."""

    def __init__(self, root: Path, database: str | None, cores: int) -> None:
        self._cores = cores
        super().__init__(root, database)

    def command(self, folder: Path, database: str | None) -> list[str]:
        given = [str(folder), str(self._cores), *([] if database is None else [database])]
        return [sys.executable, "-m", "benchmarks.stream_kills", *given]


def kills(root: Path, number: int, seed: int, database: str | None = None) -> dict[str, dict[str, Any]]:
    """Kill the service of three streams so many times; what the log of each came to, by its name."""
    import httpx

    from osamd.service.streams import schema_of

    root.mkdir(parents=True, exist_ok=True)
    streams, rng = made(root, seed), random.Random(seed)
    most = len(os.sched_getaffinity(0))
    for i in range(number):
        server = OnCores(root, database, 1 if i % 2 else most)
        try:
            if rng.random() >= EARLY:
                _under_load(server, streams, rng)
        finally:
            server.kill()
    found, statuses = {}, {}
    server = OnCores(root, database, 1)
    try:
        address = server.address()
        for stream in streams:
            with httpx.Client(base_url=f"{address}/{stream.name}", timeout=PATIENCE) as client:
                for one in stream.people:
                    one.step(client)
                statuses[stream.name] = client.get("/v1/status").raise_for_status().json()
    finally:
        server.stop()
    for stream in streams:
        own = None if database is None else schema_of(database, stream.name)
        found[stream.name] = {"kills": number} | examined(stream.state, own, stream.known, statuses[stream.name])
    return found


def _under_load(server: Server, streams: list[KilledStream], rng: random.Random) -> None:
    """Let everybody work until one of the streams, which is drawn, has acknowledged enough; kill the server then."""
    import httpx

    address, until = server.address(), rng.choice(streams)

    def work(stream: KilledStream, one: Any) -> None:
        with httpx.Client(base_url=f"{address}/{stream.name}", timeout=PATIENCE) as client:
            try:
                while True:
                    one.step(client)
            except httpx.TransportError:  # the server was killed
                return
            except BaseException as error:
                until.known.failed(error)

    threads = [threading.Thread(target=work, args=(stream, one)) for stream in streams for one in stream.people]
    for thread in threads:
        thread.start()
    try:
        until.known.wait_for(until.known.requests + rng.randint(1, MOST_ACKNOWLEDGED))
    finally:
        server.kill()
        for thread in threads:
            thread.join()
    if until.known.failures:
        raise until.known.failures[0]


def _serve(root: str, cores: str, database: str | None = None) -> None:
    """Serve all streams on the first so many cores, as `taskset` would have it."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(cores)])
    from osamd.service import engine
    from osamd.service.server import serve_streams

    engine.SNAPSHOT_EVERY = SNAPSHOT_EVERY
    serve_streams(
        Path(root),
        host="127.0.0.1",
        port=0,
        database=database,
        secure_cookie=False,
        ready=lambda at: print(at, flush=True),
    )


if __name__ == "__main__":
    _serve(*sys.argv[1:])
