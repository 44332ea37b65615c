"""Many networks in one shared library, so that the C compiler reads the kernel headers once."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx

import tvmrt
from tvmrt.compiler.export.blob import include_bytes_assembly
from tvmrt.compiler.export.library import CompiledLibrary
from tvmrt.compiler.export.toolchain import COMMON, find_compiler
from tvmrt.contrib import graph_executor
from tvmrt.contrib.graph_executor import GraphModule
from tvmrt.error import UnsupportedError
from tvmrt.libinfo import find_include_path

# Symbols that are private to a network's entry file and have equal names in all of them.
_OWN = re.compile(r"^static .*?\b(\w+)(?:\[\])* ?(?:=|\()|^  (\w+) = \d+,$", re.MULTILINE)
# Functions that executors look up in a library, which only one network may define.
_LOOKED_UP = re.compile(r"^int32_t (get_\w+)\(", re.MULTILINE)
_ABOUT = {"get_model_metadata", "__tvmrt_manifest", "__tvmrt_needs"}
_NEEDED = re.compile(r'"([^"]+)": VALUE')  # inputs whose value an error asks for
_ONCE = re.compile(r"^(TVMRT_DEFINE\w*\([^;{]*?\))$", re.MULTILINE)


Values = Mapping[str, Sequence[int]]  # of inputs that the compiler must know, by name


def compile_alone(model: onnx.ModelProto, name: str, values: Values) -> CompiledLibrary:
    """Compile the library as any compiler does: plain kernels, equal on all machines."""
    return tvmrt.compile(model, target="host", module_name=name, executor="graph", values=values)


def with_needed_values(
    make: Callable[[Values], Any], inputs: Mapping[str, Any]
) -> tuple[Any, Values]:
    """Return ``make(values)`` with the values of the inputs that the compiler asks for, and these
    values."""
    values: dict[str, list[int]] = {}
    while True:
        try:
            return make(values), values
        except UnsupportedError as problem:
            needed = set(_NEEDED.findall(str(problem))) - values.keys()
            if not needed:
                raise
            values.update({name: inputs[name].reshape(-1).tolist() for name in needed})


def load_together(libraries: Sequence[CompiledLibrary]) -> list[GraphModule]:
    """Return executors of networks that are compiled into one library.

    Raise CalledProcessError if the C compiler fails.
    """
    with tempfile.TemporaryDirectory(prefix="tvmrt-suite-") as name:
        folder = Path(name)
        sources = [_operators(libraries, folder), _entries(libraries, folder)]
        sources.append(_weights(libraries, folder))
        includes = [f"-I{path}" for path in find_include_path()]
        command = [*find_compiler(), *COMMON, "-O0", "-w", *includes, "-shared"]
        command += [*(source.name for source in sources), "-o", "all.so", "-lm"]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
        module = tvmrt.runtime.load_module(str(folder / "all.so"))
    return [graph_executor.create(lib.get_graph_json(), module, tvmrt.cpu(0)) for lib in libraries]


def _text(library: CompiledLibrary, ending: str) -> str:
    files = library.sources.files.items()
    return "\n".join(text for name, text in files if re.search(ending, name))


def _operators(libraries: Sequence[CompiledLibrary], folder: Path) -> Path:
    """Return the steps of all networks, with each shared tile defined once."""
    texts, seen = [], set()

    def first(match: re.Match) -> str:
        if match[1] in seen:
            return ""
        seen.add(match[1])
        return match[1]

    for library in libraries:
        (folder / f"{library.sources.prefix}_ops.h").write_text(_text(library, r"_ops\.h$"))
        texts.append(_ONCE.sub(first, _text(library, r"_lib[1-9]\d*\.c$")))
    path = folder / "operators.c"
    path.write_text("\n".join(texts))
    return path


def _entries(libraries: Sequence[CompiledLibrary], folder: Path) -> Path:
    """Return the functions that the executors call, with unique names."""
    texts = []
    for number, library in enumerate(libraries):
        text = _text(library, r"_lib0\.c$")
        names = {name for pair in _OWN.findall(text) for name in pair if name}
        names |= _ABOUT | set(_LOOKED_UP.findall(text))
        words = re.compile(rf'(?<![.\w"])(?:{"|".join(sorted(names))})\b')
        texts.append(words.sub(lambda match, n=number: f"n{n}_{match[0]}", text))
    path = folder / "entries.c"
    path.write_text("\n".join(texts))
    return path


def _weights(libraries: Sequence[CompiledLibrary], folder: Path) -> Path:
    texts = []
    for library in libraries:
        name = f"{library.sources.prefix}_weights"
        if library.sources.weights:
            (folder / f"{name}.bin").write_bytes(bytes(library.sources.weights))
            texts.append(include_bytes_assembly(name, f"{name}.bin", len(library.sources.weights)))
    path = folder / "weights.S"
    path.write_text("\n".join(texts))
    return path


def stands_alone(library: CompiledLibrary) -> bool:
    """Whether a network needs a library of its own, by its symbols or its size."""
    large = len(library.sources.weights) > 1 << 20
    macros = any(function.macros for function in library.sources.functions)
    return bool(library.program.has_dynamic_dims() or library.sources.modules or large or macros)
