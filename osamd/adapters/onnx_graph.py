"""Graphs of the frozen decision, from operators that every ONNX runtime has, in double precision.

    x (rows x features)  ->  probabilities (rows x classes)

The default learner decides by a mixture whose weights change only with labels. So in a frozen learner the mixture is a
fixed weighted sum of the experts' probabilities, and each expert is a short graph. The weights are read off the
arbiter's own functions, and nothing of the arbiter is stated again here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from osamd.adapters.onnx_nodes import Graph, X
from osamd.numerics import Array
from osamd.preset import arbiter
from osamd.preset import state as layout
from osamd.preset.bayes import Bayes
from osamd.preset.forest import TREES, Forest, add_leaf
from osamd.preset.grounds import Grounds
from osamd.preset.memory import Memory
from osamd.preset.mirror_descent import PASSES, RADIUS, MirrorDescent, size_of, step_of
from osamd.preset.neighbours import BLANK, VOTERS, WIDTH
from osamd.preset.round import grounds_of, has_begun
from osamd.preset.scale import CLIP, Scale
from osamd.preset.state import VOICES, PresetParts
from osamd.preset.student import SHARPNESS

EQUAL = 1e-12
"""Probabilities this close are equally likely: the rounding errors of both sides are a thousandth of it."""


def preset_probabilities(graph: Graph, state: Array) -> str:
    """The mixture by which the default learner decides, from its state."""
    parts = layout.parts_of(state)
    sourced = state[layout.SOURCED] > 0.0
    z = standardised(graph, parts.scale)
    count = min(int(state[layout.KEPT]), parts.memory.labels.shape[0])
    classes = parts.student.shape[0]
    student = graph("Mul", graph.scores(X, parts.student), graph.constant(SHARPNESS))
    shares = {
        "student": graph.softmax(student),
        "regression": graph.softmax(graph.scores(z, parts.regression.weights)),
        "fast regression": graph.softmax(graph.scores(z, parts.fast_regression.weights)),
        "bayes": bayes(graph, parts.bayes, z),
        "fast bayes": bayes(graph, parts.fast_bayes, z),
        "neighbours": neighbours(graph, parts.memory, count, classes, z),
        "forest": forest(graph, parts.forest, classes, z),
        "osamd": mirror_descent(graph, parts.descent, classes, z) if has_begun(state) else evenly(graph, classes),
    }
    rest, by_expert, by_source = mixture_weights(parts, grounds_of(state))
    mixture = graph.constant(np.full((1, classes), rest))
    weighted = [(by_expert[i], shares[name]) for i, name in enumerate(VOICES)]
    if sourced:
        weighted.append((by_source, graph.softmax(graph.scores(X, parts.source))))
    for weight, share in weighted:
        mixture = graph("Add", mixture, graph("Mul", graph.constant(weight), share))
    total = graph("ReduceSum", mixture, graph.whole(1), keepdims=1)
    return graph("Div", mixture, total)


def mixture_weights(parts: PresetParts, grounds: Grounds) -> tuple[float, Array, float]:
    """What blend, trust and guard come to in a frozen learner: rest + sum_e by_expert[e] p_e + by_source p_source.

    All three steps are affine in the probabilities, and the same for every class. So one class tells the weights, with
    a probability of 1 for one expert at a time.
    """
    classes, voices = parts.student.shape[0], len(VOICES)
    sourced = grounds.sourced

    def first_class(shares: Array, source: float) -> float:
        blend, trusted, mixture = np.zeros(classes), np.zeros(classes), np.zeros(classes)
        of_source, flat = np.full(classes, source), np.repeat(shares, classes)
        arbiter.mix(parts.arbiter.losses, flat, sourced, grounds.boldness, blend)
        trusted[:] = blend
        if sourced:
            arbiter.trusted_into(parts.arbiter.trust, grounds, of_source, blend, trusted)
        arbiter.guarded_into(parts.arbiter.guard, trusted, of_source, flat, mixture)
        return float(mixture[0])

    nobody = np.zeros(voices)
    alone = 0.0 if sourced else 1.0 / classes  # without a source, its place is taken by the uniform distribution
    rest = first_class(nobody, alone)
    by_expert = np.array([first_class(np.eye(voices)[e], alone) - rest for e in range(voices)])
    return rest, by_expert, first_class(nobody, 1.0) - rest


def evenly(graph: Graph, classes: int) -> str:
    """The same probability for all classes."""
    return graph.filled(np.full((1, classes), 1.0 / classes), np.float64, classes)


def standardised(graph: Graph, scale: Scale) -> str:
    """z = clip((x - centre) / deviation)."""
    away = graph("Sub", X, graph.constant(scale.centre))
    scaled = graph("Mul", away, graph.constant(scale.inverse))
    return graph("Clip", scaled, graph.constant(-CLIP), graph.constant(CLIP))


def bayes(graph: Graph, found: Bayes, z: str) -> str:
    """Naive Bayes: constants - sum_i precision_i (z_i - centre_i)^2 / 2, and their softmax."""
    gaps = graph("Sub", graph("Unsqueeze", z, graph.whole(1)), graph.constant(found.centres[None]))
    weighted = graph("Mul", graph("Mul", gaps, gaps), graph.constant(found.precisions[None]))
    distances = graph("ReduceSum", weighted, graph.whole(2), keepdims=0)
    return graph.softmax(graph("Sub", graph.constant(found.constants), graph("Mul", distances, graph.constant(0.5))))


def neighbours(graph: Graph, memory: Memory, count: int, classes: int, z: str) -> str:
    """The votes of the nearest remembered samples; of equally near ones the first in the memory, as in the learner."""
    if count == 0:
        return evenly(graph, classes)
    away = distances(graph, memory.columns[:, :count], z)
    voters = min(VOTERS, count)
    near, places = graph.several(
        "TopK", away, graph.whole(voters), outs=["near", "near_places"], axis=1, largest=0, sorted=1
    )
    closest = graph("Slice", near, graph.whole(0), graph.whole(1), graph.whole(1))
    farthest = graph("Slice", near, graph.whole(voters - 1), graph.whole(voters), graph.whole(1))
    width = graph("Add", farthest, graph.constant(1e-12))
    behind = graph("Mul", graph("Sub", near, closest), graph.constant(-WIDTH))
    votes = graph("Exp", graph("Div", behind, width))
    labels = graph.constant(np.eye(classes)[memory.labels[:count].astype(np.int64)])
    by_class = graph("Mul", graph("Unsqueeze", votes, graph.whole(2)), graph("Gather", labels, places, axis=0))
    own = graph("Add", graph("ReduceSum", by_class, graph.whole(1), keepdims=0), graph.constant(BLANK / classes))
    total = graph("Add", graph("ReduceSum", votes, graph.whole(1), keepdims=1), graph.constant(BLANK))
    return graph("Div", own, total)


def distances(graph: Graph, columns: Array, z: str) -> str:
    """Squared distances to the remembered samples, added in the order of the learner, so that ties are ties."""
    helper, double, count = graph.onnx.helper, graph.onnx.TensorProto.DOUBLE, columns.shape[1]
    before = helper.make_tensor_value_info("away_before", double, [None, count])
    value = helper.make_tensor_value_info("feature_of_samples", double, [None])
    column = helper.make_tensor_value_info("feature_of_memory", double, [count])
    after = helper.make_tensor_value_info("away_after", double, [None, count])
    axis = graph.onnx.numpy_helper.from_array(np.array([1], np.int64), "second")
    body = helper.make_graph(
        [
            helper.make_node("Unsqueeze", ["feature_of_samples", "second"], ["upright"]),
            helper.make_node("Sub", ["upright", "feature_of_memory"], ["gap"]),
            helper.make_node("Mul", ["gap", "gap"], ["squared"]),
            helper.make_node("Add", ["away_before", "squared"], ["away_after"]),
        ],
        "one_feature",
        [before, value, column],
        [after],
        [axis],
    )
    start = graph.filled(np.zeros((1, count)), np.float64, count)
    turned = graph("Transpose", z, perm=[1, 0])
    return graph("Scan", start, turned, graph.constant(columns), body=body, num_scan_inputs=2)


def forest(graph: Graph, found: Forest, classes: int, z: str) -> str:
    """The mean of the trees' leaves: every sample goes down all trees at once, and stays in the leaf it falls into."""
    nodes = flat_nodes(found, classes)
    at = graph.filled(nodes["roots"][None], np.int64, TREES)
    if nodes["depth"]:
        at = _down(graph, nodes, at, z)
    leaves = graph("Gather", graph.constant(nodes["shares"]), at, axis=0)
    total = graph("ReduceSum", leaves, graph.whole(1), keepdims=0)
    return graph("Div", total, graph.constant(float(TREES)))


