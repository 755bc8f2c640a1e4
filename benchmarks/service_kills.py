"""What a service has acknowledged outlives kill -9: a server under load, killed again and again, and its log examined.

Several threads send samples and labels. The server is killed after a number of acknowledgements that is drawn anew each
time, sometimes while it still starts, and started again; a request that was not answered is sent once more, as a client
with ids of its own does. In the end the log is read from its first event.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.service_people import CLASSES, FEATURES, PATIENCE, Annotator, Known, Sender, Sent
from osamd.errors import InputError

SENDERS, ANNOTATORS = 2, 3
SNAPSHOT_EVERY = 400
"""Events: so few that snapshots come between kills."""
MOST_ACKNOWLEDGED = 150
"""Requests between two kills; how many is drawn."""
EARLY = 0.15
"""The share of kills that hit a server that still starts."""


class Server:
    """A service in a process of its own."""

    def __init__(self, folder: Path, database: str | None) -> None:
        command = self.command(folder, database)
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)

    def command(self, folder: Path, database: str | None) -> list[str]:
        """What starts it."""
        return [sys.executable, "-m", __spec__.name, str(folder), *([] if database is None else [database])]

    def address(self) -> str:
        """Once it takes requests."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise InputError(f"the service did not start (exit {self._process.wait()}); see above.")
        return line.strip()

    def kill(self) -> None:
        self._process.kill()
        self._end()

    def stop(self) -> None:
        """As `systemctl stop` does it."""
        self._process.terminate()
        self._end()

    def _end(self) -> None:
        self._process.wait()
        for pipe in (self._process.stdout, self._process.stdin):
            if pipe is not None:
                pipe.close()


def kills(folder: Path, number: int, seed: int, database: str | None = None) -> dict[str, Any]:
    """Kill a service so many times; counts of what was acknowledged, lost and duplicated, and whether the log replays.

    `folder` gets the service, whose log is there in SQLite, or in `database`, which must be empty.
    """
    import httpx

    from osamd.learner.linear import OSAMD
    from osamd.service.folder import create

    learner = OSAMD(features=FEATURES, classes=CLASSES, method="osamd", sigma=1.0, standardise=True, seed=seed)
    state = create(folder, learner, max_pending=200)
    rng, known = random.Random(seed), Known()
    people: list[Sender | Annotator] = [Sender(f"sender{i}", 100 * seed + i, known) for i in range(SENDERS)]
    people += [Annotator(f"person{i}", 200 * seed + i, known) for i in range(ANNOTATORS)]
    early = 0
    for _ in range(number):
        server = Server(folder, database)
        try:
            if rng.random() < EARLY:
                early += 1
                continue
            _under_load(server, people, known, rng.randint(1, MOST_ACKNOWLEDGED))
        finally:
            server.kill()
    server = Server(folder, database)
    try:
        with httpx.Client(base_url=server.address(), timeout=PATIENCE) as client:
            for one in people:  # what was under way at the last kill
                one.step(client)
            status = client.get("/v1/status").raise_for_status().json()
    finally:
        server.stop()
    return {"kills": number, "while_starting": early} | examined(state, database, known, status)


def _under_load(server: Server, people: list[Sender | Annotator], known: Known, requests: int) -> None:
    """Let all of them work until so many more requests were acknowledged, and kill the server then."""
    import httpx

    address = server.address()

    def work(one: Sender | Annotator) -> None:
        with httpx.Client(base_url=address, timeout=PATIENCE) as client:
            try:
                while True:
                    one.step(client)
            except httpx.TransportError:  # the server was killed
                return
            except BaseException as error:
                known.failed(error)

    threads = [threading.Thread(target=work, args=(one,)) for one in people]
    for thread in threads:
        thread.start()
    try:
        known.wait_for(known.requests + requests)
    finally:
        server.kill()
        for thread in threads:
            thread.join()
    if known.failures:
        raise known.failures[0]


def examined(state: Any, database: str | None, known: Known, status: dict[str, Any]) -> dict[str, Any]:
    """The log against what was acknowledged, and its fold against what was served last."""
    from osamd.service.fold import Fold
    from osamd.service.server import open_log

    log = open_log(state, database)
    try:
        events, kept = list(log.all_since(0)), log.snapshot()
    finally:
        log.close()
    samples = [event for event in events if event.kind == "sample"]
    ended = [event for event in events if event.kind in ("label", "expire")]
    by_id = {event.client_id: event for event in samples if event.client_id is not None}
    by_round = {event.round: event for event in samples}
    labels = {event.round: CLASSES[event.label or 0] for event in ended if event.kind == "label"}
    lost = sum(not _recorded(by_id.get(name), sent) for name, sent in known.samples.items())
    lost += sum(not _recorded(by_round.get(number), sent) for number, sent in known.nameless.items())
    lost += sum(labels.get(number) != label for number, label in known.labels.items())
    twice = Counter(event.client_id for event in samples if event.client_id is not None)
    twice.update(str(event.round) for event in ended)
    fold = Fold(state, None)
    for event in events:
        fold.repeat(event)
    told = fold.learner
    served = {"rounds": told.rounds, "asked": told.asked, "told": told.told, "expired": told.expired, "seq": fold.seq}
    equal = kept is not None and content_of(kept.learner) == content_of(told.to_bytes()) and kept.seq == fold.seq
    return {
        "acknowledged_samples": len(known.samples) + len(known.nameless),
        "acknowledged_labels": len(known.labels),
        "events": len(events),
        "lost": lost,
        "duplicated": known.contradicted + sum(count - 1 for count in twice.values()),
        "consecutive": [event.round for event in samples] == list(range(len(samples)))
        and [event.seq for event in events] == list(range(1, len(events) + 1)),
        "replay_equal": equal and served == {name: status[name] for name in served},
    }


def content_of(data: bytes) -> Any:
    """All that a saved learner is, to the last bit; the file itself may name its parts in another order."""
    from osamd.learner import saving

    arrays, content = saving.unpacked(data, "a learner")
    told = {name: (str(array.dtype), array.shape, array.tobytes()) for name, array in arrays.items()}
    return told, json.dumps(content, sort_keys=True)


def _recorded(event: Any, sent: Sent) -> bool:
    """Whether the log has the sample, with the decision that was told."""
    told = sent.decision
    return event is not None and (
        (event.features, event.round, event.client_id, event.margin, event.query, CLASSES[event.decision])
        == (sent.features, told["round"], told["id"], told["margin"], told["query"], told["label"])
    )


def _serve(folder: str, database: str | None = None) -> None:
    from osamd.service import engine
    from osamd.service.folder import open_state
    from osamd.service.server import serve

    engine.SNAPSHOT_EVERY = SNAPSHOT_EVERY
    serve(open_state(Path(folder)), port=0, database=database, ready=lambda address: print(address, flush=True))


if __name__ == "__main__":
    _serve(*sys.argv[1:])
