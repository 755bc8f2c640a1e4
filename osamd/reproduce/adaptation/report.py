"""The report of a comparison: its JSON file, and the table of accuracies with the preset's lead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from osamd.errors import InputError
from osamd.evaluation.intervals import Mean, mean_90
from osamd.reporting.tables import Report, Table, in_seeds, in_words
from osamd.reproduce.adaptation.comparison import TUNING_SEEDS, Comparison


def report(comparison: Comparison, earlier: Mapping[str, Any] | None = None) -> Report:
    """What the command prints and writes for one stream; `earlier` is the content of a run whose peers stand
    beside those that were played."""
    content = _content(comparison)
    if earlier is not None:
        content = beside(content, earlier)
    return Report([table(content)], content)


def beside(content: Mapping[str, Any], earlier: Mapping[str, Any]) -> dict[str, Any]:
    """The content with the other peers of an earlier one, which must be of the same rounds."""
    for part in ("stream", "rounds", "seeds", "budgets", "stream_facts"):
        if content[part] != earlier[part]:
            raise InputError(
                f"`report(earlier=...)`: the earlier run has {part} {earlier[part]}, and this one {content[part]}; play"
                " the peers again in this run."
            )
    preset = {at["budget"]: at["accuracies"] for at in content["preset"]}
    played = {run["method"] for run in content["peers"]}
    others = [run for run in earlier["peers"] if run["method"] not in played]
    peers = [{**run, "preset_minus": _leads(preset, run["budget"], run["accuracies"])} for run in others]
    peers += content["peers"]
    ran = {**content["run"], "peers": earlier["run"].get("peers", earlier["run"])}
    return {**content, "tuned_on_seeds": earlier["tuned_on_seeds"], "peers": peers, "run": ran}


def _content(comparison: Comparison) -> dict[str, Any]:
    from osamd.reproduce.adaptation.registry import PEERS

    preset = {share: [run.accuracy if run else None for run in runs] for share, runs in comparison.preset.items()}
    return {
        "stream": comparison.name,
        "title": comparison.benchmark.title,
        "rounds": comparison.rounds,
        "seeds": comparison.seeds,
        "budgets": list(comparison.budgets),
        "tuned_on_seeds": list(TUNING_SEEDS) if comparison.tuned else [],
        "stream_facts": dict(comparison.facts),
        "preset": [
            {
                "budget": share,
                "accuracy": mean_90([run.accuracy for run in runs if run])._asdict(),
                "labels": mean_90([run.labels for run in runs if run])._asdict(),
                "accuracies": preset[share],
            }
            for share, runs in comparison.preset.items()
        ],
        "peers": [
            {
                "method": run.method,
                "title": PEERS[run.method].title,
                "paper": PEERS[run.method].paper,
                "batch": run.batch,
                "budget": run.budget,
                "learning_rate": run.choice.factor * PEERS[run.method].rate,
                "choice": run.choice._asdict(),
                "accuracy": mean_90(run.shares.accuracy)._asdict(),
                "labels": mean_90(run.shares.labels)._asdict(),
                "accuracies": list(run.shares.accuracy),
                "preset_minus": _leads(preset, run.budget, run.shares.accuracy),
            }
            for run in comparison.peers
        ],
        "run": {"device": comparison.device, "seconds": comparison.seconds},
    }


def _leads(
    preset: Mapping[float, Sequence[float | None]], budget: float, accuracies: Sequence[float]
) -> list[dict[str, Any]]:
    """The preset's accuracy minus a method's, seed by seed: at the same budget, or at every one for no labels."""
    leads = []
    for share, ours in preset.items():
        pairs = [a - b for a, b in zip(ours, accuracies, strict=True) if a is not None]
        if pairs and budget in (0.0, share):
            leads.append({"budget": share, **mean_90(pairs)._asdict()})
    return leads


def table(content: Mapping[str, Any]) -> Table:
    """The table of one stream, from what its JSON file holds: a row per method and batch size, columns per budget."""
    budgets = content["budgets"]
    columns = ["method", "batch"]
    for share in budgets:
        columns += [f"{100 * share:g} % labels, accuracy %", "preset minus it"]
    rows = [["OSAMD (preset)", "1", *_both((_words(at["accuracy"]), "") for at in content["preset"])]]
    runs: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
    for run in content["peers"]:
        runs.setdefault((run["method"], run["batch"]), []).append(run)
    for (_, batch), some in runs.items():
        free = some[0]["budget"] == 0.0
        named = some[0]["title"] + (", no labels" if free else "")
        of = {share: some[0] if free else next(r for r in some if r["budget"] == share) for share in budgets}
        pairs = ((_words(of[s]["accuracy"]), _lead(of[s], s)) for s in budgets)
        rows.append([named, str(batch), *_both(pairs)])
    seeds = in_seeds(content["seeds"], ", mean ± half-width of the 90 % interval")
    return Table(
        f"{content['title']}, {content['rounds']:,} rounds, {seeds}",
        columns,
        rows,
        notes(content),
    )


def notes(content: Mapping[str, Any]) -> list[str]:
    """What a reader of the table must know."""
    used = [f"{100 * at['labels']['mean']:.2f} % at {100 * at['budget']:g} %" for at in content["preset"]]
    most = max((run["labels"]["mean"] - run["budget"] for run in content["peers"]), default=0.0)
    whole = content["stream_facts"].get("thinned_from_rows")
    thin = f" The stream is thinned evenly from {whole:,} rounds." if whole and whole != content["rounds"] else ""
    tuned, ran = content["tuned_on_seeds"], content["run"]
    where = f"{ran['device']}; the other peers: {ran['peers']['device']}" if "peers" in ran else ran["device"]
    how = (
        f"Each method has the setting that was best on seeds {' and '.join(map(str, tuned))} at the middle budget"
        if tuned
        else "Each method has the setting of its paper"
    )
    return [
        f"Labels that the preset used: {', '.join(used)}."
        + (" No method exceeds its budget." if most <= 1e-9 else " A method exceeds its budget!")
        + thin,
        f"{how}; the preset is as it comes. 'Preset minus it' is in points, seed by seed ({where}).",
        verdict(content),
    ]


def verdict(content: Mapping[str, Any]) -> str:
    """How many comparisons the preset wins and loses, judged by the interval of the difference."""
    leads = [lead for run in content["peers"] for lead in run["preset_minus"]]
    sure = [lead for lead in leads if lead["half_width_90"] is not None]
    ahead = sum(lead["mean"] > lead["half_width_90"] for lead in sure)
    behind = sum(lead["mean"] < -lead["half_width_90"] for lead in sure)
    return (
        f"Of {len(leads)} comparisons the preset is ahead in {ahead} and behind in {behind}; in the other"
        f" {len(leads) - ahead - behind} the 90 % interval of the difference does not tell."
    )


def _both(pairs: Any) -> list[str]:
    return [word for pair in pairs for word in pair]


def _words(mean: Mapping[str, Any]) -> str:
    return in_words(Mean(mean["mean"], mean["half_width_90"]), 2, unit=0.01)


def _lead(run: Mapping[str, Any], share: float) -> str:
    lead = next((one for one in run["preset_minus"] if one["budget"] == share), None)
    if lead is None:
        return ""
    return ("+" if lead["mean"] >= 0 else "") + _words(lead)


def markdown(content: Mapping[str, Any]) -> str:
    """The table as Markdown, for the documentation."""
    shown = table(content)
    lines = ["| " + " | ".join(row) + " |" for row in (shown.columns, ["---"] * len(shown.columns), *shown.rows)]
    return "\n".join([f"{shown.title}:", "", *lines, "", " ".join(shown.notes)])