def _down(graph: Graph, nodes: dict[str, Any], at: str, z: str) -> str:
    """The leaves, after as many steps as the deepest tree has."""
    helper, kinds, names = graph.onnx.helper, graph.onnx.TensorProto, ("feature", "threshold", "child")
    feature, threshold, child = (graph.constant(nodes[name], nodes[name].dtype) for name in names)
    body = helper.make_graph(
        [
            helper.make_node("Gather", [feature, "node"], ["split"], axis=0),
            helper.make_node("GatherElements", [z, "split"], ["value"], axis=1),
            helper.make_node("Gather", [threshold, "node"], ["limit"], axis=0),
            helper.make_node("Greater", ["value", "limit"], ["above"]),
            helper.make_node("Cast", ["above"], ["right"], to=kinds.INT64),
            helper.make_node("Gather", [child, "node"], ["left_child"], axis=0),
            helper.make_node("Add", ["left_child", "right"], ["next_node"]),
            helper.make_node("Identity", ["go_on"], ["still_on"]),
        ],
        "one_step",
        [
            helper.make_tensor_value_info("step", kinds.INT64, []),
            helper.make_tensor_value_info("go_on", kinds.BOOL, []),
            helper.make_tensor_value_info("node", kinds.INT64, [None, TREES]),
        ],
        [
            helper.make_tensor_value_info("still_on", kinds.BOOL, []),
            helper.make_tensor_value_info("next_node", kinds.INT64, [None, TREES]),
        ],
    )
    always = graph.constant(True, np.bool_)
    return graph("Loop", graph.constant(nodes["depth"], np.int64), always, at, body=body)


