"""`osamd init`: make the folder of a service."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from osamd.cli.options import Decimal, Encoding, Keep, names
from osamd.cli.service_options import (
    BudgetWindow,
    MaxLabels,
    QueryScale,
    StateFolder,
    StudentRate,
    learner_settings,
    require_service,
)

Names = list[str] | None


def init(
    state: StateFolder,
    source: Annotated[
        str | None, typer.Option(metavar="TABLE", help="A labelled .csv, .jsonl or .parquet file to start from.")
    ] = None,
    label: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The column of TABLE that holds the class.")
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Or: a learner that `save` wrote; a network also needs --module."),
    ] = None,
    module: Annotated[
        str | None,
        typer.Option(metavar="PACKAGE:FUNCTION", help="Or: your function that returns a torch module."),
    ] = None,
    schema: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A JSON file that describes samples and classes; a module needs it."),
    ] = None,
    shape: Annotated[
        str | None, typer.Option(metavar="1,28,28", help="With --module: the shape of one sample; flat by default.")
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE",
            help="Ask for at most this share of the labels, as in 5%. The default is 5% with osamd-preset, and no limit"
            " with the paper's methods.",
        ),
    ] = None,
    budget_window: BudgetWindow = None,
    max_labels: MaxLabels = None,
    classes: Annotated[
        Names, typer.Option(metavar="NAMES", help="With --source: all classes; the default is those found in TABLE.")
    ] = None,
    drop: Annotated[Names, typer.Option(metavar="COLUMNS", help="With --source: columns to leave out.")] = None,
    categorical: Annotated[
        Names, typer.Option(metavar="COLUMNS", help="With --source: columns whose numbers are codes.")
    ] = None,
    keep: Keep = None,
    format: Annotated[
        str | None, typer.Option(metavar="csv|jsonl|parquet", help="With --source: where its name does not say it.")
    ] = None,
    decimal: Decimal = ".",
    encoding: Encoding = None,
    method: Annotated[str | None, typer.Option(metavar="NAME", help="The method; see osamd run.")] = None,
    eta: StudentRate = None,
    sigma: QueryScale = None,
    expire_after: Annotated[
        int | None, typer.Option(min=1, help="Stop waiting for a label after this many rounds.")
    ] = None,
    title: Annotated[str | None, typer.Option(help="The name of the task on the pages.")] = None,
) -> None:
    """Make the folder of a service from a labelled table, a saved learner, or a torch module with a schema.

    With --source, samples are sent as records with the table's columns. Numbers may have any scale, categories become
    features, and a linear model is fitted to all rows (at most a million). The learner is the preset, which asks for
    5% of the labels unless a budget is given, or the --method named (osamd if --eta or --sigma is given). A module is
    imported from the current folder or from an installed package; the folder keeps its weights, not its code.

    Example: osamd init shop --source orders.csv --label fraud --budget 5%
    """
    require_service()
    from osamd.cli.column_remarks import column_remarks
    from osamd.service import creating

    made = creating.make(
        state,
        source=source,
        label=label,
        model=model,
        module=module,
        schema=schema,
        shape=shape,
        columns={
            "classes": None if classes is None else names(classes),
            "drop": names(drop),
            "categorical": names(categorical),
            "keep": names(keep),
            "format": format,
            "decimal": decimal,
            "encoding": encoding,
        },
        settings=learner_settings(budget, budget_window, max_labels, method=method, eta=eta, sigma=sigma),
        expire_after=expire_after,
        title=title,
    )
    _describe(made.state)
    for line in column_remarks(made.columns):
        print(line)
    print(f"Start it with: osamd serve --dir {state}")


def _describe(made: Any) -> None:
    """Print what was made."""
    schema = made.schema
    print(
        f"Made {made.folder}: {schema.features} features, classes {', '.join(str(one.name) for one in schema.classes)}."
    )
    if schema.columns is None:
        print("A sample is an image.")
    else:
        listed = ", ".join(f"{column.name} ({column.kind})" for column in schema.columns[:20])
        more = f" and {len(schema.columns) - 20} more" if len(schema.columns) > 20 else ""
        print(f"The columns of a sample: {listed}{more}.")
    _describe_learner(made.learner())


def _describe_learner(learner: Any) -> None:
    from osamd.paper.methods import KNOWN

    limits = [f"{100 * learner.limits.rate:g} % of the labels"] if learner.limits.rate is not None else []
    limits += [f"{learner.limits.max_labels:,} labels in total"] if learner.limits.max_labels is not None else []
    kind = KNOWN[learner.method]
    asks = f", and asks for at most {' and '.join(limits)}" if limits else ""
    if not limits and kind.query == "margin":
        asks = ", and asks without a limit; --budget 5% would set one"
    print(f"The learner is {kind.title}{asks}.")
