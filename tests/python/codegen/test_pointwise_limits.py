"""Every pointwise operator on every type, with values at the limits.

The C has no undefined behaviour, and its results equal folded constants.
"""

from __future__ import annotations

import itertools
import shutil
import subprocess

import numpy as np
import pytest
from contract_samples import sample

from tvmrt.compiler.codegen.loops.pointwise import expression
from tvmrt.compiler.ir import DTYPES, OPS, Node, TensorType, Value
from tvmrt.compiler.ir.conversion import Cast, PowInteger
from tvmrt.compiler.ir.pointwise import PointwiseOp
from tvmrt.libinfo import find_include_path

HALVES = ("float16", "bfloat16")
# types of fewer bits have operators of their own
CAST = [name for name, dtype in DTYPES.items() if not dtype.is_low_bit]
NUMBERS = [name for name in CAST if name not in HALVES]


def limit_values(name: str) -> np.ndarray:
    """Return the limits of a type, the values next to them, and small numbers."""
    dtype = DTYPES[name]
    if name == "bool":
        return np.array([False, True])
    if dtype.is_int:
        info = np.iinfo(dtype.numpy)
        small = [0, 1, 2, 3, 7, 31, 32, 63, 64, info.max, info.max - 1, info.min, info.min + 1]
        signed = [-1, -2, -31, -32, -64] if dtype.is_signed else [info.max // 2]
        return np.array(small + signed, dtype.numpy)
    limits = [2.0**k for k in (7, 8, 15, 16, 31, 32, 63, 64)]
    parts = [0.0, 0.5, 1.0, 1.5, 1e-45, 1e-38, 3e38, *limits, np.inf, np.nan]
    both = np.array([s * p for p in parts for s in (1, -1)])
    with np.errstate(over="ignore"):
        return both.astype(np.float32).astype(dtype.numpy)


def signatures():
    """Return each operator with its operand types and attributes."""
    for name, rule in OPS.items():
        if isinstance(rule, Cast):
            for source, to in itertools.product(CAST, CAST):
                half = (source in HALVES, to in HALVES)
                if not any(half) or "float32" in (source, to):
                    yield name, [source], {"to": to}
        elif isinstance(rule, PowInteger):
            wholes = [n for n in NUMBERS if DTYPES[n].is_int]
            for pair in itertools.product([n for n in NUMBERS if DTYPES[n].is_signed], wholes):
                yield name, list(pair), {}
        elif isinstance(rule, PointwiseOp):
            for dtype in NUMBERS:
                if rule.template(DTYPES[dtype]) is not None:
                    expected = sample(name, {"E": dtype})
                    yield name, [t.dtype.name for t in expected.types], expected.attrs


class Call:
    """One operator on all combinations of limit values."""

    def __init__(self, op: str, types: list[str], attrs: dict) -> None:
        self.id = "-".join([op, *types, *(v for v in attrs.values() if isinstance(v, str))])
        grids = np.meshgrid(*(np.arange(limit_values(t).size) for t in types), indexing="ij")
        self.operands = [limit_values(t)[g.reshape(-1)] for t, g in zip(types, grids)]
        shape = self.operands[0].shape
        values = [Value(f"v{i}", TensorType(shape, DTYPES[t])) for i, t in enumerate(types)]
        self.node = Node(op, values, attrs, op, ())
        (made,) = OPS[op].infer([v.type for v in values], attrs)
        self.node.outputs = [Value("y", made, self.node)]
        with np.errstate(all="ignore"):
            self.wanted = OPS[op].evaluate(self.operands, attrs)[0].astype(made.dtype.numpy)

    def c(self, number: int) -> tuple[str, str]:
        """Return the C function and its header."""
        names = {v: f"a{i}[i]" for i, v in enumerate(self.node.inputs)}
        text, header = expression(self.node, names)
        operands = [f"const {v.dtype.c} *a{i}" for i, v in enumerate(self.node.inputs)]
        out = self.node.output.dtype.c
        loads = "".join(f"const {v.dtype.c} x{i} = a{i}[i]; " for i, v in enumerate(names))
        for i in range(len(operands)):
            text = text.replace(f"a{i}[i]", f"x{i}")
        head = f"static void f{number}({', '.join(operands)}, {out} *y, int n)"
        body = f"for (int i = 0; i < n; i++) {{ {loads}y[i] = {text}; }}"
        return f"{head} {{ {body} }}", header

    def run(self, number: int) -> str:
        """Return the statements that read the operands, compute, and write the result."""
        arrays = [*(v.dtype.c for v in self.node.inputs), self.node.output.dtype.c]
        n = self.wanted.size
        lines = [f"static {kind} b{i}[{n}];" for i, kind in enumerate(arrays)]
        last = len(arrays) - 1
        lines += [
            f"if (fread(b{i}, sizeof *b{i}, {n}, stdin) != {n}) return 1;" for i in range(last)
        ]
        names = ", ".join(f"b{i}" for i in range(last + 1))
        lines += [f"f{number}({names}, {n});", f"fwrite(b{last}, sizeof *b{last}, {n}, stdout);"]
        return "{ " + " ".join(lines) + " }"


CALLS = [Call(*each) for each in signatures()]
BUILDS = {
    "sanitised": ["-O1", "-fsanitize=undefined,float-cast-overflow", "-fno-sanitize-recover=all"],
    "vectors": ["-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math"],
}


@pytest.fixture(scope="module", params=BUILDS)
def results(request, tmp_path_factory):
    """Return the results of all calls in one program."""
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    folder = tmp_path_factory.mktemp("hostile")
    functions = [call.c(number) for number, call in enumerate(CALLS)]
    headers = sorted({header for _, header in functions if header})
    lines = ["#include <math.h>", "#include <stdio.h>", "#include <stdint.h>"]
    lines += [f"#include <tvm/runtime/kernels/{h}>" for h in headers]
    lines += [text for text, _ in functions]
    lines += ["int main(void) {", *(c.run(i) for i, c in enumerate(CALLS)), "return 0; }"]
    (folder / "all.c").write_text("\n".join(lines))
    flags = ["-std=c99", "-D_POSIX_C_SOURCE=200809L", *BUILDS[request.param]]
    includes = [f"-I{path}" for path in find_include_path()]
    command = ["gcc", *flags, *includes, "all.c", "-o", "all", "-lm"]
    subprocess.run(command, cwd=folder, check=True)
    given = b"".join(a.tobytes() for call in CALLS for a in call.operands)
    done = subprocess.run([folder / "all"], input=given, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    found, at = {}, 0
    for call in CALLS:
        wanted = call.wanted
        found[call.id] = np.frombuffer(done.stdout, wanted.dtype, wanted.size, at)
        at += wanted.nbytes
    assert at == len(done.stdout)
    return found


def by_types() -> dict[str, list[Call]]:
    """Group the calls by the types of the first operand and of the result."""
    groups: dict[str, list[Call]] = {}
    for call in CALLS:
        pair = (call.node.inputs[0].dtype.name, call.node.output.dtype.name)
        groups.setdefault("-".join(pair), []).append(call)
    return groups


GROUPS = by_types()


@pytest.mark.slow
@pytest.mark.parametrize("types", GROUPS)
def test_limits_are_defined(results, types):
    for call in GROUPS[types]:
        got, wanted = results[call.id], call.wanted
        if wanted.dtype.kind in "iub":
            np.testing.assert_array_equal(got, wanted, err_msg=call.id)
            continue
        pair = [a.astype(np.float64) for a in (got, wanted)]
        rtol = 1e-6 if wanted.itemsize == 4 else 1e-12
        np.testing.assert_allclose(*pair, rtol=rtol, atol=1e-37, err_msg=call.id)
