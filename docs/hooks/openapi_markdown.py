"""Parts of an OpenAPI document as Markdown: parameters, bodies, models and the codes of refusals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def parameter(one: dict[str, Any]) -> tuple[str, str, str, str]:
    default = one["schema"].get("default")
    more = one.get("description", "") + (f" {default} by default." if default is not None else "")
    return f"`{one['name']}`", one["in"], _kind(one["schema"]), more.strip()


def kinds(answer: dict[str, Any]) -> str:
    media, content = next(iter(answer["content"].items()))
    if media != "application/json":
        return f"`{media}`"
    schema = content["schema"]
    chosen = schema.get("oneOf") or schema.get("anyOf") or [schema]
    return " or ".join(_kind(one) for one in chosen) if schema else "as in the example"


def models(document: dict[str, Any]) -> Iterator[str]:
    """Every body, field by field."""
    yield "## Bodies"
    for name, model in document["components"]["schemas"].items():
        needed = model.get("required", [])
        rows = (
            (f"`{field}`", _kind(one), _remark(one, field in needed or "default" in one))
            for field, one in model.get("properties", {}).items()
        )
        yield "\n\n".join([f"### {name}", model.get("description", ""), table(("field", "is", ""), rows)])


def _remark(one: dict[str, Any], needed: bool) -> str:
    default = one.get("default")
    parts = [one.get("description", "")]
    if default not in (None, "", []):
        parts.append(f"{default} by default.")
    elif not needed:
        parts.append("Optional.")
    return " ".join(part for part in parts if part)


def _kind(schema: dict[str, Any]) -> str:
    """A type in words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    several = schema.get("anyOf") or schema.get("oneOf")
    if several:
        return " or ".join(dict.fromkeys(_kind(one) for one in several))
    if "enum" in schema or "const" in schema:
        return " or ".join(f"`{value}`" for value in schema.get("enum", [schema.get("const")]))
    kind = schema.get("type", "anything")
    if kind == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    if kind == "object":
        return f"object of {_kind(schema.get('additionalProperties') or {})}"
    words = {"integer": "whole number", "string": "text", "boolean": "true or false"}.get(kind, kind)
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None and high < 2**52:
        words += f" from {low:g} to {high:g}"
    return words


def table(head: tuple[str, ...], rows: Any) -> str:
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    return "\n".join(lines + [f"| {' | '.join(row)} |" for row in rows])


def listed(codes: tuple[str, ...]) -> str:
    return ", ".join(f"`{code}`" for code in codes)
