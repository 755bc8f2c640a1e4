"""What cannot be used is refused at the boundary, in a sentence that names the call, the argument and the remedy."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from osamd.errors import InputError
from osamd.paper.geometry import ball, box, p_norm, signed_simplex, simplex
from osamd.paper.losses import loss
from osamd.paper.methods import (
    InnerLoops,
    Method,
    Settings,
    TeacherStep,
    experiments_step,
    learner,
    lemma1_step,
    lemma3_step,
)
from osamd.paper.models import linear
from osamd.paper.queries import margin, uniform
from osamd.streams import (
    Arrays,
    Rotating,
    TwoPoint,
    abrupt,
    ball_noise,
    gaussian_noise,
    gradual,
    recurring,
    relabel,
    rotating_balls,
    rotating_gaussian,
    transform,
)

Call = Callable[[object], object]
SETTINGS = Settings(eta=0.1, sigma=1.0)
X, Y = np.arange(6.0).reshape(3, 2), [0, 1, 0]
NOT_NUMBERS = [None, "1", [1.0], True, 1j, Decimal(1), np.array([1.0, 2.0]), math.nan]


def settings(**changed: object) -> Settings:
    return replace(SETTINGS, **changed)  # type: ignore[arg-type]


NUMBERS: dict[str, Call] = {
    "Settings(eta": lambda v: settings(eta=v),
    "Settings(sigma": lambda v: settings(sigma=v),
    "InnerLoops(rate": lambda v: settings(adaptation=InnerLoops(5, v)),  # type: ignore[arg-type]
    "TeacherStep(cap": lambda v: settings(teacher=TeacherStep(cap=v)),  # type: ignore[arg-type]
    "TeacherStep(target": lambda v: settings(teacher=TeacherStep(target=v)),  # type: ignore[arg-type]
    "TeacherStep(scale": lambda v: settings(teacher=TeacherStep(scale=v)),  # type: ignore[arg-type]
    "experiments_step(cap": lambda v: experiments_step(cap=v),  # type: ignore[arg-type]
    "experiments_step(scale": lambda v: experiments_step(scale=v),  # type: ignore[arg-type]
    "lemma1_step(sigma": lambda v: lemma1_step(v),  # type: ignore[arg-type]
    "lemma3_step(sigma": lambda v: lemma3_step(v, 1.0),  # type: ignore[arg-type]
    "lemma3_step(G": lambda v: lemma3_step(1.0, v),  # type: ignore[arg-type]
    "loss(l2": lambda v: loss("hinge", l2=v),  # type: ignore[arg-type]
    "margin(sigma": lambda v: margin(v),  # type: ignore[arg-type]
    "margin(floor": lambda v: margin(1.0, v),  # type: ignore[arg-type]
    "uniform(rate": lambda v: uniform(v),  # type: ignore[arg-type]
    "ball(radius": lambda v: ball(v),  # type: ignore[arg-type]
    "box(low": lambda v: box(v, 2.0),  # type: ignore[arg-type]
    "box(high": lambda v: box(-2.0, v),  # type: ignore[arg-type]
    "simplex(scale": lambda v: simplex(v),  # type: ignore[arg-type]
    "simplex(floor": lambda v: simplex(2.0, v),  # type: ignore[arg-type]
    "signed_simplex(scale": lambda v: signed_simplex(v),  # type: ignore[arg-type]
    "p_norm(p": lambda v: p_norm(v),  # type: ignore[arg-type]
    "p_norm(radius": lambda v: p_norm(1.5, v),  # type: ignore[arg-type]
    "gaussian_noise(std": lambda v: gaussian_noise(v),  # type: ignore[arg-type]
    "ball_noise(radius": lambda v: ball_noise(v, 2),  # type: ignore[arg-type]
    "rotating_balls(distance": lambda v: rotating_balls(distance=v),  # type: ignore[arg-type]
    "rotating_balls(radius": lambda v: rotating_balls(radius=v),  # type: ignore[arg-type]
    "Rotating(turn": lambda v: rotating_balls(turn=v),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("argument", NUMBERS)
@pytest.mark.parametrize("value", NOT_NUMBERS, ids=repr)
def test_what_is_no_number_is_refused(argument: str, value: object) -> None:
    with pytest.raises(InputError) as refused:
        NUMBERS[argument](value)
    assert str(refused.value).startswith(f"`{argument}=")


@pytest.mark.parametrize("value", [*NOT_NUMBERS[1:], -0.1, 1.1], ids=repr)
def test_a_label_rate_is_checked_for_every_method(value: object) -> None:
    with pytest.raises(InputError, match=r"`Settings\(label_rate=.*between 0 and 1"):
        settings(label_rate=value)


WHOLE: dict[str, Call] = {
    "linear(features": lambda v: linear(v),  # type: ignore[arg-type]
    "linear(classes": lambda v: linear(2, v),  # type: ignore[arg-type]
    "InnerLoops(number": lambda v: settings(adaptation=InnerLoops(v, 0.1)),  # type: ignore[arg-type]
    "rotating_gaussian(rounds": lambda v: rotating_gaussian(v),  # type: ignore[arg-type]
    "rotating_gaussian(features": lambda v: rotating_gaussian(9, v),  # type: ignore[arg-type]
    "rotating_balls(rounds": lambda v: rotating_balls(v),  # type: ignore[arg-type]
    "rotating_balls(features": lambda v: rotating_balls(9, v),  # type: ignore[arg-type]
    "Rotating(rounds": lambda v: Rotating("r", np.eye(2), gaussian_noise(1.0), v),  # type: ignore[arg-type]
    "TwoPoint(rounds": lambda v: TwoPoint(v),  # type: ignore[arg-type]
    "ball_noise(dimension": lambda v: ball_noise(0.1, v),  # type: ignore[arg-type]
    "Arrays(warmup": lambda v: Arrays(X, Y, warmup=v),  # type: ignore[arg-type]
    "abrupt(at": lambda v: abrupt(v),  # type: ignore[arg-type]
    "gradual(start": lambda v: gradual(v, 9),  # type: ignore[arg-type]
    "gradual(stop": lambda v: gradual(0, v),  # type: ignore[arg-type]
    "recurring(period": lambda v: recurring(v),  # type: ignore[arg-type]
    "source(count": lambda v: TwoPoint(9).source(v, 0),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("argument", WHOLE)
@pytest.mark.parametrize("value", [*NOT_NUMBERS, 1.5, 2.0, math.inf, -1, np.float64(2.0)], ids=repr)
def test_what_is_no_count_is_refused(argument: str, value: object) -> None:
    with pytest.raises(InputError) as refused:
        WHOLE[argument](value)
    message = str(refused.value)
    assert message.startswith(f"`{argument}=")
    assert "must be a whole number (an int) of at least" in message


def test_numbers_of_numpy_and_fractions_are_taken_as_floats() -> None:
    made = Settings(
        eta=np.float32(0.5),
        sigma=Fraction(1, 2),
        label_rate=1,
        adaptation=InnerLoops(np.int8(3), 1),
        loss=loss("hinge", l2=1),
    )  # type: ignore[arg-type]
    held = learner("osamd", linear(np.int64(2)), made)  # type: ignore[arg-type]
    assert [type(n) for n in (held.rates.eta, held.rates.sigma, held.rates.inner_rate)] == [float] * 3
    assert held.rates.inner_loops == 3
    assert held.rates.penalty.dtype == np.float64


SENTENCES: list[tuple[Callable[[], object], str]] = [
    (lambda: settings(eta=10**400), "eta must be positive and finite"),
    (
        lambda: settings(loss="hinge"),
        r"`Settings\(loss='hinge'\)`: loss must be a Loss; use one such as loss\(\"hinge\"\)",
    ),
    (lambda: settings(geometry="ball"), r"geometry must be a Geometry; use one such as .*ball\(1.0\)"),
    (lambda: settings(geometry=ball), r"`Settings\(geometry=<function ball.*ball\(1.0\)"),
    (lambda: settings(teacher=1.0), r"teacher must be a TeacherStep; use one such as experiments_step\(cap=1.0\)"),
    (lambda: settings(adaptation=20), r"adaptation must be an InnerLoops; use InnerLoops\(number=20, rate=0.01\)"),
    (lambda: settings(adaptation=(20, 0.01)), "use InnerLoops"),
    (lambda: settings(teacher=TeacherStep(cap=0.0)), r"`TeacherStep\(cap=0.0\)`: cap must be positive"),
    (lambda: settings(teacher=TeacherStep(target=math.inf)), "target must be positive and finite"),
    (lambda: settings(teacher=TeacherStep(target=-1.0)), "target must be positive and finite"),
    (lambda: settings(teacher=TeacherStep(scale=-1.0)), "scale must be zero or positive"),
    (lambda: settings(teacher=TeacherStep(scale=math.inf)), "scale must be zero or positive, and finite"),
    (
        lambda: learner(None, linear(2), SETTINGS),
        r"`learner\(method=None\)`: method must be a string. Known: osamd",
    ),  # type: ignore[arg-type]
    (lambda: learner(3, linear(2), SETTINGS), "method must be a string"),  # type: ignore[arg-type]
    (lambda: learner(["osamd"], linear(2), SETTINGS), "method must be a string"),  # type: ignore[arg-type]
    (lambda: learner("osamd", 2, SETTINGS), r"model must be a Linear; build one with linear\(features"),  # type: ignore[arg-type]
    (lambda: learner("osamd", linear(2), {"eta": 1}), "settings must be a Settings; build them with"),  # type: ignore[arg-type]
    (lambda: Method("m", "M", query="foo", self_training=True), r"`Method\(query='foo'\)`: no such query. .*margin"),
    (lambda: loss(None), r"`loss\(name=None\)`: name must be a string. Known: hinge"),  # type: ignore[arg-type]
    (lambda: loss(["hinge"]), "name must be a string"),  # type: ignore[arg-type]
    (lambda: loss("hinges"), "Did you mean 'hinge'"),
    (lambda: relabel(None), "order must be numbers|each class index once"),  # type: ignore[arg-type]
    (lambda: relabel([]), "each class index once"),
    (lambda: relabel([0.5, 1.0]), "each class index once"),  # type: ignore[list-item]
    (lambda: relabel(["a", "b"]), "order must be numbers"),  # type: ignore[list-item]
    (lambda: transform("big"), "matrix must be numbers"),
    (lambda: transform(math.nan), "matrix must be finite"),
    (lambda: transform(np.zeros((2, 2, 2))), "more than 2 axes"),
    (lambda: transform(shift=[[1.0, 2.0]]), "more than 1 axes"),
    (lambda: Rotating("r", [["a", "b"]], gaussian_noise(1.0), 3), "centres must be numbers"),  # type: ignore[list-item]
    (lambda: Rotating("r", np.eye(2), 1.0, 3), r"noise must be a Noise; use gaussian_noise\(std\)"),  # type: ignore[arg-type]
    (lambda: Arrays([[1.0], [1.0, 2.0]], [0, 1]), "x must be numbers in rows of equal length"),
    (lambda: Arrays([["1.0"], ["2.0"]], [0, 1]), "x must be numbers"),
    (lambda: Arrays(np.array([[1.0], ["b"]], dtype=object), [0, 1]), "x must be numbers"),
    (lambda: Arrays([[1j], [2.0]], [0, 1]), "it holds complex128"),
    (lambda: Arrays(np.zeros((2, 1), dtype="datetime64[D]"), [0, 1]), "it holds datetime64"),
    (lambda: Arrays([[datetime.date(2020, 1, 1)], [1.0]], [0, 1]), "it holds other objects"),  # type: ignore[list-item]
    (lambda: Arrays(np.array([[1.0], [None]], dtype=object), [0, 1]), r"row 1 holds \[nan\]; .* fill or drop"),
    (lambda: Arrays(np.zeros((2, 0)), [0, 1]), "one column per feature"),
    (lambda: Arrays(X, None), r"`Arrays\(y=None\)`: give one label after the other"),  # type: ignore[arg-type]
    (lambda: Arrays(X, 3), r"`Arrays\(y=3\)`: give one label after the other"),  # type: ignore[arg-type]
    (lambda: Arrays(X, {0, 1, 2}), "y is a set"),
    (lambda: Arrays(X, np.array([[0, 1, 0]]).T), r"y has shape \(3, 1\)"),
    (lambda: Arrays(X, np.array(3)), r"y has shape \(\)"),
    (lambda: Arrays(X, [[0], [1], [0]]), "give one label after the other"),  # type: ignore[list-item]
    (lambda: Arrays(X, ["a", None, "b"]), r"y\[1\] is None, a missing label; drop or fill those rows"),
    (lambda: Arrays(X, [0.0, 1.0, math.nan]), r"y\[2\] is nan, a missing label; drop or fill those rows"),
    (lambda: Arrays(X, np.array([0.0, np.nan, 1.0])), r"y\[1\] is nan"),
    (lambda: Arrays(X, Y, classes=[]), r"`Arrays\(classes=...\)`: no class; .* at least two classes"),
    (lambda: Arrays(X, Y, classes=[0, 1, 0]), r"`Arrays\(classes=\(0, 1, 0\)\)`: give each class once"),
    (lambda: Arrays(X, Y, classes=2), r"`Arrays\(classes=2\)`: give one label after the other"),  # type: ignore[arg-type]
    (lambda: Arrays(X, Y, classes={0, 1}), "classes is a set"),  # type: ignore[arg-type]
    (lambda: Arrays(X, Y, classes="01"), "label 0 of row 0 is not in the classes"),
    (lambda: Arrays(X, Y, warmup=-1), r"`Arrays\(warmup=-1\)`: warmup must be a whole number .* at least 0"),
    (lambda: Arrays(X, Y, warmup=1).source(-1, 0), r"`source\(count=-1\)`: .* at least 0"),
]


@pytest.mark.parametrize(("call", "sentence"), SENTENCES)
def test_what_is_of_the_wrong_kind_is_refused_with_a_remedy(call: Callable[[], object], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        call()


def test_a_long_value_is_cut_short_in_an_error() -> None:
    with pytest.raises(InputError) as refused:
        settings(eta=list(range(10_000)))
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        ([2, 10, 1], (1, 2, 10)),
        (["b", "a", "c"], ("a", "b", "c")),
        ([1.5, -2, True], (-2, True, 1.5)),
        (["b", 10, 2, "a"], (10, 2, "a", "b")),
        (np.array([2, 10, 1]), (1, 2, 10)),
        ((label for label in "xyx"), ("x", "y")),
        (range(3), (0, 1, 2)),
    ],
)
def test_classes_are_sorted_in_their_own_order(labels: object, classes: tuple[object, ...]) -> None:
    rows = 4 if len(classes) == 4 else 3
    stream = Arrays(np.zeros((rows, 1)), labels)  # type: ignore[arg-type]
    assert stream.classes == classes
    assert not any(isinstance(c, np.generic) for c in stream.classes)


def test_a_start_far_outside_the_ball_is_projected() -> None:
    held = learner("osamd", linear(2), settings(geometry=ball()), start=[1e300, 0.0, 0.0])
    np.testing.assert_allclose(held.state.student, [1.0, 0.0, 0.0], rtol=1e-15)
