"""Geometries: a mirror map R that is 1-strongly convex in its norm, and a decision set K.

Each one provides, for parameters of any shape (treated as one vector):

- `step(w, a)`: the mirror step argmin_K <a, v> + D_R(v, w);
- `proximal(w, a, ridge)`: the same step with the quadratic sum_i ridge_i v_i^2 / 2 added;
- `mirror`, the gradient of R; `project(w)`, the Bregman projection argmin_K D_R(v, w); `divergence(v, w)`,
  D_R(v, w) = R(v) - R(w) - <grad R(w), v - w>; `norm` and `dual_norm`;
- `reach(x, ridge)`: the most by which a unit slope on the score <w, x> moves that score, for x and ridge of shape
  (n,). It also bounds the scores of a multiclass model: slopes q move them by at most reach ||q||_2. On a `flat`
  geometry it is exact, so that an implicit step has a closed form;
- `gamma(n)` of Lemma 1, D_R(x, z) - D_R(y, z) <= gamma ||x - y|| on K, and `diameter(n)`, the largest ||x - y|| on K
  (Assumption 5), for n parameters; both are infinite if K is unbounded;
- `start(shape)`, a point of K, and `decision_set`, K itself in the form that solvers take.
"""

from __future__ import annotations

from collections.abc import Callable

from osamd.paper.geometry.base import DecisionSet, Geometry
from osamd.paper.geometry.entropic import signed_simplex, simplex
from osamd.paper.geometry.euclidean import ball, box, euclidean
from osamd.paper.geometry.p_norm import p_norm

GEOMETRIES: dict[str, Callable[..., Geometry]] = {
    "euclidean": euclidean,
    "ball": ball,
    "box": box,
    "simplex": simplex,
    "signed-simplex": signed_simplex,
    "p-norm": p_norm,
}

__all__ = ["GEOMETRIES", "DecisionSet", "Geometry", "ball", "box", "euclidean", "p_norm", "signed_simplex", "simplex"]
