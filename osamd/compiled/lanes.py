"""Sums in the stated order, and steps along a sample, in vector instructions: eight lanes at a time.

Numba vectorises some scalar loops and not others. Here vectors are requested explicitly, in LLVM's terms, and every
machine uses the widest it has. Parameters are padded with zeros to whole lanes. A sample is read in place, without a
copy or padding: as `features` numbers of `x` from `start` on, followed by a 1 if there is a bias.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba.extending
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils as untyped_cgutils
from numba.core.errors import TypingError

from osamd.numerics import LANES, Array

intrinsic: Any = numba.extending.intrinsic
types: Any = numba.types
cgutils: Any = untyped_cgutils

INT, PLACE, NUMBER = ir.IntType(64), ir.IntType(32), ir.DoubleType()
VECTOR = ir.VectorType(NUMBER, LANES)
ZERO = ir.Constant(VECTOR, [0.0] * LANES)


def _sums(typing, theta, w, at, x, start, features, bias):  # type: ignore[no-untyped-def]
    """theta . x, w . x and x . x, summed as `osamd.numerics.lane_sum` does; theta and w are read from index `at` on."""
    _contiguous(theta, w, x)
    whole, one, three = types.int64, types.boolean, types.UniTuple(types.float64, 3)

    def build(context, b, signature, args):  # type: ignore[no-untyped-def]
        theta, w, x = (_data(context, b, signature, args, i) for i in (0, 1, 3))
        totals = [cgutils.alloca_once(b, VECTOR) for _ in range(3)]
        for total in totals:
            b.store(ZERO, total)

        def gather(i: Any, lanes: Any) -> None:
            place = b.add(args[2], i)
            for total, other in zip(totals, (_load(b, theta, place), _load(b, w, place), lanes), strict=True):
                b.store(b.fadd(b.load(total), b.fmul(other, lanes)), total)

        _each_lanes(b, gather, x, *args[4:])
        return context.make_tuple(b, signature.return_type, [_tree(b, b.load(total)) for total in totals])

    return three(theta, w, whole, x, whole, whole, one), build


def _add(typing, scale, x, start, features, bias, w, at):  # type: ignore[no-untyped-def]
    """w += scale x, where w begins at index `at`."""
    _contiguous(x, w)
    whole, number, one = types.int64, types.float64, types.boolean

    def build(context, b, signature, args):  # type: ignore[no-untyped-def]
        x, w = (_data(context, b, signature, args, i) for i in (1, 5))
        scale = _spread(b, args[0])

        def move(i: Any, lanes: Any) -> None:
            place = b.add(args[6], i)
            b.store(b.fadd(_load(b, w, place), b.fmul(scale, lanes)), _vector_at(b, w, place), align=8)

        _each_lanes(b, move, x, *args[2:5])
        return context.get_dummy_value()

    return types.none(number, x, whole, whole, one, w, whole), build


sums, add = intrinsic(_sums), intrinsic(_add)
for made in (sums, add):
    # Numba gives an intrinsic a random name in every process. With a fixed name, and a definition that can be imported
    # by name, the next process finds the code that was compiled with it.
    made._set_uuid(f"{__name__}.{made.__name__}")


def padded(length: int) -> int:
    """The length, rounded up to whole lanes."""
    return -(-length // LANES) * LANES


def padded_sums(a: Array, b: Array, x: Array) -> tuple[float, float, float]:
    """`sums` for whole padded vectors: a . x, b . x and x . x."""
    three: tuple[float, float, float] = sums(a, b, 0, x, 0, x.shape[0], False)
    return three


def _contiguous(*arrays: Any) -> None:
    for array in arrays:
        if not (isinstance(array, types.Array) and array.layout == "C" and array.dtype == types.float64):
            raise TypingError(f"lanes are read from contiguous float64 arrays, not from {array}")


def _data(context: Any, b: Any, signature: Any, args: Any, i: int) -> Any:
    return context.make_array(signature.args[i])(context, b, args[i]).data


def _each_lanes(b: Any, use: Callable[[Any, Any], None], x: Any, start: Any, features: Any, bias: Any) -> None:
    """Call use(i, lanes i to i + 7 of the sample), from the first lanes to the last."""
    whole = b.and_(features, INT(-LANES))
    with cgutils.for_range_slice(b, INT(0), whole, INT(LANES), inc=True) as (i, _):
        use(i, _load(b, x, b.add(start, i)))
    with b.if_then(b.icmp_signed("<", whole, b.add(features, b.zext(bias, INT)))):
        use(whole, _last(b, x, b.add(start, whole), b.sub(features, whole), bias))


def _last(b: Any, x: Any, place: Any, rest: Any, bias: Any) -> Any:
    """The `rest` numbers from `place` on, then the bias, then zeros; no number beyond them is read."""
    number = ir.Constant(ir.VectorType(INT, LANES), list(range(LANES)))
    rest = _spread(b, rest)
    beyond = b.select(b.icmp_signed("==", number, rest), _spread(b, b.uitofp(bias, NUMBER)), ZERO)
    mask = b.icmp_signed("<", number, rest)
    load = ir.FunctionType(VECTOR, [VECTOR.as_pointer(), PLACE, mask.type, VECTOR])
    masked = cgutils.get_or_insert_function(b.module, load, f"llvm.masked.load.v{LANES}f64.p0")
    return b.call(masked, [_vector_at(b, x, place), PLACE(8), mask, beyond])


def _tree(b: Any, lanes: Any) -> Any:
    """The sum of the lanes as `lane_sum` computes it: add the upper half to the lower until one lane is left."""
    half = LANES // 2
    while half:
        low, high = (
            b.shuffle_vector(lanes, lanes, ir.Constant(ir.VectorType(PLACE, half), list(range(first, first + half))))
            for first in (0, half)
        )
        lanes, half = b.fadd(low, high), half // 2
    return b.extract_element(lanes, PLACE(0))


def _spread(b: Any, value: Any) -> Any:
    """The value in every lane."""
    lanes = ir.Constant(ir.VectorType(value.type, LANES), ir.Undefined)
    first = b.insert_element(lanes, value, PLACE(0))
    return b.shuffle_vector(first, lanes, ir.Constant(ir.VectorType(PLACE, LANES), [0] * LANES))


def _vector_at(b: Any, data: Any, place: Any) -> Any:
    return b.bitcast(b.gep(data, [place]), VECTOR.as_pointer())


def _load(b: Any, data: Any, place: Any) -> Any:
    return b.load(_vector_at(b, data, place), align=8)
