"""Parts of JSON Schemas: types and records, each with a sentence of what it means."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]


def said(of: Schema, text: str) -> Schema:
    """Return a schema with a sentence."""
    return {**of, "description": text} if text else of


def list_of(of: Schema, text: str = "") -> Schema:
    """Return the schema of a list."""
    return said({"type": "array", "items": of}, text)


def by_name(of: Schema, text: str = "") -> Schema:
    """Return the schema of an object with any names."""
    return said({"type": "object", "additionalProperties": of}, text)


def or_null(of: Schema, text: str = "") -> Schema:
    """Return a schema that takes null, too."""
    return said({"anyOf": [of, {"type": "null"}]}, text)


def record(text: str = "", /, open: bool = False, **members: Schema) -> Schema:
    """An object; members whose names end in ``_`` may be left out, ``open`` takes others too."""
    return said(
        {
            "type": "object",
            "properties": {name.rstrip("_"): member for name, member in members.items()},
            "required": [name for name in members if not name.endswith("_")],
            "additionalProperties": open,
        },
        text,
    )


def text(text: str = "") -> Schema:
    """Return the schema of a text."""
    return said({"type": "string"}, text)


def whole(text: str = "") -> Schema:
    """Return the schema of an integer."""
    return said({"type": "integer"}, text)


def size(text: str = "") -> Schema:
    """Return the schema of a number of bytes."""
    return said({"type": "integer", "minimum": 0}, text)


def flag(text: str = "") -> Schema:
    """Return the schema of true or false."""
    return said({"type": "boolean"}, text)


def number(text: str = "") -> Schema:
    """A number; what JSON has no number for is a word."""
    words = {"enum": ["NaN", "Infinity", "-Infinity"]}
    return said({"anyOf": [{"type": "number"}, words]}, text)


def seconds(text: str = "") -> Schema:
    """Return the schema of a time."""
    return said({"type": "number", "minimum": 0}, text)
