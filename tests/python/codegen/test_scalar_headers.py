"""Every pointwise expression compiles with its own header alone."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator

import pytest
from contract_samples import sample

from tvmrt.compiler.codegen.loops.pointwise import expression
from tvmrt.compiler.ir import DTYPES, Builder, Graph, Node, TensorType, Value
from tvmrt.compiler.ir.conversion import BitCast, Cast, PowInteger
from tvmrt.compiler.ir.op import OPS
from tvmrt.compiler.ir.pointwise import PointwiseOp
from tvmrt.compiler.ir.quantized import Dequantize, Quantize
from tvmrt.libinfo import find_include_path


def emitted(op: str, dtypes: list[str], **attrs) -> Node | None:
    """Return the node over inputs of these types; None if the operator does not support them."""
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
                    expected = sample(name, {"E": dtype})
                    yield emitted(name, [t.dtype.name for t in expected.types], **expected.attrs)
            elif isinstance(op, (Cast, BitCast)):
                for to in DTYPES:
                    yield emitted(name, [dtype], to=to)
            elif isinstance(op, PowInteger):
                for exponent in DTYPES:
                    yield emitted(name, [dtype, exponent])
            elif isinstance(op, Quantize):
                yield emitted(name, ["float32", "float32", dtype])
            elif isinstance(op, Dequantize):
                yield from (emitted(name, [dtype, f, dtype]) for f in ("float32", "float64"))


def by_header() -> dict[str, list[str]]:
    """Return C functions, one per expression, grouped by the header they need."""
    groups: dict[str, list[str]] = {}
    for number, node in enumerate(n for n in nodes() if n is not None):
        text, header = expression(node, {v: v.name for v in node.inputs})
        parameters = ", ".join(f"{v.dtype.c} {v.name}" for v in node.inputs)
        group = groups.setdefault(header, [])
        group.append(
            f"{node.output.dtype.c} f{number}({parameters});\n"
            f"{node.output.dtype.c} f{number}({parameters}) {{ return {text}; }}"
        )
    return groups


GROUPS = by_header()


@pytest.mark.parametrize("header", GROUPS, ids=lambda header: header or "none")
def test_expressions_have_their_header(header, tmp_path):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    # headers of every generated file
    includes = ["math.h", "stdint.h", *([f"tvm/runtime/kernels/{header}"] if header else [])]
    source = tmp_path / "scalars.c"
    lines = [f"#include <{name}>" for name in includes]
    source.write_text("\n".join([*lines, *GROUPS[header]]) + "\n")
    paths = [f"-I{path}" for path in find_include_path()]
    command = [compiler, "-std=c99", "-fsyntax-only", "-Werror=implicit-function-declaration"]
    done = subprocess.run([*command, *paths, source], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
