"""Compilation of a network whose file leaves dimensions open.

On hosts these dimensions have no bounds, because each run plans its memory. On boards they must be
declared, since memory is planned for the largest sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tvmrt.compiler.codegen.target import is_unhosted
from tvmrt.compiler.export.library import CompiledLibrary
from tvmrt.compiler.ir.program import Program
from tvmrt.compiler.ir.sizes import INT_MAX
from tvmrt.compiler.request import Request
from tvmrt.error import UnboundedDimensionsError
from tvmrt.option_syntax import option

UNBOUNDED = (1, INT_MAX)


def compile_with_open_dims(
    request: Request, attempt: Callable[[Request], CompiledLibrary]
) -> CompiledLibrary:
    """Call ``attempt`` with the request, in which dimensions that nobody declared have no bounds.

    Raises UnboundedDimensionsError for a board, and if the number of an input's axes is unknown.
    """
    try:
        library = attempt(request)
        library.program.open_axes = _fixed_axes(library.program, request.dims or {})
        return library
    except UnboundedDimensionsError as error:
        if not error.names:
            raise
        problem = error
    library = attempt(with_open_dims(request, problem.names))
    labels = library.program.open_axes
    library.program.open_axes = {
        name: [label if label in problem.names else None for label in axes]
        for name, axes in labels.items()
    }
    return library


def _fixed_axes(program: Program, declared: Mapping[str, Any]) -> dict[str, list[str | None]]:
    """Return the open axes that were compiled for the one size that the file has as an example."""
    shapes = dict(zip(program.input_names, (each.shape for each in program.input_types)))
    return {
        name: [
            label if isinstance(extent, int) and label not in declared else None
            for label, extent in zip(axes, shapes[name])
        ]
        for name, axes in program.open_axes.items()
        if name in shapes
    }


def with_open_dims(request: Request, names: tuple[str, ...]) -> Request:
    """Return the request with dimensions that have no bounds. Raises UnboundedDimensionsError for
    a board."""
    if is_for_board(request):
        example = option("dims", dict.fromkeys(names, (1, 8)))
        raise UnboundedDimensionsError(
            "memory of a C program is fixed when it is compiled, for the largest sizes; declare "
            f"bounds of {', '.join(names)}, for example {example}",
            names,
        )
    return replace(request, dims={**(request.dims or {}), **dict.fromkeys(names, UNBOUNDED)})


def is_for_board(request: Request) -> bool:
    """Return whether memory is planned before a run, for the largest sizes."""
    return bool(request.board or request.runtime == "crt" or is_unhosted(request.target))
