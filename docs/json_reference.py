"""The reference page of JSON output, from the schemas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tvmrt.cli.schemas import form_of, names, tag

HEAD = """# JSON output

This page is made from the schemas that `tvmrt schema NAME` prints.

With `--json` a command prints one JSON object on standard output and nothing else. Its member
`schema` has the name and version of the schema. The version changes when a member is removed or
changes its meaning, not when one is added, so ignore unknown members. Sizes are in bytes, times in
seconds. Non-finite numbers are the strings `"NaN"`, `"Infinity"` and `"-Infinity"`. A request that
cannot be met prints no object; the exit code is 2.

```sh
tvmrt schema compile > compile.schema.json
tvmrt compile examples/digits/digits_f32.onnx -o digits.so --json > digits.json
```

Validate output with any validator of JSON Schema draft 2020-12, such as the package `jsonschema`.
`?` marks members that may be absent.
"""


def _type(of: dict[str, Any]) -> str:
    if "const" in of:
        return f"`{of['const']}`"
    if "enum" in of:
        return " or ".join(f"`{each}`" for each in of["enum"])
    for several in ("anyOf", "oneOf"):
        if several in of:
            return " or ".join(dict.fromkeys(map(_type, of[several])))
    name = of.get("type", "any value")
    if name == "array":
        return f"list of {_type(of['items'])}"
    if name == "object" and isinstance(of.get("additionalProperties"), dict):
        return f"object by name of {_type(of['additionalProperties'])}"
    return " or ".join(name) if isinstance(name, list) else name


def _members(of: dict[str, Any], path: str = "") -> Iterator[str]:
    """Rows of a table: each member by its path, its type, what it is."""
    for name, member in of.get("properties", {}).items():
        here = f"{path}{name}" + ("" if name in of["required"] else "?")
        text = " ".join(member.get("description", "").split())
        yield f"| `{here}` | {_type(member)} | {text} |"
        yield from _nested_members(member, here)


def _nested_members(of: dict[str, Any], path: str) -> Iterator[str]:
    for several in ("anyOf", "oneOf"):
        for each in of.get(several, ()):
            yield from _nested_members(each, path)
    if of.get("type") == "array":
        yield from _nested_members(of["items"], f"{path}[]")
    elif isinstance(of.get("additionalProperties"), dict):
        yield from _nested_members(of["additionalProperties"], f"{path}.*")
    elif "properties" in of:
        yield from _members(of, f"{path}.")


def page() -> str:
    """Return the page."""
    parts = [HEAD.rstrip()]
    for name in names():
        form = form_of(name)
        rows = dict.fromkeys(_members(form))
        more = " Other members may be there." if form["additionalProperties"] is True else ""
        parts.append(f"## {tag(name)}\n\n{form['description']}{more}")
        parts.append("\n".join(["| member | type | what it is |", "|---|---|---|", *rows]))
    return "\n\n".join(parts) + "\n"
