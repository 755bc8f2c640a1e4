"""Runs and learners in MLflow: what was played as a run, and the learner as a model that is loaded without pickle.

    with mlflow.start_run():
        log_run("results/sensor")          # the folder that `osamd run sensor.csv` wrote
        found = log_model(learner)

    model = mlflow.pyfunc.load_model(found.model_uri)
    model.predict(rows)                     # a data frame: label, and the probability of each class

The model is "from code": three lines that load the learner's own file. The model is frozen: it decides as
`learner.predict` does, and learns nothing. `load_learner` gives the learner back, to go on.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from osamd import __version__
from osamd.adapters import needs
from osamd.errors import InputError, require_kind
from osamd.learner.ask_tell import AskTell
from osamd.learner.linear import OSAMD

ARTIFACT = "learner"
"""The name of the learner's file among the artefacts of its model."""

CODE = '''"""The model that MLflow loads: it decides as the learner in its artefacts does."""

from mlflow.models import set_model

from osamd.adapters.mlflow import model

set_model(model())
'''


def package() -> Any:
    """The package `mlflow`, imported where it is used."""
    try:
        import mlflow
        import mlflow.pyfunc
    except ImportError:
        raise needs("MLflow", "mlflow") from None
    return mlflow


def log_run(folder: str | Path) -> None:
    """Log a folder of `osamd run` to the active run of MLflow: settings, numbers, curves over the rounds, all files."""
    place = Path(folder)
    try:
        content = json.loads((place / "results.json").read_text())
        curve = content["curve"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"`log_run({str(folder)!r})`: there is no results.json of osamd run ({error}); give the folder that"
            " osamd run wrote."
        ) from error
    mlflow = package()
    mlflow.log_params(dict(_flat(content["settings"])) | {"osamd": content["osamd"], "stream": content["stream"]})
    final = {name: content[name] for name in ("methods", "baselines", "estimate", "gain_over_source", "rounds")}
    numbers = {name: value for name, value in _flat(final) if isinstance(value, int | float)}
    mlflow.log_metrics(numbers)
    for name in ("accuracy", "estimate", "low", "high", "labels"):
        for step, value in zip(curve["round"], curve[name], strict=True):
            if value is not None:
                mlflow.log_metric(f"curve.{name}", value, step=step)
    mlflow.log_artifacts(str(place))


def log_progress(learner: AskTell) -> None:
    """Log how the learner does now, at the step of its rounds: call it every so often in a loop of your own."""
    found, recent = learner.accuracy(), learner.accuracy(window=True)
    numbers: dict[str, float] = {
        "labels_asked": learner.asked,
        "labels_told": learner.told,
        "pending": len(learner.pending),
    }
    for name, one in (("accuracy", found), ("window", recent)):
        if one.known:
            numbers |= {f"{name}.value": one.value, f"{name}.low": one.low, f"{name}.high": one.high}
    package().log_metrics(numbers, step=learner.rounds)


def log_model(learner: OSAMD, name: str = "learner", **options: Any) -> Any:
    """Log a learner as a model to the active run, or to a new one; returns what MLflow's `log_model` returns.

    `options` are those of `mlflow.pyfunc.log_model`, such as `registered_model_name`.
    """
    mlflow = package()
    require_kind("log_model", "learner", learner, OSAMD, "give an osamd.OSAMD; a network has its own way into MLflow")
    given = {"pip_requirements": [f"osamd=={__version__}", "pandas"], "signature": signature(learner)} | options
    with tempfile.TemporaryDirectory(prefix="osamd-mlflow-") as folder:
        code, file = Path(folder) / "learner_model.py", Path(folder) / "learner.osamd"
        code.write_text(CODE)
        learner.save(file)
        return mlflow.pyfunc.log_model(name=name, python_model=str(code), artifacts={ARTIFACT: str(file)}, **given)


def load_learner(model_uri: str) -> OSAMD:
    """The learner inside a logged model, to go on asking and learning."""
    mlflow = package()
    with tempfile.TemporaryDirectory(prefix="osamd-mlflow-") as folder:
        there = Path(mlflow.artifacts.download_artifacts(artifact_uri=model_uri, dst_path=folder))
        found = sorted(there.glob("artifacts/*.osamd"))
        if len(found) != 1:
            raise InputError(f"`load_learner({model_uri!r})`: it holds no learner; give a model that `log_model` made.")
        return OSAMD.load(found[0])


def signature(learner: OSAMD) -> Any:
    """What the model takes: columns by name, or rows of so many numbers."""
    package()
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, Schema, TensorSpec

    if learner.features is not None:
        return ModelSignature(inputs=Schema([ColSpec("double", name) for name in learner.features]))
    width = learner.weights.shape[-1] - 1
    return ModelSignature(inputs=Schema([TensorSpec(np.dtype(np.float64), (-1, width))]))


def model() -> Any:
    """The model that a logged learner becomes when it is loaded."""
    package()
    import pandas  # type: ignore[import-untyped]
    from mlflow.pyfunc import PythonModel

    def load_context(self: Any, context: Any) -> None:
        self.learner = OSAMD.load(context.artifacts[ARTIFACT])

    def predict(self: Any, context: Any, model_input: Any, params: Any = None) -> Any:
        return decided(self.learner, model_input)

    # MLflow reads the type itself, and warns where there is none. Arrays are welcome all the same.
    predict.__annotations__ = {"model_input": pandas.DataFrame}
    return type("LearnerModel", (PythonModel,), {"load_context": load_context, "predict": predict})()


def decided(learner: OSAMD, rows: Any) -> Any:
    """A data frame with a row per sample: the label, and the probability of every class."""
    import pandas

    if hasattr(rows, "columns"):
        rows = rows[learner.features or list(rows.columns)].to_numpy(dtype=np.float64)
    decisions = [learner.peek(row) for row in np.atleast_2d(np.asarray(rows, dtype=np.float64))]
    shares = {
        f"probability_{name}": [decision.probabilities[name] for decision in decisions] for name in learner.classes
    }
    return pandas.DataFrame({"label": [decision.label for decision in decisions], **shares})


def _flat(content: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Nested dictionaries as pairs with dotted names; what is missing is left out."""
    if isinstance(content, Mapping):
        for part, value in content.items():
            yield from _flat(value, f"{name}.{part}" if name else str(part))
    elif content is not None:
        yield name, content
