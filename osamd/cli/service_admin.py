"""`osamd change`, `osamd archive` and `osamd erase`: the commands of those who run a stream.

They talk to the running service, because only the service writes its log.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from osamd.cli.service_options import HERE, connected, require_service

ServiceUrl = Annotated[
    str, typer.Option("--url", help="The address of the service, with /NAME for one of many streams.")
]
AdminToken = Annotated[str | None, typer.Option("--token", envvar="OSAMD_TOKEN", help="A token with the role admin.")]
NONE = "none"
"""The value that removes a limit."""


def change(
    url: ServiceUrl = HERE,
    token: AdminToken = None,
    budget: Annotated[
        str | None,
        typer.Option(metavar="SHARE", help="From now on, ask for at most this share of the labels, as in 5%."),
    ] = None,
    budget_window: Annotated[
        str | None, typer.Option(metavar="ROUNDS|none", help="Keep the budget within every window of this many rounds.")
    ] = None,
    max_labels: Annotated[
        str | None,
        typer.Option(metavar="NUMBER|none", help="Ask for at most this many labels, counting those asked for so far."),
    ] = None,
    target_accuracy: Annotated[
        str | None, typer.Option(metavar="SHARE|none", help="Ask for no more labels than this accuracy needs.")
    ] = None,
    add_class: Annotated[str | None, typer.Option(metavar="NAME", help="Add a new class.")] = None,
    title: Annotated[str, typer.Option(help="With --add-class: the name that people see.")] = "",
    about: Annotated[str, typer.Option(help="With --add-class: when the class applies, for annotators.")] = "",
) -> None:
    """Change a stream while it is served: its budget, from the next round on, or its classes.

    Labels that were already asked for count towards --max-labels, but not towards --budget.

    Example: osamd change --budget 2% --url http://127.0.0.1:8000
    """
    require_service()
    from osamd.errors import InputError

    limits = _limits(budget, budget_window, max_labels, target_accuracy)
    if not limits and add_class is None:
        raise InputError("`change`: nothing to change; give --budget, --max-labels, --add-class or another option.")
    with connected(url, token) as client:
        if limits:
            client.change_budget(**limits)
            now = client.status()["budget"]
            listed = [] if now["rate"] is None else [f"{100 * now['rate']:g} % of the labels"]
            listed += [] if now["max_labels"] is None else [f"{now['max_labels']:,} labels in total"]
            print(f"The budget from round {now['since']:,} on: {' and '.join(listed) or 'no limit'}.")
            print(f"Labels asked for before: {now['asked_before']:,}.")
        if add_class is not None:
            numbers = all(isinstance(one["name"], int | float) for one in client.schema()["classes"])
            name = int(add_class) if numbers and add_class.lstrip("-").isdecimal() else add_class
            classes = client.add_class(name, title=title, about=about)
            print(f"The classes are {', '.join(map(str, classes))}.")


def archive(
    days: Annotated[float, typer.Option(min=0.0, help="Move events that are older than this many days.")],
    url: ServiceUrl = HERE,
    token: AdminToken = None,
) -> None:
    """Move old events of a running stream into a Parquet file in STATE/archive.

    The learner can still be rebuilt from the log, starting at its last snapshot. Pending queries stay in the log.

    Example: osamd archive --days 90
    """
    require_service()
    with connected(url, token) as client:
        done = client.archive(days)
    print(f"Moved {done['events']:,} events to archive/{done['file']}." if done["events"] else "No event is that old.")


def erase(
    id: Annotated[list[str] | None, typer.Option(help="The id of a sample; repeat the option for several.")] = None,
    round: Annotated[list[int] | None, typer.Option(help="Or the round of a sample.")] = None,
    labeller: Annotated[
        str | None, typer.Option(metavar="NAME", help="All answers that were signed with this token.")
    ] = None,
    url: ServiceUrl = HERE,
    token: AdminToken = None,
) -> None:
    """Erase a person's data for good: samples and what was shown of them, or all answers of an annotator.

    The log still counts the erased rounds, and the learner keeps what it has learned from them. Archives and backups
    are not touched; erase those files yourself.

    Example: osamd erase --id order-17 --id order-18
    """
    require_service()
    with connected(url, token) as client:
        done = client.erase(ids=id or (), rounds=round or (), labeller=labeller)
    print(f"Erased {done['samples']:,} samples and {done['answers']:,} answers.")


def _limits(budget: str | None, window: str | None, max_labels: str | None, target: str | None) -> dict[str, Any]:
    """The limits that were given; None stands for a limit to remove."""
    from osamd.prequential.runs import share

    limits: dict[str, Any] = {} if budget is None else {"budget": share(budget)}
    for name, given in (("budget_window", window), ("max_labels", max_labels)):
        if given is not None:
            limits[name] = None if given == NONE else _whole(name, given)
    if target is not None:
        limits["target_accuracy"] = None if target == NONE else share(target)
    return limits


def _whole(name: str, given: str) -> int:
    from osamd.errors import InputError

    if not given.isdecimal():
        raise InputError(f"`--{name.replace('_', '-')} {given}`: give a whole number, or none.")
    return int(given)