def flat_nodes(found: Forest, classes: int) -> dict[str, Any]:
    """The nodes in use, of one tree after the other; a leaf is its own child, and has the shares of the classes."""
    feature: list[int] = []
    threshold: list[float] = []
    child: list[int] = []
    shares: list[Array] = []
    roots: list[int] = []
    deepest = 0
    for tree in range(TREES):
        roots.append(len(feature))
        places, depths = {0: len(feature)}, {0: 0}
        order = [0]
        for node in order:  # grows while it is read: children follow
            split = found.feature[tree, node] >= 0.0
            feature.append(int(found.feature[tree, node]) if split else 0)
            threshold.append(found.value[tree, node] if split else np.inf)
            deepest = max(deepest, depths[node])
            if split:
                left = int(found.child[tree, node])
                for one in (left, left + 1):
                    places[one], depths[one] = roots[-1] + len(order), depths[node] + 1
                    order.append(one)
                child.append(places[left])
                shares.append(np.zeros(classes))
            else:
                child.append(places[node])
                shares.append(np.zeros(classes))
                add_leaf(found, tree, node, shares[-1])
    return {
        "roots": np.array(roots, np.int64),
        "feature": np.array(feature, np.int64),
        "threshold": np.array(threshold),
        "child": np.array(child, np.int64),
        "shares": np.array(shares),
        "depth": deepest,
    }


def mirror_descent(graph: Graph, found: MirrorDescent, classes: int, z: str) -> str:
    """The paper's OSAMD: the student's probabilities, after it has adapted to the teacher's pseudolabel."""
    rows = found.student.shape[0]
    squares = graph("ReduceSum", graph("Mul", z, z), graph.whole(1), keepdims=1)
    length = graph("Sqrt", graph("Add", squares, graph.constant(1.0)))
    taught = graph("Div", graph.scores(z, found.teacher), length)
    before = graph("Div", graph.scores(z, found.student), length)
    if rows == 1:
        target = graph("Cast", graph("GreaterOrEqual", taught, graph.constant(0.0)), to=graph.onnx.TensorProto.DOUBLE)
    else:
        best = graph("ArgMax", taught, axis=1, keepdims=0)
        target = graph("Gather", graph.constant(np.eye(classes)), best, axis=0)
    step, size = graph.constant(step_of(rows)), graph.constant(size_of(found.student))
    twice, moved = graph("Mul", before, graph.constant(2.0)), graph.filled(np.zeros((1, rows)), np.float64, rows)
    for _ in range(PASSES):
        change = graph("ReduceSum", graph("Mul", moved, graph("Sub", moved, twice)), graph.whole(1), keepdims=1)
        norm = graph("Sqrt", graph("Max", graph("Add", size, change), graph.constant(RADIUS * RADIUS)))
        scores = graph("Mul", graph("Sub", before, moved), graph("Div", graph.constant(RADIUS), norm))
        shares = graph("Sigmoid", scores) if rows == 1 else graph.softmax(scores)
        moved = graph("Mul", step, graph("Sub", shares, target))
    if rows == 1:
        return graph("Concat", graph("Sub", graph.constant(1.0), shares), shares, axis=1)
    return shares


def linear_probabilities(graph: Graph, weights: Array) -> str:
    """The softmax of a linear model; `weights` as `osamd.OSAMD.weights` gives them."""
    rows = np.stack([-0.5 * weights, 0.5 * weights]) if weights.ndim == 1 else weights
    return graph.softmax(graph.scores(X, rows))


def first_of_the_likeliest(graph: Graph, shares: str) -> str:
    """The index of the most likely class; of equally likely ones the first, as in the learner.

    Runtimes round in their own ways, so what is equal in the learner may differ by rounding here.
    """
    most = graph("ReduceMax", shares, axes=[1], keepdims=1)
    level = graph("GreaterOrEqual", shares, graph("Sub", most, graph.constant(EQUAL)))
    return graph("ArgMax", graph("Cast", level, to=graph.onnx.TensorProto.INT32), axis=1, keepdims=0)
