"""The report of a column on real data: results.json, the table beside the paper's, and its panel of Figure 2."""

from __future__ import annotations

import numpy as np

from osamd.evaluation import plots
from osamd.evaluation.intervals import Mean, mean_90
from osamd.paper.methods import KNOWN, PRESET
from osamd.reporting.tables import Report, Table, in_seeds, in_words
from osamd.reproduce import gaussian_results
from osamd.reproduce.column_fleets import curve_rounds
from osamd.reproduce.deep import ColumnOutcome, differences
from osamd.reproduce.table_1 import TABLE_1
from osamd.reproduce.table_columns import described


def report(outcome: ColumnOutcome) -> Report:
    """The column of Table 1 with its panel of Figure 2. A method without a finished run is left out."""
    column, name = outcome.column, outcome.column.name
    paper = TABLE_1[name]
    finished = {m: [run for run in some if run is not None] for m, some in outcome.runs.items()}
    finished = {m: some for m, some in finished.items() if some}
    methods = {
        m: {
            "accuracy": mean_90([run.accuracy for run in some]),
            "labels": mean_90([run.labels for run in some]),
            "pseudolabel_errors": mean_90([run.pseudolabel_error_rate for run in some]),
            "loss": mean_90([float(run.loss[-1]) for run in some]),
        }
        for m, some in finished.items()
    }
    seeds = len(next(iter(outcome.runs.values())))
    apart = differences(outcome.runs)
    content = gaussian_results.results(
        name, outcome.rounds, seeds, described(column.settings[outcome.settings]), methods, paper, "loss"
    )
    content["settings"]["name"] = outcome.settings
    if outcome.budget is not None:
        content["settings"]["preset_budget"] = outcome.budget
    content["stream_facts"] = dict(outcome.facts)
    content["whole_stream"] = whole = outcome.rounds == outcome.facts["stream_rows"]
    content["osamd_minus"] = {m: mean._asdict() for m, mean in apart.items()}
    content["stopped"] = list(outcome.stopped)
    content["run"] = {
        "device": outcome.device,
        "engine": outcome.engine,
        "rounds_per_s": outcome.rounds_per_second,
        "peak_memory_mib": outcome.peak_memory_mib,
    }
    part = "" if whole else f", the first {outcome.rounds:,} of {outcome.facts['stream_rows']:,} rounds"
    title = f"{column.title}, settings {outcome.settings}{part}"
    shown = Table(
        f"{title}, {in_seeds(seeds, ', mean ± half-width of the 90 % interval')}",
        (*gaussian_results.COLUMNS, "loss"),
        gaussian_results.table_rows(methods, paper, "loss"),
        [
            *_facts(outcome),
            *(gaussian_results.verdict(methods, paper) if whole else []),
            *_apart(apart),
            *_preset(outcome),
            *outcome.stopped,
        ],
    )
    curves = {m: np.stack([run.loss for run in some]) for m, some in finished.items()}
    figure = plots.accumulated_figure(
        curves,
        f"{column.title}, {outcome.settings}, {in_seeds(seeds, ', 90 % bands')}" + part.replace(", ", "\n"),
        "accumulated loss",
        curve_rounds(outcome.rounds),
    )
    return Report([shown], content, figure)


def _facts(outcome: ColumnOutcome) -> list[str]:
    facts = outcome.facts
    rows = f"{facts['data_set']}: {facts['data_set_rows']:,} rows"
    if "published_rows" in facts:
        rows += f" of the {facts['published_rows']:,} published"
    if "stream_years" in facts:
        first, last = facts["stream_years"]
        rows += f", the stream from {first} to {last}"
    speed = f"{outcome.rounds_per_second:,.0f} rounds/s for all models together ({outcome.device}, {outcome.engine})"
    return [f"{rows}; {speed}."]


def _apart(apart: dict[str, Mean]) -> list[str]:
    if not apart:
        return []
    words = [f"{KNOWN[m].title} {_signed(mean)}" for m, mean in apart.items()]
    return ["OSAMD's accuracy minus that of another method, in points, seed by seed: " + "; ".join(words) + "."]


def _preset(outcome: ColumnOutcome) -> list[str]:
    if outcome.budget is None:
        return []
    rate = f"{100 * outcome.budget:g} % of the labels"
    return [f"{PRESET.title} is not in the paper. It starts from the same networks, with a budget of {rate}."]


def _signed(mean: Mean) -> str:
    return ("+" if mean.mean >= 0 else "") + in_words(mean, 2, unit=0.01)
