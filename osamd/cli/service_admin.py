"""The commands of those who run a stream; they speak to the service that runs it, which alone writes its log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

Url = Annotated[str, typer.Option(help="Where the service is, with /NAME for one of many streams.")]
Token = Annotated[str | None, typer.Option(envvar="OSAMD_TOKEN", help="A token with the role admin.")]
HERE = "http://127.0.0.1:8000"
NONE = "none"
"""What takes a limit away."""


def change(
    url: Url = HERE,
    token: Token = None,
    budget: Annotated[
        str | None, typer.Option(metavar="SHARE", help="Ask for at most this share of the labels to come, as in 5%.")
    ] = None,
    budget_window: Annotated[
        str | None, typer.Option(metavar="ROUNDS|none", help="Keep it in any so many rounds on end.")
    ] = None,
    max_labels: Annotated[
        str | None,
        typer.Option(metavar="NUMBER|none", help="Ask for at most so many labels, all that were among them."),
    ] = None,
    target_accuracy: Annotated[
        str | None, typer.Option(metavar="SHARE|none", help="Ask for no more than keeps this accuracy.")
    ] = None,
    add_class: Annotated[
        str | None, typer.Option(metavar="NAME", help="Take in a class that was not there before.")
    ] = None,
    title: Annotated[str, typer.Option(help="With --add-class: what people call it.")] = "",
    about: Annotated[str, typer.Option(help="With --add-class: when it is right, for those who label.")] = "",
) -> None:
    """Change a stream while it is served: its budget from the next round on, or its classes.

    Labels that were spent before count for --max-labels, and not for --budget.

    Example: osamd change --budget 2% --url http://127.0.0.1:8000
    """
    require_service()
    from osamd.errors import InputError

    limits = _limits(budget, budget_window, max_labels, target_accuracy)
    if not limits and add_class is None:
        raise InputError("`change`: nothing is given; give --budget, --max-labels, --add-class or another option.")
    with _client(url, token) as client:
        if limits:
            client.change_budget(**limits)
            told = client.status()["budget"]
            rate = "no share" if told["rate"] is None else f"{100 * told['rate']:g} %"
            count = "" if told["max_labels"] is None else f", {told['max_labels']:,} labels in all"
            print(
                f"The budget is {rate}{count} from round {told['since']:,} on; {told['asked_before']:,} were asked for."
            )
        if add_class is not None:
            numbers = all(isinstance(one["name"], int | float) for one in client.schema()["classes"])
            name = int(add_class) if numbers and add_class.lstrip("-").isdecimal() else add_class
            classes = client.add_class(name, title=title, about=about)
            print(f"The classes are {', '.join(map(str, classes))}.")


def archive(
    days: Annotated[float, typer.Option(min=0.0, help="Move what is older than so many days.")],
    url: Url = HERE,
    token: Token = None,
) -> None:
    """Move old events of a stream that is served into a Parquet file in STATE/archive.

    The log goes on explaining the learner, from its last snapshot on. Queries that wait stay.

    Example: osamd archive --days 90
    """
    require_service()
    with _client(url, token) as client:
        told = client.archive(days)
    print(f"Moved {told['events']:,} events to archive/{told['file']}." if told["events"] else "Nothing is as old.")


def erase(
    id: Annotated[list[str] | None, typer.Option(help="The id of a sample; may be given again.")] = None,
    round: Annotated[list[int] | None, typer.Option(help="Or its round.")] = None,
    labeller: Annotated[
        str | None, typer.Option(metavar="NAME", help="All answers that were signed by this token.")
    ] = None,
    url: Url = HERE,
    token: Token = None,
) -> None:
    """Erase a person's data for good: samples with what was shown of them, or all answers of a labeller.

    That they were is kept, and what the learner has learned from them. Archives and backups are files of your own.

    Example: osamd erase --id order-17 --id order-18
    """
    require_service()
    with _client(url, token) as client:
        told = client.erase(ids=id or (), rounds=round or (), labeller=labeller)
    print(f"Erased {told['samples']:,} samples and {told['answers']:,} answers.")


def _limits(budget: str | None, window: str | None, max_labels: str | None, target: str | None) -> dict[str, Any]:
    """The limits that were given, None for those that are taken away."""
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


@contextmanager
def _client(url: str, token: str | None) -> Iterator[Any]:
    """The service at an address; what it refuses ends the command in a sentence."""
    from osamd.client import Client, ServiceError
    from osamd.errors import InputError

    with Client(url, token=token) as client:
        try:
            yield client
        except ServiceError as error:
            raise InputError(f"{url}: {error}") from error


def require_service() -> None:
    """See that what the service needs is installed."""
    from importlib.util import find_spec

    from osamd.errors import InputError

    needed = ("fastapi", "uvicorn", "httptools", "sqlalchemy", "prometheus_client", "httpx")
    missing = [name for name in needed if find_spec(name) is None]
    if missing:
        raise InputError(f"the service needs {missing[0]}: pip install 'osamd[service]'.")
