"""Linear models: pull is the transpose of scores, and bias and signed pairs sit where they should."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from law_cases import law, vectors

from osamd.errors import InputError
from osamd.paper.models import Linear, linear


@st.composite
def models(draw: st.DrawFn) -> Linear:
    return linear(
        draw(st.integers(1, 12)), draw(st.integers(2, 5)), bias=draw(st.booleans()), signed=draw(st.booleans())
    )


@law
@given(models(), st.data())
def test_pull_is_the_transpose_of_scores(model: Linear, data: st.DataObject) -> None:
    w = data.draw(vectors(math.prod(model.shape))).reshape(model.shape)
    x = model.augment(data.draw(vectors(model.features)))
    scores = model.scores(w, x)
    slope = data.draw(vectors(model.classes)) if model.classes > 2 else float(data.draw(vectors(1))[0])
    pulled = model.pull(slope, x)
    assert pulled.shape == model.shape
    assert model.reading.inner(slope, scores) == pytest.approx(float((w * pulled).sum()), abs=1e-10)


@law
@given(models(), st.data())
def test_scores_are_those_of_the_plain_weights(model: Linear, data: st.DataObject) -> None:
    w = data.draw(vectors(math.prod(model.shape))).reshape(model.shape)
    x = data.draw(vectors(model.features))
    plain = model.weights(w)
    assert plain.shape == (*model.shape[:-1], model.features + model.bias)
    seen = np.append(x, 1.0) if model.bias else x
    assert model.scores(w, model.augment(x)) == pytest.approx(plain @ seen, abs=1e-10)


@law
@given(models(), st.data())
def test_augment_widens_a_batch_as_it_widens_each_sample(model: Linear, data: st.DataObject) -> None:
    batch = np.stack([data.draw(vectors(model.features)) for _ in range(3)])
    wide = model.augment(batch)
    assert wide.shape == (3, model.shape[-1])
    for row, x in zip(wide, batch, strict=True):
        assert np.array_equal(row, model.augment(x))


def test_augment_takes_lists_and_whole_numbers_as_floats() -> None:
    assert linear(2).augment([3, 4]).tolist() == [3.0, 4.0, 1.0]
    assert linear(2, bias=False).augment(np.array([[1, 2]], dtype=np.int8)).dtype == np.float64


@pytest.mark.parametrize(
    ("x", "says"),
    [
        ([1.0, 2.0, 3.0], r"`augment\(x=...\)`: x has shape \(3,\), the model takes 2 features"),
        (1.0, r"shape \(\)"),
        ([1.0, math.nan], r"`augment\(x=...\)`: x holds \[1.0, nan\]; x must be finite"),
        ([[1.0, 2.0], [math.inf, 0.0]], r"row 1 holds \[inf, 0.0\]"),
        ([[[1.0, 2.0], [0.0, math.nan]]], "row 0, 1 holds"),
        (["a", "b"], "x must be numbers"),
        ([1.0, 2.0j], r"it holds complex128"),
        ([[1.0], [2.0, 3.0]], "rows of equal length"),
        (None, "x must be numbers|x has shape"),
    ],
)
def test_augment_refuses_what_is_no_sample(x: object, says: str) -> None:
    with pytest.raises(InputError, match=says):
        linear(2).augment(x)  # type: ignore[arg-type]


@law
@given(models(), st.booleans())
def test_the_penalty_leaves_out_the_bias_alone(model: Linear, free_bias: bool) -> None:
    penalty = model.penalty(0.25, free_bias)
    # The parameters that a sample of zeros still moves are the biases.
    biases = model.augment(np.zeros(model.features)) != 0.0
    assert penalty.shape == model.shape
    assert np.array_equal(penalty, np.broadcast_to(np.where(biases & free_bias, 0.0, 0.25), model.shape))


def test_two_classes_have_one_row_and_more_have_one_each() -> None:
    assert linear(3).shape == (4,)
    assert linear(3, 5, bias=False).shape == (5, 3)
    assert linear(3, 4, signed=True).shape == (4, 8)


def test_a_start_is_checked_and_copied() -> None:
    model = linear(2)
    start = np.array([0.4, 0.0, -4.0])
    held = model.parameters(start)
    start[0] = 9.0
    assert held.tolist() == [0.4, 0.0, -4.0]
    assert model.parameters([1, 2, 3]).dtype == np.float64


@pytest.mark.parametrize(
    ("start", "says"),
    [
        ([1.0, 2.0], r"`learner\(start=...\)`: .*shape \(2,\), the model needs \(3,\) \(2 features, a bias\)"),
        ([[1.0, 2.0, 3.0]], r"shape \(1, 3\)"),
        ([1.0, math.nan, 0.0], "must be finite"),
        ([1.0, math.inf, 0.0], "must be finite"),
        (["a", "b", "c"], "must be numbers"),
        ([[1.0], [2.0, 3.0]], "rows of equal length"),
    ],
)
def test_a_bad_start_is_refused(start: object, says: str) -> None:
    with pytest.raises(InputError, match=says):
        linear(2).parameters(start, "learner")  # type: ignore[arg-type]


def test_a_model_needs_features_and_classes() -> None:
    with pytest.raises(InputError, match=r"`linear\(features=0\)`: features must be a whole number .* at least 1"):
        linear(0)
    with pytest.raises(InputError, match=r"`linear\(classes=1\)`: .* at least 2"):
        linear(2, classes=1)
