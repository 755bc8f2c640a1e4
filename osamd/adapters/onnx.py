"""A frozen learner as an ONNX graph: the whole decision, for runtimes without Python.

    found = export(learner, "learner.onnx")
    print(found)      # 1000 of 1000 decisions equal, probabilities within 2e-15

The graph takes `x`, rows of float64 in the order of the features, and gives `label`, a class per row, and
`probabilities`, one per row and class. It decides as `learner.predict` does at that moment, and learns nothing. The
agreement with the learner is measured at every export, and written into the file's metadata. Features must be finite:
the learner refuses others, and a graph cannot.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from osamd import __version__
from osamd.adapters import needs
from osamd.adapters.onnx_graph import first_of_the_likeliest, linear_probabilities, preset_probabilities
from osamd.adapters.onnx_nodes import Graph, X
from osamd.errors import InputError, reject, require_finite, require_numbers, require_whole
from osamd.learner.cores.preset import PresetCore
from osamd.learner.linear import OSAMD
from osamd.numerics import Array
from osamd.preset import state as layout

OPSET, IR = 17, 8
"""The versions of the operators and of the file format: those of 2022, which every current runtime reads."""
DRAWN = 1000
"""How many samples are drawn to measure the agreement, if none are given."""


class Exported(NamedTuple):
    """How far the graph agrees with the learner, on the samples of the export."""

    path: Path
    samples: int
    equal: int
    """How many decisions are equal."""
    largest_gap: float
    """The largest difference between two probabilities."""

    def __str__(self) -> str:
        return f"{self.equal} of {self.samples} decisions equal, probabilities within {self.largest_gap:.1g}"


def export(learner: OSAMD, path: str | Path, samples: ArrayLike | None = None) -> Exported:
    """Write the graph of the learner's decision, as it is now; returns how far both agree on the samples.

    `samples` are rows like those of the stream. Without them, a thousand are drawn from the learner's own record of
    the features. A learner whose decision is no fixed graph is refused.
    """
    model = graph_of(learner)
    rows = drawn(learner) if samples is None else _rows(learner, samples)
    labels, shares = decisions(model.SerializeToString(), rows)
    own = [learner.peek(row) for row in rows]
    equal = sum(decision.label == label for decision, label in zip(own, labels.tolist(), strict=True))
    gap = float(np.abs(np.array([list(one.probabilities.values()) for one in own]) - shares).max())
    found = Exported(Path(path), len(rows), equal, gap)
    Graph().onnx.helper.set_model_props(model, {**metadata(learner), "agreement": json.dumps(_agreement(found))})
    try:
        Path(path).write_bytes(model.SerializeToString())
    except OSError as error:
        raise InputError(f"`export(path={str(path)!r})`: cannot write there ({error.strerror or error}).") from error
    return found


def graph_of(learner: OSAMD) -> Any:
    """The model as `onnx` holds it, checked, without metadata."""
    core = _exportable(learner)
    graph = Graph()
    helper, double = graph.onnx.helper, graph.onnx.TensorProto.DOUBLE
    if isinstance(core, PresetCore):
        shares = preset_probabilities(graph, core.state)
    else:
        shares = linear_probabilities(graph, learner.weights)
    classes = np.array(learner.classes)
    text = classes.dtype.kind == "U"
    names = graph.constant(classes.astype(object) if text else classes, object if text else classes.dtype)
    graph("Gather", names, first_of_the_likeliest(graph, shares), out="label", axis=0)
    graph("Identity", shares, out="probabilities")
    kind = graph.onnx.TensorProto.STRING if text else helper.np_dtype_to_tensor_dtype(classes.dtype)
    made = helper.make_graph(
        graph.nodes,
        "osamd",
        [helper.make_tensor_value_info(X, double, ["rows", core.features])],
        [
            helper.make_tensor_value_info("label", kind, ["rows"]),
            helper.make_tensor_value_info("probabilities", double, ["rows", len(classes)]),
        ],
        graph.constants,
        doc_string=str(learner),
    )
    model = helper.make_model(
        made, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR, producer_name="osamd"
    )
    graph.onnx.checker.check_model(model, full_check=True)
    return model


def decisions(model: str | Path | bytes, rows: ArrayLike) -> tuple[Any, Array]:
    """The labels and probabilities that onnxruntime computes with a graph: a file, or its bytes."""
    try:
        import onnxruntime
    except ImportError:
        raise needs("onnxruntime", "onnx") from None
    given = model if isinstance(model, bytes) else str(model)
    session = onnxruntime.InferenceSession(given, providers=["CPUExecutionProvider"])
    labels, shares = session.run(["label", "probabilities"], {X: np.asarray(rows, np.float64)})
    return labels, shares


def metadata(learner: OSAMD) -> dict[str, str]:
    """What the file says about the learner."""
    accuracy = learner.accuracy()
    return {
        "osamd": __version__,
        "method": learner.method,
        "classes": json.dumps(learner.classes),
        "features": json.dumps(learner.features),
        "rounds": str(learner.rounds),
        "labels_asked_for": str(learner.asked),
        "accuracy": str(accuracy),
    }


def drawn(learner: OSAMD, count: int = DRAWN, seed: int = 0) -> Array:
    """Samples to compare on: normal ones around the record of the default learner, and those it remembers."""
    require_whole("drawn", "count", count)
    core, generator = _exportable(learner), np.random.default_rng(seed)
    if not isinstance(core, PresetCore):
        return generator.normal(size=(count, core.features))
    return core.like_the_stream(generator, count)


def _exportable(learner: OSAMD) -> Any:
    """The model of a learner whose decision is a fixed graph."""
    if not isinstance(learner, OSAMD):
        raise InputError(
            "`export(learner=...)`: only linear learners can be exported. The decision of a network's default learner"
            " mixes several networks; export the network alone with torch.onnx.export, after"
            " module.load_state_dict(learner.state_dict()), and measure how often it agrees with learner.predict."
        )
    core = learner._linear()
    if isinstance(core, PresetCore):
        if core.state[layout.SOURCED] == layout.FOREIGN:
            raise InputError(
                "`export(learner=...)`: its source is a model of its own, which is not part of the graph; export a"
                " learner made by from_source instead."
            )
        return core
    if learner._method.self_training:
        raise reject(
            "export",
            "learner",
            learner,
            "this method adapts its student to each sample before it decides, so its decision is no fixed graph;"
            " export the default learner, or method='osamd-no-self-adaptation'.",
        )
    if core.standardise:
        raise reject(
            "export",
            "learner",
            learner,
            "with standardise=True each sample counts in its own scale, so the decision is no fixed graph; scale the"
            " features beforehand, or export the default learner.",
        )
    return core


def _rows(learner: OSAMD, samples: ArrayLike) -> Array:
    rows = require_numbers("export", "samples", samples)
    if rows.ndim != 2 or not len(rows) or rows.shape[1] != _exportable(learner).features:
        raise InputError(
            f"`export(samples=...)`: samples must be rows of {_exportable(learner).features} features; their shape is"
            f" {rows.shape}."
        )
    require_finite("export", "samples", rows)
    return np.ascontiguousarray(rows)


def _agreement(found: Exported) -> dict[str, Any]:
    return {"samples": found.samples, "equal": found.equal, "largest_gap": found.largest_gap}
