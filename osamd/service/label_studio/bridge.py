"""The bridge: each pass compares the pending queries with the tasks in Label Studio, and does what is missing.

- A query without a task gets one. A task carries the key of its query, so a bridge that was killed finds the tasks it
  has made.
- The first choice in a task becomes the answer, if its query is pending. An answered query is no longer pending, so
  nothing is passed on twice; the service, too, takes an answer only once.
- If that choice is changed later, the service records a correction, unless somebody has answered or corrected the query
  elsewhere.
- A task that nobody has answered is removed if its query is no longer pending; so is a second task of one query.

Most passes read only recent changes; now and then a pass reads all tasks, which repairs whatever was missed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from osamd.client import Client, ServiceError
from osamd.errors import InputError
from osamd.service.label_studio.studio import AnnotatedTask, LabelStudio, LabelStudioError, Project
from osamd.service.label_studio.tasks import NONE, config, key_of, kinds_in, kinds_of, task

MOST_QUERIES = 1000
"""The most queries that have a task at the same time: as many as the service lists."""
READ_ALL = 300.0
"""Seconds between two passes that read all tasks."""
OVERLAP = timedelta(seconds=60)
"""A change may become visible this much later than its date in Label Studio, if requests overlap."""
MOMENT = "%Y-%m-%dT%H:%M:%S.%fZ"
"""The only format of times that Label Studio accepts."""
LONGEST_WAIT = 60.0
"""Most seconds between two passes while one side does not respond."""
SIGNED = "label-studio-"
"""How answers are signed, before the number of the person in Label Studio."""
ENDED = ("answered", "expired", "not-asked", "unknown")
"""Refusals of an answer that came too late."""


class Done(NamedTuple):
    """What one pass did."""

    made: int = 0
    answered: int = 0
    late: int = 0
    """Answers to queries that had ended in the meantime."""
    removed: int = 0
    corrected: int = 0
    """Answers that were changed in Label Studio."""


class Bridge:
    """See the module. `project` is the title or the number of the project, by default the title of the stream;
    `predictions`: whether tasks carry the model's prediction."""

    def __init__(
        self, service: Client, studio: LabelStudio, project: str | None = None, predictions: bool = True
    ) -> None:
        self._service, self._studio, self._named, self._predictions = service, studio, project, predictions
        self._project: Project | None = None
        self._open: dict[str, int] = {}
        """The tasks that nobody has answered, as far as known, by their keys."""
        self._made: set[str] = set()
        """The keys of all tasks, as far as known."""
        self._followed: dict[str, str] = {}
        """The choices that were passed on, or found to be passed on, by the keys of their tasks."""
        self._since: str | None = None
        self._read_all_at = -READ_ALL

    def step(self) -> Done:
        """One pass. If it is interrupted, the next one reads everything again and continues."""
        try:
            return self._step()
        except (ServiceError, LabelStudioError):
            self._project, self._since, self._read_all_at = None, None, -READ_ALL
            raise

    def _step(self) -> Done:
        schema = self._service.schema()
        waiting = {key_of(query): query for query in self._service.queries(limit=MOST_QUERIES)}
        project = self._found(schema, list(waiting.values()))
        if project is None:
            return Done()
        kinds, completed = kinds_in(project.label_config, schema)
        if completed is not None:
            self._studio.set_config(project.id, completed)
            self._project = None  # read it again next time
        tasks, doubles = self._read(project)
        chosen = [one for one in tasks if one.choice is not None]
        answered, late = self._tell(schema, [one for one in chosen if one.key in waiting])
        corrected = self._follow(schema, [one for one in chosen if one.key not in waiting])
        missing = [query for key, query in waiting.items() if key not in self._made]
        made = [task(query, kinds, self._service.medium, self._predictions) for query in missing]
        self._studio.create_tasks(project.id, made)
        self._made |= {key_of(query) for query in missing}
        stale = [] if len(waiting) >= MOST_QUERIES else [key for key in self._open if key not in waiting]
        gone = [self._open[key] for key in stale] + doubles
        if gone:
            self._studio.remove_tasks(project.id, gone)
        for key in stale:
            del self._open[key]
        if tasks:
            last = max(datetime.fromisoformat(one.updated_at) for one in tasks)
            self._since = (last - OVERLAP).astimezone(UTC).strftime(MOMENT)
        return Done(len(missing), answered, late, len(gone), corrected)

    def _found(self, schema: dict[str, Any], queries: Sequence[Any]) -> Project | None:
        """The project, made where there is none once there are queries to show: they say what it must show."""
        if self._project is not None:
            return self._project
        title = self._named or schema["title"]
        if self._named and self._named.isdecimal():
            self._project = self._studio.project(int(self._named))
            return self._project
        found = self._studio.projects(title)
        if not found and queries:
            self._studio.create_project(
                title=title,
                description="Made by osamd; its tasks are the queries of a stream.",
                label_config=config(schema, kinds_of(queries), any(query["display"] for query in queries)),
                expert_instruction=schema["guidelines"],
                show_instruction=bool(schema["guidelines"]),
                show_collab_predictions=schema["show_guess"],
            )
            found = self._studio.projects(title)  # another bridge may have made one, too: the first one counts
        self._project = found[0] if found else None
        return self._project

    def _read(self, project: Project) -> tuple[list[AnnotatedTask], list[int]]:
        """The recently changed tasks, or all of them; and the unanswered second tasks of a query."""
        everything = time.monotonic() - self._read_all_at >= READ_ALL
        tasks = [one for one in self._studio.tasks(project.id, None if everything else self._since) if one.key]
        if everything:
            self._read_all_at, self._open, self._made = time.monotonic(), {}, set()
        doubles = []
        for one in tasks:
            self._made.add(one.key)
            if one.choice is not None:
                self._open.pop(one.key, None)
            elif self._open.setdefault(one.key, one.id) != one.id:
                doubles.append(one.id)
        return tasks, doubles

    def _tell(self, schema: dict[str, Any], tasks: Sequence[AnnotatedTask]) -> tuple[int, int]:
        """Pass on these answers, and return how many were accepted and how many came too late."""
        names = _class_names(schema)
        labels, taken, late = [], 0, 0
        for one in tasks:
            number, who = _round_in(one.key), f"{SIGNED}{one.by}"
            if one.choice == NONE:
                taken += self._none(number, who)
            elif one.choice in names:
                labels.append({"round": number, "label": names[one.choice], "holder": who})
        for start in range(0, len(labels), 100):
            for outcome in self._service.tell_many(labels[start : start + 100]):
                taken += outcome.get("status") == "learned"
                late += "error" in outcome
        return taken, late

    def _follow(self, schema: dict[str, Any], tasks: Sequence[AnnotatedTask]) -> int:
        """Correct the answers whose choice was changed after it was passed on, and return how many there were."""
        changed = [one for one in tasks if self._followed.get(one.key) != one.choice]
        if not changed:
            return 0
        names, corrected = _class_names(schema), 0
        answers = {answer["round"]: answer for answer in self._service.labels()}
        for one in changed:
            number, label = _round_in(one.key), names.get(str(one.choice))
            answer = answers.get(number)
            if answer is not None and label is not None and str(answer["label"]) != label and _is_ours(answer, one.key):
                self._service.correct(label, round=number, holder=f"{SIGNED}{one.by}")
                corrected += 1
            self._followed[one.key] = str(one.choice)
        return corrected

    def _none(self, number: int, who: str) -> bool:
        try:
            self._service.none(number, who)
        except ServiceError as error:
            if error.code in (*ENDED, "held"):  # somebody on the label page holds it: they decide
                return False
            raise
        return True


