"""Extremely randomised trees over the remembered samples: the expert that can learn thresholds.

`osamd.preset.growing` grows the trees; here is how they are stored, how they decide, and how a label counts in them.

Differs from aggregated Mondrian trees, which grow online without looking at labels: those keep a box of all features in
every node, 2 d numbers, and split along uninformative features as often as along informative ones.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from osamd.preset.views import Sizes, cut

TREES = 12
REACH = 256
"""How many of the newest labels a tree is grown from: older ones are in the trees that were grown before."""
SMOOTHING = 0.3
"""The count that a leaf shares evenly among the classes."""


class Forest(NamedTuple):
    """Views of the state, one row per tree and one number per node. The root is node 0."""

    feature: Any
    """The feature that a node splits on; for a leaf, -1 - its class."""
    value: Any
    """The threshold: values up to it go left; for a leaf, how many labels support its class."""
    child: Any
    """The left child; the right one is the next node."""
    grown: Any
    """One number per tree: how many labels there had been when it was grown."""
    seeds: Any
    """One number per tree: the state of the generator before it was grown; 0 where that is not known."""


def cut_forest(vector: Any, at: int, sizes: Sizes) -> Any:
    nodes = 2 * min(sizes.capacity, REACH)
    feature, at = cut(vector, at, TREES * nodes)
    value, at = cut(vector, at, TREES * nodes)
    child, at = cut(vector, at, TREES * nodes)
    grown, at = cut(vector, at, TREES)
    seeds, at = cut(vector, at, TREES)
    shape = (TREES, nodes)
    return Forest(feature.reshape(shape), value.reshape(shape), child.reshape(shape), grown, seeds), at


def next_node(forest: Forest, tree: int, node: int, z: Any) -> int:
    """The child of a node that a sample goes on to; a leaf is its own. It has no branches: none could be foreseen."""
    feature = forest.feature[tree, node]
    splits = feature >= 0.0
    value = z[int(feature) if splits else 0]
    child = int(forest.child[tree, node]) + (0 if value <= forest.value[tree, node] else 1)
    return child if splits else node


def leaf_of(forest: Forest, tree: int, z: Any) -> int:
    """The leaf that a sample falls into."""
    node, after = 0, next_node(forest, tree, 0, z)
    while after != node:
        node, after = after, next_node(forest, tree, after, z)
    return node


def leaves_into(forest: Forest, z: Any, leaves: Any) -> None:
    """The leaves of all trees, a level at a time: a processor does not wait for one tree while it looks at the next."""
    leaves[:] = 0.0
    going = True
    while going:
        going = False
        for tree in range(TREES):
            node = int(leaves[tree])
            after = next_node(forest, tree, node, z)
            going |= after != node
            leaves[tree] = after


def add_leaf(forest: Forest, tree: int, leaf: int, own: Any) -> None:
    """Add the probabilities of the classes in a leaf."""
    classes, count = own.shape[0], forest.value[tree, leaf]
    even = SMOOTHING / classes / (count + SMOOTHING)
    for c in range(classes):
        own[c] += even
    own[int(-1.0 - forest.feature[tree, leaf])] += count / (count + SMOOTHING)


def forest_opinion(forest: Forest, z: Any, leaves: Any, own: Any) -> None:
    """The probabilities of the classes: the mean over the trees."""
    classes = own.shape[0]
    for c in range(classes):
        own[c] = 0.0
    leaves_into(forest, z, leaves)
    for tree in range(TREES):
        add_leaf(forest, tree, int(leaves[tree]), own)
    for c in range(classes):
        own[c] /= TREES


def count_in_leaves(forest: Forest, z: Any, y: int) -> None:
    """Count a label in its leaves, one per tree."""
    for tree in range(TREES):
        count_in_leaf(forest, tree, z, y)


def count_in_leaf(forest: Forest, tree: int, z: Any, y: int) -> None:
    """Count a label in its leaf of one tree; a label that contradicts the leaf halves the leaf's count."""
    leaf = leaf_of(forest, tree, z)
    if forest.feature[tree, leaf] == -1.0 - y or forest.value[tree, leaf] == 0.0:
        forest.feature[tree, leaf] = -1.0 - y
        forest.value[tree, leaf] += 1.0
    else:
        forest.value[tree, leaf] *= 0.5
