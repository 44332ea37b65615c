"""Every pointwise expression compiles with the headers that are included for it, and no others."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator

import pytest

from tvmrt.codegen.chain import expression, headers_of
from tvmrt.ir import DTYPES, Builder, Graph, Node, TensorType, Value
from tvmrt.ir.op import OPS
from tvmrt.ir.pointwise import BitCast, Cast, PointwiseOp
from tvmrt.libinfo import find_include_path

ATTRIBUTES = {"is_inf": {"positive": 1, "negative": 1}}


def emitted(op: str, dtypes: list[str], **attrs) -> Node | None:
    """The node over inputs of these types; None where the operator is not defined for them."""
    graph = Graph("test")
    inputs = [Value(f"x{i}", TensorType((2,), DTYPES[name])) for i, name in enumerate(dtypes)]
    try:
        Builder(graph).emit(op, inputs, "test", **attrs)
    except ValueError:
        return None
    return graph.nodes[-1]


def nodes() -> Iterator[Node]:
    for name, op in OPS.items():
        for dtype in DTYPES:
            if isinstance(op, PointwiseOp):
                template = op.template(DTYPES[dtype])
                if template is not None:
                    count = 1 + max(i for i in range(3) if f"{{{i}}}" in template)
                    types = ["bool"] * op.data_from + [dtype] * (count - op.data_from)
                    yield emitted(name, types, **ATTRIBUTES.get(name, {}))
            elif isinstance(op, (Cast, BitCast)):
                for to in DTYPES:
                    yield emitted(name, [dtype], to=to)


def by_headers() -> dict[tuple[str, ...], list[str]]:
    """C functions, one an expression, grouped by the headers that they ask for."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for number, node in enumerate(n for n in nodes() if n is not None):
        text = expression(node, {v: v.name for v in node.inputs})
        parameters = ", ".join(f"{v.dtype.c} {v.name}" for v in node.inputs)
        group = groups.setdefault(tuple(headers_of(text)), [])
        group.append(
            f"{node.output.dtype.c} f{number}({parameters});\n"
            f"{node.output.dtype.c} f{number}({parameters}) {{ return {text}; }}"
        )
    return groups


GROUPS = by_headers()


@pytest.mark.parametrize("headers", GROUPS, ids=lambda headers: "+".join(headers) or "none")
def test_expressions_have_their_headers(headers, tmp_path):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    # what each generated file includes
    includes = ["math.h", "stdint.h", *(f"tvm/runtime/kernels/{h}" for h in headers)]
    source = tmp_path / "scalars.c"
    lines = [f"#include <{name}>" for name in includes]
    source.write_text("\n".join([*lines, *GROUPS[headers]]) + "\n")
    paths = [f"-I{path}" for path in find_include_path()]
    command = [compiler, "-std=c99", "-fsyntax-only", "-Werror=implicit-function-declaration"]
    done = subprocess.run([*command, *paths, source], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_family_of_headers_is_met():
    met = {name for headers in GROUPS for name in headers}
    assert met == {"scalar_half.h", "scalar_int.h", "scalar_inverse.h", "scalar_math.h"}