def _class_names(schema: dict[str, Any]) -> dict[str, str]:
    """The names of the classes by what a choice may say: the name, or in projects without aliases the title."""
    names = {one["title"]: str(one["name"]) for one in schema["classes"]}
    return names | {name: name for name in names.values()}


def _round_in(key: str) -> int:
    return int(key.partition("@")[0])


def _is_ours(answer: dict[str, Any], key: str) -> bool:
    """Whether the answer came from Label Studio, to the query with this key; another stream has rounds, too."""
    asked = round(1000 * datetime.fromisoformat(answer["asked_at"]).timestamp())
    signed = str(answer["who"]).rpartition("/")[2].startswith(SIGNED)
    return signed and abs(asked - int(key.partition("@")[2])) <= 1  # one of them is rounded, the other is cut off


def run(
    bridge: Bridge, wait: Callable[[float], bool], say: Callable[[str], None], every: float, once: bool = False
) -> None:
    """Make passes until `wait`, which waits for some seconds, returns False. If one side does not respond, its error is
    printed once and passes become less frequent; an error that waiting cannot fix ends the bridge."""
    pause, said = every, ""
    while True:
        try:
            done = bridge.step()
            pause, said = every, ""
            if any(done):
                say(told(done))
        except (ServiceError, LabelStudioError) as error:
            if once or not _passing(error):
                raise InputError(f"`label-studio`: {error}") from error
            if str(error) != said:
                said = str(error)
                say(f"{error} Trying again.")
            pause = min(2.0 * pause, LONGEST_WAIT)
        if once or not wait(pause):
            return


def told(done: Done) -> str:
    """What a pass did, in words.

    >>> told(Done(made=3, answered=1))
    '3 tasks made, 1 answers told'
    """
    parts = [f"{done.made} tasks made", f"{done.answered} answers told"]
    parts += [f"{done.corrected} answers corrected"] * bool(done.corrected)
    parts += [f"{done.late} answers came too late"] * bool(done.late)
    return ", ".join(parts + [f"{done.removed} tasks removed"] * bool(done.removed))


def _passing(error: ServiceError | LabelStudioError) -> bool:
    if isinstance(error, LabelStudioError):
        return error.passing
    return error.status in (0, 408, 409, 429) or error.status >= 500
