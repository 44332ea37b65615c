"""Write the C source of tvmrt.runtime._capi, a cffi module (API mode) for the project's headers.

The declarations come from the headers after preprocessing. The C compiler checks the module
against the headers again, so the two cannot diverge.
"""

from __future__ import annotations

import argparse
import re
import subprocess
from pathlib import Path

import cffi

HEADERS = (
    "tvm/runtime/c_packed_func.h",
    "tvm/runtime/c_backend_api.h",
    "tvm/runtime/c_runtime_api.h",
    "tvm/runtime/metadata.h",
)
MODULE = "tvmrt.runtime._capi"


def preprocess(compiler: list[str], include: Path) -> str:
    """Return the headers after preprocessing, with line markers that name the files."""
    source = "".join(f"#include <{header}>\n" for header in HEADERS)
    command = [*compiler, "-E", "-x", "c", "-std=c11", "-I", str(include), "-"]
    done = subprocess.run(command, input=source, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr}")
    return done.stdout


def own_lines(text: str, include: Path) -> tuple[str, set[str]]:
    """Return the lines from files below `include`, and the names of those files."""
    kept, files, own = [], set(), False
    for line in text.splitlines():
        marker = re.match(r'#\s+\d+\s+"(.*?)"', line)
        if marker:
            own = Path(marker[1]).is_relative_to(include)
            if own:
                files.add(marker[1])
        elif own:
            kept.append(line)
    return "\n".join(kept), files


def drop_balanced(text: str, start: str, opening: str, closing: str) -> str:
    """Remove every match of `start` together with the balanced brackets that follow it."""
    while match := re.search(start, text):
        at = text.index(opening, match.start())
        depth, end = 0, at
        while True:
            depth += {opening: 1, closing: -1}.get(text[end], 0)
            end += 1
            if depth == 0:
                break
        text = text[: match.start()] + text[end:]
    return text


def declarations(text: str) -> str:
    """Remove the C constructs that cffi cannot read: attributes, assertions and bodies."""
    text = drop_balanced(text, r"__attribute__\s*\(", "(", ")")
    text = drop_balanced(text, r"_Static_assert\s*\(", "(", ")")
    text = drop_balanced(text, r"static\s+inline\s[^;{]*\{", "{", "}")
    text = re.sub(r"\b(_Noreturn|__extension__|__restrict|restrict)\b", "", text)
    return re.sub(r"(\d)U\b|(\d)UL\b", r"\1\2", text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--depfile", type=Path, required=True)
    parser.add_argument("--include", type=Path, required=True)
    parser.add_argument("compiler", nargs="+")
    args = parser.parse_args()
    text, files = own_lines(preprocess(args.compiler, args.include), args.include)
    ffi = cffi.FFI()
    ffi.set_source(MODULE, "".join(f"#include <{header}>\n" for header in HEADERS))
    ffi.cdef(declarations(text) + "\nvoid free(void* pointer);\n")
    ffi.emit_c_code(str(args.output))
    args.depfile.write_text(f"{args.output}: {' '.join(sorted(files))}\n")


if __name__ == "__main__":
    main()
