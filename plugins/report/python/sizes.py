"""Sizes for the report of a network with dimensions that have no bounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tvmrt.compiler.sdk.export import CompiledLibrary


def compile_at_sizes(
    compile_for: Callable[[Mapping[str, Any]], CompiledLibrary], inputs: Mapping[str, Any] | None
) -> tuple[CompiledLibrary, str]:
    """Return a compiled network whose numbers are those of its run, and a text with its sizes.

    Dimensions without bounds get the sizes of ``inputs``, or moderate ones; the text is empty if
    there are none. ``compile_for`` compiles the network with more ``dims``.
    """
    library = compile_for({})
    dims = _dims_of_run(library, inputs or {})
    if not dims:
        return library, ""
    text = ", ".join(f"{name}={size}" for name, size in dims.items())
    return compile_for({name: (size, size) for name, size in dims.items()}), text


def _dims_of_run(library: CompiledLibrary, inputs: Mapping[str, Any]) -> dict[str, int]:
    import numpy as np

    from tvmrt.cli.dynamic_sizes import fitting_sizes
    from tvmrt.compiler.sdk.graph import Extent

    program = library.program
    if not any(label for axes in program.open_axes.values() for label in axes):
        return {}
    (sizes, *_) = fitting_sizes([each.shape for each in program.input_types])
    found: dict[str, int] = {}
    for name, type in zip(program.input_names, program.input_types):
        shape = [n.at(sizes) if isinstance(n, Extent) else n for n in type.shape]
        if name in inputs:
            shape = list(np.shape(inputs[name]))
        labels = program.open_axes.get(name, ())
        found.update({label: int(n) for label, n in zip(labels, shape) if label})
    return found
