"""Our docstrings as the site wants them: examples as code, fields of records listed, bare numbers left out."""

from __future__ import annotations

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"^>>> .*(?:\n(?!\s*$).*)*", flags=re.MULTILINE)
"""A doctest, up to the next empty line."""

TAG = re.compile(r"(`[^`]*`|^(?:    |>>> |\.\.\. ).*$)|<(?=[A-Za-z/])", flags=re.MULTILINE)
"""What Markdown would take for the tag of a page, as in <a, v>; code is matched first, and stays."""


class HouseStyle(griffe.Extension):
    """Applied to every object of the package once it has been read."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring:
            obj.docstring.value = plain(obj.docstring.value)

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        """Fields without a docstring of their own are listed in that of their NamedTuple."""
        if not any(str(base) == "NamedTuple" for base in cls.bases):
            return
        fields = [field for field in cls.attributes.values() if field.annotation is not None and not field.docstring]
        listed = ", ".join(f"`{field.name}: {field.annotation}`" for field in fields if "property" not in field.labels)
        if listed and cls.docstring:
            cls.docstring.value += f"\n\nFields: {listed}."

    def on_attribute(self, *, attr: griffe.Attribute, **_: Any) -> None:
        """Numbers of a module are read beside the code that uses them; registries and other tables are shown."""
        if attr.parent is None or not attr.parent.is_module:
            return
        if str(attr.value)[:1] not in ("{", "("):
            attr.docstring = None
        elif str(attr.value)[:1] == "{" and attr.name.isupper() and not attr.docstring:
            attr.docstring = griffe.Docstring("By name.", parent=attr)


def plain(text: str) -> str:
    """A docstring as Markdown: doctests are blocks of code, not quotations, and <a, v> is a product, not a tag."""
    escaped = TAG.sub(lambda found: found[1] or "&lt;", text)
    return EXAMPLE.sub(lambda found: f"```pycon\n{found[0]}\n```", escaped)
