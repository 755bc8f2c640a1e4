"""The round in plain C (reference.c): compiled when the benchmark runs, called on whole arrays."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.settings import SEED
from osamd.errors import InputError
from osamd.numerics import Array
from osamd.paper.methods import Learner
from osamd.paper.play import play as plain_play
from osamd.streams import Arrays
from osamd.streams.base import Labels, query_generator

SOURCE = Path(__file__).with_name("reference.c")
FLAGS = ("-O3", "-march=native")
WHO = f"C, gcc {' '.join(FLAGS)}"

Play = Callable[[Learner, Array, Labels, Array], tuple[Labels, NDArray[np.bool_]]]


def compile_reference(folder: Path) -> Play:
    """Compile reference.c into `folder`, and give play(learner, x, y, u) -> (decisions, asked)."""
    gcc = shutil.which("gcc")
    if gcc is None:
        raise InputError("the C reference needs gcc; install it, or read the benchmark without that row.")
    library = folder / "reference.so"
    command = [gcc, *FLAGS, "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-lm"]
    built = subprocess.run(command, capture_output=True, text=True)
    if built.returncode:
        raise InputError(f"gcc could not compile {SOURCE.name}: {built.stderr.strip()}")
    function = ctypes.CDLL(str(library)).play
    floats, whole = (np.ctypeslib.ndpointer(dtype, flags="C_CONTIGUOUS") for dtype in (np.float64, np.int64))
    asked_bytes = np.ctypeslib.ndpointer(np.bool_, flags="C_CONTIGUOUS")
    count, number = ctypes.c_int64, ctypes.c_double
    function.restype = count
    function.argtypes = [floats, whole, floats, count, count, *[number] * 3, floats, floats, whole, asked_bytes]

    def play(learner: Learner, x: Array, y: Labels, u: Array) -> tuple[Labels, NDArray[np.bool_]]:
        rates = learner.rates
        teacher, student = learner.state.teacher.copy(), learner.state.student.copy()
        decision, asked = np.empty(len(y), dtype=np.int64), np.empty(len(y), dtype=np.bool_)
        function(x, y, u, *x.shape, rates.eta, rates.sigma, rates.cap, teacher, student, decision, asked)
        return decision, asked

    return play


def draw(rounds: int) -> Array:
    """The uniforms that our whole-stream call draws for its queries."""
    return query_generator(SEED).random(rounds)


def check(c_play: Play, learner: Learner, x: Array, y: Labels) -> None:
    """Refuse a reference whose decisions or queries are not those of the plain path."""
    ledger, _ = plain_play(learner, Arrays(x, y.tolist()), SEED)
    decision, asked = c_play(learner, x, y, draw(len(y)))
    for name, theirs, ours in (("decision", decision, ledger.decision), ("query", asked, ledger.asked)):
        if not np.array_equal(theirs, ours):
            raise InputError(f"the C reference has another {name} in round {int(np.argmax(theirs != ours))}.")
