"""A learner as a folder for a model hub: its file, config.json, and a model card whose numbers come from the learner.

    save_folder(learner, "pump-states", intended_use="Tells the state of a pump from three sensors.")
    learner = load_folder("pump-states")

The folder is laid out as on Hugging Face and needs no package of theirs. Nothing in it runs code, and what was changed
since it was written is refused.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from osamd import __version__
from osamd.accounting.accuracy import Accuracy
from osamd.errors import InputError, reject
from osamd.files import together
from osamd.learner.ask_tell import AskTell
from osamd.learner.linear import OSAMD

FORMAT = 1
"""The version of the folder's layout. A reader refuses versions it does not know."""
LEARNER, CONFIG, CARD = "learner.osamd", "config.json", "README.md"

NOBODY = "The authors have not said what it is meant for. Ask them before you rely on it."


def save_folder(
    learner: AskTell,
    folder: str | Path,
    *,
    title: str | None = None,
    intended_use: str = NOBODY,
    limits: str = "",
    licence: str | None = None,
) -> Path:
    """Write the folder: all of its files, or none; returns it.

    `intended_use` and `limits` are paragraphs of Markdown for the card, in your own words; the card adds the limits
    that every learner has. `licence` is a hub's name for one, as in "mit".
    """
    place = Path(folder)
    for argument, text in (("title", title), ("licence", licence)):
        if text is not None and (not text.strip() or len(text.splitlines()) != 1):
            raise reject("save_folder", argument, text, f"{argument} must be one line of text.")
    with together(place, [LEARNER, CONFIG, CARD]) as files:
        files.write(LEARNER, learner.save)
        digest = hashlib.sha256((files.staging / LEARNER).read_bytes()).hexdigest()
        files.write_json(CONFIG, config(learner, digest))
        text = card(learner, title or place.resolve().name, intended_use, limits, licence)
        files.write(CARD, lambda path: path.write_text(text, encoding="utf-8"))
    return place


def load_folder(folder: str | Path, module: Any = None) -> Any:
    """The learner of a folder, to go on bit for bit; for a network give a module like the one it was made with."""
    place = Path(folder)
    said = _config_of(place)
    try:
        data = (place / LEARNER).read_bytes()
    except OSError as error:
        raise _refused(place, f"{LEARNER} cannot be read ({error.strerror or error})") from error
    if hashlib.sha256(data).hexdigest() != said.get("sha256"):
        raise _refused(place, f"{LEARNER} is not the file that {CONFIG} describes")
    if said.get("kind") == "linear":
        return OSAMD.from_bytes(data)
    if module is None:
        raise InputError(f"`load_folder({str(folder)!r})`: it holds a network; give module=, a module like its own.")
    from osamd.learner.network import NetworkOSAMD

    return NetworkOSAMD.from_bytes(data, module)


def config(learner: AskTell, digest: str) -> dict[str, Any]:
    """The content of config.json: what the learner is, and its numbers at the time of saving."""
    health, limits = learner.health(), learner.limits
    return {
        "library_name": "osamd",
        "model_type": "osamd",
        "format": FORMAT,
        "osamd": __version__,
        "kind": "linear" if isinstance(learner, OSAMD) else "network",
        "sha256": digest,
        "method": learner.method,
        "classes": learner.classes,
        "features": learner.features if isinstance(learner, OSAMD) else None,
        "budget": {name: value for name, value in limits._asdict().items() if value is not None},
        "rounds": learner.rounds,
        "labels_asked": learner.asked,
        "labels_told": learner.told,
        "accuracy": _numbers(learner.accuracy()),
        "accuracy_of_window": _numbers(learner.accuracy(window=True)),
        "health": {"state": health.state, "why": health.why},
    }


def card(learner: AskTell, title: str, intended_use: str, limits: str, licence: str | None) -> str:
    """The model card, as a hub shows it."""
    head = ["---", "library_name: osamd", "tags:", "- online-learning", "- active-learning", "- concept-drift"]
    head += [f"license: {licence}"] if licence else []
    loading = "load_folder(folder)" if isinstance(learner, OSAMD) else "load_folder(folder, module)"
    return "\n".join(
        [
            *head,
            "---",
            f"# {title}",
            "",
            f"A classifier for {_listed(learner.classes)} that keeps adapting to a drifting stream and asks for few"
            f" labels: {learner._method.title} of osamd {__version__}.",
            "",
            "```python",
            "from osamd.adapters.hub import load_folder",
            "",
            f"learner = {loading}",
            "decision = learner.ask(x)",
            "learner.tell(decision, y if decision.query else None)",
            "```",
            "",
            "## Intended use",
            "",
            intended_use.strip(),
            "",
            "## Accuracy, labels and drift",
            "",
            *_facts(learner),
            "",
            "## Limits",
            "",
            *([limits.strip(), ""] if limits.strip() else []),
            *_limits(learner),
            "",
        ]
    )


def _facts(learner: AskTell) -> list[str]:
    health, gain = learner.health(), learner.gain()
    share = f" ({100 * learner.asked / learner.rounds:.1f} %)" if learner.rounds else ""
    rows = [
        ("samples decided", f"{learner.rounds:,}"),
        ("labels asked for", f"{learner.asked:,}{share}, of which {learner.told:,} came"),
        ("accuracy, all samples", _estimate(learner.accuracy())),
        ("accuracy, latest samples", _estimate(learner.accuracy(window=True))),
        ("gain over the model it started from", str(gain) if gain.rounds else "not known"),
        ("health", f"{health.state}: {health.why}"),
    ]
    if health.margin_change == health.margin_change:
        change = f"margins of the latest samples are {health.margin_change:.2f} times those before; far from 1 is drift"
        rows.append(("drift", change))
    return ["| | |", "|---|---|", *(f"| {name} | {said} |" for name, said in rows)]


def _limits(learner: AskTell) -> list[str]:
    features = learner.features if isinstance(learner, OSAMD) else None
    takes = f"- It takes the features {_listed(features)}, as numbers." if features else "- It takes numbers alone."
    return [
        takes,
        f"- It decides among the classes {_listed(learner.classes)}.",
        "- The accuracy is estimated from the labels that were asked for, with an interval of 90 %. It speaks of the"
        " stream that the learner has seen, and of no other.",
        "- Frozen, it does not follow a drift: let it ask and tell it labels, or measure it again.",
        "- The file holds samples and labels that the learner remembers. Share it as you would share them.",
    ]


def _estimate(found: Accuracy) -> str:
    labels = f", from {found.labels:,} labels" if found.known else ""
    return f"{found}{labels}"


def _numbers(found: Accuracy) -> dict[str, Any] | None:
    if not found.known:
        return None
    return {name: float(getattr(found, name)) for name in ("value", "low", "high", "level")} | {"labels": found.labels}


def _listed(names: Any, most: int = 12) -> str:
    shown = ", ".join(str(name) for name in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")


def _config_of(place: Path) -> dict[str, Any]:
    try:
        said = json.loads((place / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _refused(place, f"it has no {CONFIG} that can be read ({error})") from error
    if not isinstance(said, dict) or said.get("library_name") != "osamd":
        raise _refused(place, f"its {CONFIG} is not one of osamd's")
    if said.get("format") != FORMAT:
        raise _refused(place, f"its layout has version {said.get('format')}, and this osamd reads version {FORMAT}")
    return said


def _refused(place: Path, why: str) -> InputError:
    return InputError(f"`load_folder({str(place)!r})`: {why}; give a folder that `save_folder` wrote.")
