"""The webhook of the alarm: JSON is posted to an address when the health becomes alarm, and when the alarm is over.

A separate thread checks the health after commits, at most once per second, so neither the engine nor a request waits
for the address. The last state that was posted is kept in a file, so a restart repeats nothing. If the address does not
respond, the thread tries again until it does; an alarm that is over by then is not posted.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from osamd import __version__
from osamd.errors import InputError
from osamd.service.desk import Refusal

LOOK_EVERY = 1.0
"""Least seconds between two checks of the health."""
TIMEOUT = 10.0
"""Seconds to wait for a response."""
FIRST_RETRY, LONGEST_RETRY = 1.0, 60.0
"""Seconds between two attempts: doubled each time, up to the longest."""


class Alarm:
    """Posts every change between alarm and no alarm to `url`; `status` returns /v1/status, `kept` is the file."""

    def __init__(
        self, url: str, stream: str, kept: Path, status: Callable[[], dict[str, Any]], look_every: float = LOOK_EVERY
    ) -> None:
        self._url, self._stream, self._kept, self._status, self._look_every = url, stream, kept, status, look_every
        self._place = checked(url)
        self._changed, self._ending = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._watch, name="osamd-alarm", daemon=True)
        self._told = _read(kept)
        self.pending = False
        """Whether a change waits to be posted."""
        self.failures = 0
        """The number of failed attempts since the start."""

    def start(self) -> None:
        self._changed.set()  # it may have changed before a crash
        self._thread.start()

    def stop(self) -> None:
        """Stop, without waiting for an address that does not respond."""
        self._ending.set()
        self._changed.set()
        if self._thread.is_alive():
            self._thread.join(1.0)

    def look(self) -> None:
        """Note that something was committed. It may be called from any thread, and returns at once."""
        self._changed.set()

    def _watch(self) -> None:
        retry = FIRST_RETRY
        with httpx.Client(timeout=TIMEOUT, headers={"user-agent": f"osamd/{__version__}"}) as http:
            while not self._ending.is_set():
                self._changed.wait()
                self._changed.clear()
                pause = self._look_every  # commits within it are checked together
                try:
                    status = self._status()
                except Refusal:
                    continue  # the log cannot be read now; the next commit checks again
                self.pending = (status["health"]["state"] == "alarm") != self._told
                if self.pending and not self._ending.is_set():
                    if self._deliver(http, status):
                        retry = FIRST_RETRY
                    else:
                        pause, retry = retry, min(2.0 * retry, LONGEST_RETRY)
                        self._changed.set()
                self._ending.wait(pause)

    def _deliver(self, http: httpx.Client, status: dict[str, Any]) -> bool:
        alarm = not self._told
        try:
            answer = http.post(self._url, json=message(alarm, self._stream, status))
            why = "" if answer.is_success else f"it answers {answer.status_code}"
        except httpx.HTTPError as error:
            why = str(error) or type(error).__name__
        if why:
            self.failures += 1
            if self.failures & (self.failures - 1) == 0:  # the 1st, 2nd, 4th, 8th, ...
                logging.getLogger("osamd.service").error("the alarm could not be posted to %s: %s", self._place, why)
            return False
        self._told, self.pending = alarm, False
        try:
            _keep(self._kept, alarm)
        except OSError as error:
            logging.getLogger("osamd.service").error("the state of the alarm cannot be saved: %s", error)
        return True


def message(alarm: bool, stream: str, status: dict[str, Any]) -> dict[str, Any]:
    """The JSON that is posted."""
    health = status["health"]
    return {
        "event": "alarm" if alarm else "alarm-over",
        "stream": stream,
        "health": {name: health[name] for name in ("state", "why", "remedy")},
        "rounds": status["rounds"],
        "pending": status["pending"],
        "recent": {name: status["recent"][name] for name in ("value", "low", "high", "level", "labels")},
        "version": __version__,
    }


def checked(url: str) -> str:
    """The host of the address, for log messages; the rest of the address may be a secret."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InputError(
            f"`checked(alarm_webhook={url[:40]!r})`: give an address such as https://hooks.example.org/osamd."
        )
    return parts.hostname


def _keep(kept: Path, alarm: bool) -> None:
    beside = kept.with_name(f"{kept.name}.new")
    beside.touch(0o600)
    beside.write_text(json.dumps({"alarm": alarm}))
    beside.replace(kept)


def _read(kept: Path) -> bool:
    try:
        return bool(json.loads(kept.read_bytes())["alarm"])
    except (OSError, ValueError, KeyError, TypeError):
        return False
