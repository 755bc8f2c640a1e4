"""A graph of ONNX under construction: its nodes and constants, in the order in which they are made."""

from __future__ import annotations

from typing import Any

import numpy as np

from osamd.adapters import needs
from osamd.numerics import Array

X = "x"
"""The name of the samples."""


def package() -> Any:
    """The package `onnx`, imported where it is used."""
    try:
        import onnx
        import onnx.checker
        import onnx.helper
        import onnx.numpy_helper
    except ImportError:
        raise needs("onnx", "onnx") from None
    return onnx


class Graph:
    """Nodes and constants, in the order in which they are made."""

    def __init__(self) -> None:
        self.onnx = package()
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, value: Any, dtype: Any = np.float64) -> str:
        """A constant array; returns its name."""
        name = f"c{len(self.constants)}"
        array = np.asarray(value, dtype)
        self.constants.append(self.onnx.numpy_helper.from_array(array, name))
        return name

    def __call__(self, operator: str, *inputs: str, out: str | None = None, **attributes: Any) -> str:
        """A node with one output; returns the output's name."""
        (name,) = self.several(operator, *inputs, outs=[out or f"n{len(self.nodes)}"], **attributes)
        return name

    def several(self, operator: str, *inputs: str, outs: list[str], **attributes: Any) -> list[str]:
        """A node with several outputs; returns their names."""
        self.nodes.append(self.onnx.helper.make_node(operator, inputs, outs, **attributes))
        return outs

    def whole(self, *values: int) -> str:
        """A constant list of whole numbers."""
        return self.constant(values, np.int64)

    def scores(self, rows: str, weights: Array) -> str:
        """One score per class; the bias is last in each row of `weights`."""
        product = self("MatMul", rows, self.constant(weights[:, :-1].T))
        return self("Add", product, self.constant(weights[:, -1]))

    def softmax(self, scores: str) -> str:
        return self("Softmax", scores, axis=1)

    def filled(self, value: Any, dtype: Any, columns: int) -> str:
        """A row of constants, repeated for every sample."""
        shape = self("Concat", self("Shape", X, start=0, end=1), self.whole(columns), axis=0)
        return self("Expand", self.constant(value, dtype), shape)
