"""The service under load on loopback: samples per second and how long an answer takes, with durable writes.

The server is a process of its own, as `osamd serve` starts it, on a linear model of 54 features with a budget of 5 %;
this process sends, over a few connections, bodies that were made before. Every answer is read and checked. Then the
service is killed again and again (`service_kills`), sent what nobody should send (`service_fuzz`), and kept busy by
strangers (`service_strangers`).
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from osamd.errors import InputError
from osamd.reporting.tables import Report, Table

FEATURES, BATCH, ARROW = 54, 100, 1000
BODIES = 50
"""Different ones, sent in turn."""

_SERVER = """
import sys
from pathlib import Path
from osamd.service.server import serve
from osamd.service.folder import open_state
serve(open_state(Path(sys.argv[1])), port=0, ready=lambda url: print(url, flush=True))
"""


class Load(NamedTuple):
    """One load, and what came of it."""

    name: str
    samples: int
    connections: int
    seconds: float
    requests_per_s: float
    samples_per_s: float
    p50_ms: float
    p99_ms: float
    failed: int
    server_cpu: float
    """Cores the server used."""


def report(seconds: float, kills: int, hostile: int) -> Report:
    """All of it."""
    with tempfile.TemporaryDirectory(prefix="osamd-bench-") as scratch:
        folder = Path(scratch)
        loads, size = _loads(folder, seconds)
        content: dict[str, Any] = {
            "features": FEATURES,
            "loads": [load._asdict() for load in loads],
            "bytes_per_sample": size,
            "cores": os.cpu_count(),
        }
        tables = [_load_table(loads, size)]
        if kills:
            from benchmarks.service_kills import kills as killed

            content["kills"] = killed(folder / "kills", kills, 0)
            tables.append(_counts("Killed with SIGKILL under load", content["kills"]))
        if hostile:
            content["hostile"] = _hostile(folder, hostile)
            tables.append(_counts("Malformed and hostile requests", content["hostile"]))
            from benchmarks.service_strangers import strangers

            content["strangers"] = strangers(folder / "strangers")
            tables.append(_counts("Strangers who hold connections", content["strangers"]))
    return Report(tables, content)


def _loads(folder: Path, seconds: float) -> tuple[list[Load], float]:
    made(folder / "load")
    process, port = started(folder / "load")
    try:
        batches = _load(f"batches of {BATCH}", BATCH, 4, seconds, port, process.pid)
        arrow = _load(f"Arrow, batches of {ARROW}", ARROW, 4, seconds, port, process.pid)
        single = _load("one sample a request", 1, 16, seconds / 2, port, process.pid)
    finally:
        process.terminate()
        process.wait()
    database = folder / "load" / "log.sqlite"
    loads = [batches, arrow, single]
    number = round(sum(load.samples_per_s * load.seconds for load in loads))
    return loads, database.stat().st_size / number


def made(folder: Path) -> None:
    """A service around a fitted linear model, with the paper's round."""
    from osamd.learner.linear import OSAMD
    from osamd.service.folder import create

    generator = np.random.default_rng(0)
    y = generator.integers(0, 2, 1000)
    x = generator.normal(size=(1000, FEATURES))
    x[:, 0] += 2.0 * y
    create(folder, OSAMD.from_source(x, y, method="osamd", budget=0.05), expire_after=10_000)


