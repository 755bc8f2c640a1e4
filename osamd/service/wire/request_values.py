"""The values that requests may hold: ids, rounds, labels, features."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import Field, PlainValidator, StringConstraints
from pydantic_core import PydanticCustomError

MOST = 2**53 - 1
"""The largest whole number that every reader of JSON keeps exactly."""

CLIENT_ID = re.compile(r"[\x21-\x7e]{1,128}")
"""Printable ASCII without spaces."""
ClientId = Annotated[str, StringConstraints(pattern=f"^{CLIENT_ID.pattern}$")]
Holder = Annotated[str, StringConstraints(pattern=r"^[\x21-\x7e]{1,64}$")]
RoundNumber = Annotated[int, Field(ge=0, le=MOST, strict=True)]
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
LONGEST_TEXT = 20_000
"""The most characters of a value: free text is shown to people, though no model learns from it."""
FeatureValue = Number | bool | Annotated[str, Field(max_length=LONGEST_TEXT)] | None
Order = Literal["oldest", "valuable"]


def _features(given: Any) -> Any:
    """Values in order or by name, with whole numbers as floats.

    This is a function and no type, because pydantic would report each of a million bad values, which takes a minute.
    """
    if type(given) not in (list, dict):
        raise PydanticCustomError("features", "give a list of values, or an object that has them by column")
    values = list(given.values()) if type(given) is dict else given
    kinds = set(map(type, values))
    if not kinds <= {float, int, bool, str, type(None)}:
        raise PydanticCustomError("features", "a value is a number, true, false, a text or null")
    if type(given) is dict and any(len(name) > 200 for name in given):
        raise PydanticCustomError("features", "the name of a column has at most 200 letters")
    if str in kinds and any(type(value) is str and len(value) > LONGEST_TEXT for value in values):
        raise PydanticCustomError("features", f"a text has at most {LONGEST_TEXT} letters")
    if int in kinds:
        try:
            values = [float(value) if type(value) is int else value for value in values]
        except OverflowError:
            raise PydanticCustomError("features", "a number is too large") from None
        return dict(zip(given, values, strict=True)) if type(given) is dict else values
    return given


def _label(given: Any) -> Any:
    if type(given) not in (str, int, float) or (type(given) is str and len(given) > 200):
        raise PydanticCustomError("label", "a label is the name of a class, a text of at most 200 letters or a number")
    return given


FeatureValues = Annotated[
    list[Any] | dict[str, Any],
    PlainValidator(
        _features, json_schema_input_type=list[FeatureValue] | dict[Annotated[str, Field(max_length=200)], FeatureValue]
    ),
    Field(description="Values in the order of the columns, or by their names."),
]
LabelName = Annotated[
    str | int | float, PlainValidator(_label, json_schema_input_type=Annotated[str, Field(max_length=200)] | Number)
]
