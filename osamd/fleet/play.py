"""Play a fleet over its streams, in chunks: progress, checkpoints, and members that stop."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from osamd.errors import InputError
from osamd.fleet.engines import engine
from osamd.fleet.fleet import COLUMNS, Playing, Samples, Stopped

SECONDS_A_CHUNK = 1.0
SECONDS_A_CHECKPOINT = 30.0


class FleetRun(NamedTuple):
    """The result: the record (rounds x models x COLUMNS, on the CPU), the members that stopped, the engine and the
    time."""

    record: Tensor
    stopped: list[Stopped]
    engine: str
    rounds: int
    """The rounds played now; a checkpoint may have held others."""
    seconds: float
    """The time to play them, without set-up, compilation or checkpoints."""


def play(
    fleet: Playing,
    samples: Samples,
    *,
    checkpoint: Path | None = None,
    identity: str = "",
    progress: Callable[[int], None] | None = None,
) -> FleetRun:
    """Play all rounds of the samples, or the remaining ones if a checkpoint of the same `identity` is found.

    `checkpoint` is a folder that is written every half minute; a resumed run gives the same result as an uninterrupted
    one. `progress` is called with the number of rounds done.
    """
    samples = checked(fleet, samples).to(fleet.device)
    rounds = samples.y.shape[1]
    record = fleet.record(rounds)
    kept = None if checkpoint is None else Checkpoint(checkpoint, identity, fleet, rounds)
    t = begun = 0 if kept is None else kept.restore(fleet, record)
    name, advance = engine(fleet, samples, record)
    report = progress or (lambda done: None)
    seconds, chunk, saved = 0.0, 1, time.monotonic()
    report(t)
    while t < rounds:
        last = min(rounds, t + chunk)
        started = time.perf_counter()
        advance(t, last)
        took = time.perf_counter() - started
        seconds += took
        # One round first, then longer chunks, up to about a second: the results do not depend on them.
        chunk = max(1, int(min(4 * chunk, (last - t) * SECONDS_A_CHUNK / max(took, 1e-6))))
        t = last
        report(t)
        if kept is not None and time.monotonic() - saved > SECONDS_A_CHECKPOINT and t < rounds:
            kept.save(fleet, record, t)
            saved = time.monotonic()
    return FleetRun(record.cpu(), fleet.stopped(record), name, rounds - begun, seconds)


def checked(fleet: Playing, samples: Samples) -> Samples:
    """The samples with the fleet's dtype, if they fit it: engines do not check them again."""
    x, y, u = samples
    rounds = y.shape[1] if y.ndim == 2 else 0
    classes = fleet.classes
    rules = (
        (x.ndim >= 2 and x.shape[1:] == (rounds, *fleet.sample), f"x must be (streams, {rounds}, {fleet.sample})"),
        (y.ndim == 2 and len(y) == len(x), "y must be (streams, rounds)"),
        (u.ndim == 2 and u.shape[1] == rounds, f"u must be (seeds, {rounds})"),
        (all(0 <= m.stream < len(x) for m in fleet.members), f"a member's stream is not one of the {len(x)}"),
        (all(0 <= m.seed < len(u) for m in fleet.members), f"a member's seed is not one of the {len(u)}"),
        (
            rounds > 0 and bool(((y >= 0) & (y < classes)).all()),
            f"labels must be class indices from 0 to {classes - 1}",
        ),
    )
    for holds, rule in rules:
        if not holds:
            raise InputError(f"`play(samples=...)`: {rule}.")
    return Samples(x.to(fleet.dtype), y, u.double())


class Checkpoint:
    """A folder with the rounds recorded so far and the state after them, which is replaced in one step."""

    def __init__(self, folder: Path, identity: str, fleet: Playing, rounds: int) -> None:
        self.folder, self.identity = folder, identity
        self.shape = (rounds, len(fleet), len(COLUMNS))
        self.dtype = np.float32 if fleet.dtype == torch.float32 else np.float64
        self._written = 0

    def save(self, fleet: Playing, record: Tensor, t: int) -> None:
        """Write the record first, then the state, which says how many of its rounds are valid."""
        from safetensors.torch import save_file

        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if not self._written:  # the state of another run must not vouch for this record
                (self.folder / "state.safetensors").unlink(missing_ok=True)
            rows = self._rows("r+" if self._written else "w+")
            rows[self._written : t] = record[self._written : t].cpu().numpy()
            rows.flush()
            self._written = t
            tensors = {name: tensor.contiguous() for name, tensor in fleet.kept().items()}
            partial = self.folder / "state.partial"
            save_file(tensors, partial, {"identity": self.identity, "round": str(t), "shape": json.dumps(self.shape)})
            with open(partial, "rb") as written:
                os.fsync(written.fileno())
            os.replace(partial, self.folder / "state.safetensors")
        except OSError as error:
            why = error.strerror or error
            raise InputError(f"cannot write the checkpoint {self.folder} ({why}); make room there.") from error

    def restore(self, fleet: Playing, record: Tensor) -> int:
        """Restore the fleet from the checkpoint, and return how many rounds were done: 0 if there is no checkpoint."""
        state = self.folder / "state.safetensors"
        if not state.exists():
            return 0
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(state, "pt") as found:
                about = found.metadata() or {}
                if about.get("identity") != self.identity or about.get("shape") != json.dumps(self.shape):
                    return 0
                kept = {name: list(tensor.shape) for name, tensor in fleet.kept().items()}
                if {name: found.get_slice(name).get_shape() for name in found.keys()} != kept:  # noqa: SIM118
                    return 0  # another version wrote it
                t = int(about["round"])
                record[:t] = torch.from_numpy(np.array(self._rows("r")[:t])).to(record)
                for name, tensor in fleet.kept().items():
                    tensor.copy_(found.get_tensor(name))
        except (SafetensorError, OSError, ValueError, KeyError) as error:
            raise InputError(f"the checkpoint {self.folder} cannot be read ({error}); delete that folder.") from error
        self._written = t
        return t

    def _rows(self, mode: Literal["r", "r+", "w+"]) -> np.memmap[Any, Any]:
        return np.memmap(self.folder / "record.bin", dtype=self.dtype, mode=mode, shape=self.shape)