def started(folder: Path) -> tuple[subprocess.Popen[str], int]:
    """The server of a folder, taking requests, and its port."""
    process = subprocess.Popen([sys.executable, "-c", _SERVER, str(folder)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    said = process.stdout.readline()
    if not said:
        raise InputError("the service of the benchmark did not start; see above.")
    return process, int(said.strip().rsplit(":", 1)[1])


def _load(name: str, samples: int, connections: int, seconds: float, port: int, server: int) -> Load:
    bodies = _arrow_bodies(samples) if samples == ARROW else _bodies(samples)
    before, start = _cpu_seconds(server), time.perf_counter()
    took, failed = asyncio.run(_send(bodies, connections, seconds, port))
    elapsed = time.perf_counter() - start
    p50, p99 = np.quantile(took, [0.5, 0.99]).tolist()
    return Load(
        name,
        samples,
        connections,
        elapsed,
        len(took) / elapsed,
        samples * len(took) / elapsed,
        1e3 * p50,
        1e3 * p99,
        failed,
        (_cpu_seconds(server) - before) / elapsed,
    )


def _bodies(samples: int) -> list[bytes]:
    rows = np.random.default_rng(1).normal(size=(BODIES, samples, FEATURES))
    bodies = []
    for block in rows.tolist():
        given = [{"features": row} for row in block]
        body = json.dumps({"samples": given} if samples > 1 else given[0]).encode()
        head = "POST /v1/samples HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        bodies.append(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    return bodies


def _arrow_bodies(samples: int) -> list[bytes]:
    import pyarrow as pa  # type: ignore[import-untyped]

    rows = np.random.default_rng(1).normal(size=(BODIES // 5, samples * FEATURES))
    bodies = []
    for block in rows:
        table = pa.table({"features": pa.FixedSizeListArray.from_arrays(pa.array(block), FEATURES)})
        held = pa.BufferOutputStream()
        with pa.ipc.new_stream(held, table.schema) as stream:
            stream.write_table(table)
        body = held.getvalue().to_pybytes()
        head = "POST /v1/samples/arrow HTTP/1.1\r\nHost: localhost\r\n"
        head += f"Content-Type: application/vnd.apache.arrow.stream\r\nContent-Length: {len(body)}\r\n\r\n"
        bodies.append(head.encode() + body)
    return bodies


async def _send(bodies: list[bytes], connections: int, seconds: float, port: int) -> tuple[list[float], int]:
    took: list[float] = []
    failed = 0
    end = time.perf_counter() + seconds

    async def one(first: int) -> None:
        nonlocal failed
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**24)
        number = first
        while (start := time.perf_counter()) < end:
            writer.write(bodies[number % len(bodies)])
            number += 1
            head = await reader.readuntil(b"\r\n\r\n")
            length = head.lower().partition(b"content-length:")[2].partition(b"\r")[0]
            await reader.readexactly(int(length))
            took.append(time.perf_counter() - start)
            failed += not head.startswith(b"HTTP/1.1 200")
        writer.close()
        await writer.wait_closed()

    await asyncio.gather(*(one(7 * i) for i in range(connections)))
    return took, failed


def _cpu_seconds(process: int) -> float:
    """The processor time of a process so far, where the system tells it."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return float("nan")
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _hostile(folder: Path, number: int) -> dict[str, Any]:
    from benchmarks.service_fuzz import hostile_service

    made(folder / "hostile")
    return hostile_service(folder / "hostile", number, 0)


def _load_table(loads: list[Load], size: float) -> Table:
    rows = [
        (
            load.name,
            f"{load.connections}",
            f"{load.seconds:.0f}",
            f"{load.requests_per_s:,.0f}",
            f"{load.samples_per_s:,.0f}",
            f"{load.p50_ms:.1f}",
            f"{load.p99_ms:.1f}",
            f"{load.failed}",
            f"{load.server_cpu:.2f}",
        )
        for load in loads
    ]
    columns = ("POST /v1/samples", "connections", "s", "requests/s", "samples/s", "p50 ms", "p99 ms", "failed", "cores")
    title = f"Loopback, {FEATURES} features, SQLite with synchronous=FULL, {os.cpu_count()} cores for both sides"
    return Table(title, columns, rows, [f"The log takes {size:,.0f} bytes a sample."])


def _counts(title: str, counts: dict[str, Any]) -> Table:
    return Table(title, ("", ""), [(name.replace("_", " "), str(value)) for name, value in counts.items()])
