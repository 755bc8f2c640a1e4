"""`osamd replay`: the recorded stream under other settings."""

from __future__ import annotations

from typing import Annotated

import typer

from osamd.cli.service_options import (
    BudgetWindow,
    DatabaseUrl,
    MaxLabels,
    QueryScale,
    StateFolder,
    StudentRate,
    learner_settings,
    require_service,
)


def replay(
    state: StateFolder,
    sigma: QueryScale = None,
    budget: Annotated[
        str | None, typer.Option(metavar="SHARE", help="Ask for at most this share of the labels, as in 5%.")
    ] = None,
    budget_window: BudgetWindow = None,
    max_labels: MaxLabels = None,
    method: Annotated[str | None, typer.Option(metavar="NAME", help="Another method.")] = None,
    eta: StudentRate = None,
    database: DatabaseUrl = None,
) -> None:
    """Play the recorded stream again under other settings, to see what would have happened.

    Labels arrive when they arrived in the log; a query that was not asked at the time has no label. The accuracy is
    estimated from the recorded labels in both cases, so the two estimates are comparable.

    Example: osamd replay shop --budget 2%
    """
    require_service()
    from osamd.service.replay import show_replay

    settings = learner_settings(budget, budget_window, max_labels, method=method, eta=eta, sigma=sigma)
    show_replay(state, database, settings)
