"""The page of the C interface, made of the comments in the headers."""

from __future__ import annotations

import re
from pathlib import Path

HEADERS = Path(__file__).parent.parent / "include" / "tvm" / "runtime"

GROUPS = {
    "For everyone": ["c_packed_func.h", "c_runtime_api.h", "c_backend_api.h"],
    "For authors of devices": [
        "device.h", "region.h", "device_scheduler.h", "region_reading.h", "memory_device.h",
        "module_plugin.h", "plugin.h",
    ],
    "Special purposes": ["dims.h", "run_plan.h", "trace.h"],
}  # fmt: skip

HEAD = """# The C interface

This page is made from the comments of `include/tvm/runtime`. The headers
are C99 and valid C++; [C++ headers](../how-to/cpp.md) add typed wrappers.
[A program in C](../../examples/c_program/README.md) is a complete example, and
[ABI stability](abi-stability.md) lists what does not change.
"""

COMMENT = re.compile(r"^/\*!(.*?)\*/\n((?:(?!^/\*!).)*)", re.DOTALL | re.MULTILINE)
GROUP = re.compile(r"\\name (.*?)\n(.*)", re.DOTALL)
NAME = re.compile(
    r"#define (\w+)|\(\*(\w+)\)|^\} (\w+);|(?:struct|enum|union) (\w+)(?: \{|;)|(\w+)\(|(\w+);",
    re.MULTILINE,
)


def page() -> str:
    """Return the page."""
    parts = [HEAD.rstrip()]
    for title, headers in GROUPS.items():
        parts.append(f"## {title}")
        parts += [_header(name) for name in headers]
    return "\n\n".join(parts) + "\n"


def _header(name: str) -> str:
    text = (HEADERS / name).read_text(encoding="utf-8")
    parts = [f"### tvm/runtime/{name}"]
    for comment, following in COMMENT.findall(text):
        words = _plain(comment)
        if "\\file" in words:
            parts.append(_prose(re.sub(r"\\file \S+\n", "", words)))
        elif GROUP.match(words.strip()):
            title, more = GROUP.match(words.strip()).groups()
            parts.append(f"**{title}**")
            parts.append(_prose(more.replace("@{", "")))
        else:
            declaration = _declaration(following)
            if declaration and "@}" not in words and "__declspec" not in declaration:
                name = _name(declaration)
                head = f"#### `{name}`" if name.isidentifier() else "#### Constants"
                code = f"```c\n{declaration}\n```"
                parts += [head, code, _prose(words)]
    return "\n\n".join(part for part in parts if part)


def _plain(comment: str) -> str:
    """A comment without its stars."""
    lines = [re.sub(r"^ ?\* ?", "", line) for line in comment.strip("\n").splitlines()]
    return "\n".join(lines).strip() + "\n"


def _declaration(text: str) -> str:
    """The declaration that follows a comment, to its end, without the marks of a build."""
    kept: list[str] = []
    for line in text.splitlines():
        if not kept and (not line or (line.startswith("#") and not line.startswith("#define"))):
            if not line:
                return ""
            continue
        kept.append(line)
        depth = sum(each.count("{") - each.count("}") for each in kept)
        macro = kept[0].startswith("#define")
        if (macro and not line.endswith("\\")) or (
            not macro and line.endswith((";", "}")) and not depth
        ):
            break
    text = "\n".join(kept)
    inline = re.match(r"(static inline [^{]*?) \{\n", text)
    text = f"{inline[1]};" if inline else text
    return re.sub(r"\b(TVM_DLL|TVMRT_API) ", "", text).strip()


def _name(declaration: str) -> str:
    closing = re.search(r"^\} (\w+);", declaration, re.MULTILINE)
    if closing:
        return closing[1]
    match = NAME.search(declaration)
    return (
        next(name for name in match.groups() if name)
        if match
        else declaration.split("\n", maxsplit=1)[0]
    )


def _prose(text: str) -> str:
    """A comment's words as Markdown: parameters are a list, Errors and Threads begin lines."""
    text = text.replace("\\brief ", "").replace("\\note ", "")
    text = re.sub(r"^(    .*(?:\n(?:    .*)?)*)", _code, text, flags=re.MULTILINE)
    text = re.sub(r"^\\param +(\S.*?) +\[([^\]]*)\] +", r"- `\1` (\2): ", text, flags=re.MULTILINE)
    text = re.sub(r"^\\param +(\S+) +", r"- `\1`: ", text, flags=re.MULTILINE)
    text = re.sub(r"^\\return(?:s)? ", r"\n**Returns** ", text, flags=re.MULTILINE)
    text = re.sub(r"^(Errors|Threads|Cost|Source): +", r"\n**\1** ", text, flags=re.MULTILINE)
    text = re.sub(r"^(Life of a \w+):", r"- \1:", text, flags=re.MULTILINE)
    text = re.sub(r"^((?! ?- |  ).+)\n( ?- )", r"\1\n\n\2", text, flags=re.MULTILINE)
    text = re.sub(r"<(\w+)>", r"`<\1>`", text)
    return re.sub(r"\n{3,}", "\n\n", text).strip()


def _code(match: re.Match[str]) -> str:
    """Lines that are set off; those that go on with a parameter are not."""
    before = match.string[: match.start()].rstrip("\n").rpartition("\n")[2]
    if match.string[: match.start()].endswith("\n\n") and not before.startswith("\\param"):
        lines = match[1].rstrip("\n").splitlines()
        return "\n```text\n" + "\n".join(line[4:] for line in lines) + "\n```\n\n"
    return match[1]
