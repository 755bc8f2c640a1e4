"""What the commands of the service share: options, and how their values are read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

HERE = "http://127.0.0.1:8000"
"""The address of a service on this machine."""

StateFolder = Annotated[Path, typer.Argument(metavar="STATE", help="The folder of the service.")]
DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        "--database",
        metavar="URL",
        envvar="OSAMD_DATABASE",
        help="postgresql://USER:PASSWORD@HOST/NAME; the default is SQLite in STATE. Set OSAMD_DATABASE to keep the"
        " password off the command line.",
    ),
]
MaxLabels = Annotated[int | None, typer.Option(min=1, help="Ask for at most this many labels in total.")]
BudgetWindow = Annotated[
    int | None, typer.Option(min=1, help="Keep --budget within every window of this many rounds, too.")
]
StudentRate = Annotated[
    float | None, typer.Option("--eta", help="For the paper's methods: the step size of the student.")
]
QueryScale = Annotated[
    float | None,
    typer.Option(
        "--sigma", help="For the paper's methods: a larger value asks for more labels; a budget steers it from there."
    ),
]


def learner_settings(
    budget: str | None, budget_window: int | None, max_labels: int | None, **others: Any
) -> dict[str, Any]:
    """The settings of a learner that were given; options that were left out are absent."""
    from osamd.prequential.runs import share

    settings = {
        "budget": None if budget is None else share(budget),
        "budget_window": budget_window,
        "max_labels": max_labels,
        **others,
    }
    return {name: value for name, value in settings.items() if value is not None}


@contextmanager
def connected(url: str, token: str | None) -> Iterator[Any]:
    """A client of the service at `url`; if the service refuses a request, the command ends with one sentence."""
    from osamd.client import Client, ServiceError
    from osamd.errors import InputError

    with Client(url, token=token) as client:
        try:
            yield client
        except ServiceError as error:
            raise InputError(f"{url}: {error}") from error


def require_service() -> None:
    """Check that the packages of the service are installed."""
    from importlib.util import find_spec

    from osamd.errors import InputError

    needed = ("fastapi", "uvicorn", "httptools", "sqlalchemy", "prometheus_client", "httpx")
    missing = [name for name in needed if find_spec(name) is None]
    if missing:
        raise InputError(f"the service needs {missing[0]}: pip install 'osamd[service]'.")
