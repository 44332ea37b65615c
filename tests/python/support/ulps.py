"""Errors of the float functions in units in the last place (ULP).

Each function is a row: its ONNX form, its C form in double precision, and its error limit. All rows
are compiled as one network by `tvmrt compile`, which computes whole ranges of bit patterns; the C
library in double is the reference. A ULP is the distance between adjacent numbers of the network's
type at the exact result, also for subnormals.
"""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnx.parser

from tvmrt import runtime
from tvmrt.compiler import pipeline

COUNT = 1 << 16  # elements of one run
OPSET = 20


@dataclass(frozen=True)
class Function:
    """``onnx``: statements that make ``y`` of ``x`` (and ``z``); ``c``: the same in double.

    ``limit``: ULP of float32 results. ``of``: the number that defines the ULP, a C expression; the
    result itself, or the argument if the result is a small difference. Results below ``tiny`` may
    be 0. In half precision the result is rounded once more.
    """

    name: str
    onnx: str
    c: str
    limit: float
    of: str = "y"
    tiny: float = 0.0


def plain(name: str, c: str, limit: float, of: str = "y", tiny: float = 0.0) -> Function:
    """Return a function that is one operator without attributes."""
    return Function(name, f"y = {name}(x)", c, limit, of, tiny)


FUNCTIONS = (
    plain("Exp", "exp(x)", 1.5),
    plain("Log", "log(x)", 1.5),
    plain("Sqrt", "sqrt(x)", 0.5),
    plain("Reciprocal", "1 / x", 0.5),
    plain("Sin", "sin(x)", 2),
    plain("Cos", "cos(x)", 2),
    plain("Tan", "tan(x)", 4),
    plain("Asin", "asin(x)", 4),
    plain("Acos", "acos(x)", 4),
    plain("Atan", "atan(x)", 4),
    plain("Sinh", "sinh(x)", 4),
    plain("Cosh", "cosh(x)", 4),
    plain("Tanh", "tanh(x)", 4),
    plain("Asinh", "asinh(x)", 4),
    plain("Acosh", "acosh(x)", 4),
    plain("Atanh", "atanh(x)", 4),
    plain("Erf", "erf(x)", 2),
    plain("Sigmoid", "1 / (1 + exp(-x))", 4, tiny=2**-126),
    plain("Softplus", "x > 40 ? x : log1p(exp(x))", 4, tiny=2**-126),
    plain("Softsign", "isinf(x) ? NAN : x / (1 + fabs(x))", 2),
    plain("Mish", "x * tanh(x > 40 ? x : log1p(exp(x)))", 5, tiny=2**-119),
    plain("Gelu", "0.5 * x * erfc(-x * M_SQRT1_2)", 4, "fabs(x)"),
    Function(
        "Gelu, tanh",
        'y = Gelu <approximate = "tanh"> (x)',
        "x / (1 + exp(-2 * sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)))",
        4,
        "fabs(x)",
    ),
    Function("Swish", "s = Sigmoid(x) y = Mul(x, s)", "x / (1 + exp(-x))", 4, tiny=2**-119),
    plain(
        "HardSigmoid", "isnan(x) ? x : fmax(0, fmin(1, 0.2f * x + 0.5))", 2, "fmax(fabs(x), 0.5)"
    ),
    plain("HardSwish", "x * fmax(0, fmin(1, x / 6 + 0.5))", 2, "fabs(x)"),
    plain("Elu", "x > 0 ? x : expm1(x)", 4),
    plain("Celu", "x > 0 ? x : expm1(x)", 4),
    plain(
        "Selu",
        "1.05070102214813232421875 * (x > 0 ? x : 1.67326319217681884765625 * expm1(x))",
        4,
    ),
    plain("LeakyRelu", "x < 0 ? (double)0.01f * x : x", 0.5),
    plain("Relu", "isnan(x) ? x : fmax(x, 0)", 0),
    plain("Abs", "fabs(x)", 0),
    plain("Neg", "-x", 0),
    plain("Floor", "floor(x)", 0),
    plain("Ceil", "ceil(x)", 0),
    plain("Round", "nearbyint(x)", 0),
    plain("Sign", "isnan(x) ? x : (x > 0) - (x < 0)", 0),
    plain("ThresholdedRelu", "x > 1 ? x : 0", 0),
    Function("Add", "y = Add(x, z)", "x + z", 0.5),
    Function("Sub", "y = Sub(x, z)", "x - z", 0.5),
    Function("Mul", "y = Mul(x, z)", "x * z", 0.5),
    Function("Div", "y = Div(x, z)", "x / z", 0.5),
    Function("Pow", "y = Pow(x, z)", "pow(x, z)", 1),
    Function("Mod, fmod", "y = Mod <fmod = 1> (x, z)", "fmod(x, z)", 0),
    Function("Max", "y = Max(x, z)", "isnan(x) || isnan(z) ? NAN : fmax(x, z)", 0),
    Function("Min", "y = Min(x, z)", "isnan(x) || isnan(z) ? NAN : fmin(x, z)", 0),
)

ONNX_TYPES = {"float32": "float", "float16": "float16", "bfloat16": "bfloat16"}
MANTISSA = {"float32": 23, "float16": 10, "bfloat16": 7}
LEAST = {"float32": -149, "float16": -24, "bfloat16": -133}
MOST = {"float32": 128, "float16": 16, "bfloat16": 128}


def numpy_type(kind: str) -> np.dtype:
    if kind != "bfloat16":
        return np.dtype(kind)
    import ml_dtypes

    return np.dtype(ml_dtypes.bfloat16)


def limit_of(function: Function, kind: str) -> float:
    """Return the limit in ULP of the type; half precision adds its rounding."""
    if kind == "float32" or function.limit == 0:
        return function.limit
    return 0.5 + (function.limit + 0.5) * 2.0 ** (MANTISSA[kind] - MANTISSA["float32"])


class Network:
    """All functions as one compiled network on tensors of one type."""

    def __init__(self, functions: Iterable[Function], kind: str, target: str, folder: Path) -> None:
        self.functions = list(functions)
        self.kind = kind
        path = folder / f"functions_{kind}_{target}.so"
        model = onnx.parser.parse_model(self._text())
        library = pipeline.compile(model, executor="aot", target=target)
        library.export_library(str(path))
        module = runtime.load_module(str(path))["default"](runtime.cpu(0))
        self.executor = runtime.executor.AotModule(module)

    def _text(self) -> str:
        element = ONNX_TYPES[self.kind]
        lines = []
        for number, each in enumerate(self.functions):
            line = each.onnx
            for name in "sy":
                line = line.replace(f"{name} =", f"{name}{number} =").replace(
                    f", {name})", f", {name}{number})"
                )
            lines.append(line)
        inputs, outputs = "xz", [f"y{i}" for i in range(len(self.functions))]
        if self.kind != "float32":  # ONNX has few of them in float16: they run in float32
            code = onnx.TensorProto.DataType.Value(element.upper())
            lines = [f"{name} = Cast<to=1>({name}h)" for name in inputs] + lines
            lines += [f"{name}h = Cast<to={code}>({name})" for name in outputs]
            inputs, outputs = ["xh", "zh"], [f"{name}h" for name in outputs]
        inputs, outputs = (
            ", ".join(f"{element}[{COUNT}] {name}" for name in names) for names in (inputs, outputs)
        )
        return (
            f'<ir_version: 8, opset_import: ["": {OPSET}]> '
            f"functions ({inputs}) => ({outputs}) {{ {' '.join(lines)} }}"
        )

    def results(self, x: np.ndarray, z: np.ndarray) -> Iterator[np.ndarray]:
        self.executor.set_input(0, x)
        self.executor.set_input(1, z)
        self.executor.run()
        for i in range(len(self.functions)):
            yield self.executor.get_output(i).numpy()


class Judge:
    """The functions in double precision, by the C library."""

    def __init__(self, functions: Iterable[Function], folder: Path) -> None:
        text = "#define _GNU_SOURCE\n#include <math.h>\n"
        for number, each in enumerate(functions):
            text += (
                f"void f{number}(const double *xs, const double *zs, double *ys, double *sizes,"
                f" long n) {{ for (long i = 0; i < n; i++) {{ const double x = xs[i], z = zs[i],"
                f" y = {each.c}; (void)z; ys[i] = y; sizes[i] = {each.of}; }} }}\n"
            )
        source, library = folder / "judge.c", folder / "judge.so"
        source.write_text(text)
        command = ["cc", "-std=gnu99", "-O2", "-shared", "-fPIC", source, "-o", library, "-lm"]
        subprocess.run(command, check=True)
        self.library = ctypes.CDLL(str(library))

    def exact(self, number: int, x: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the results, and the numbers that define the ULP."""
        y, sizes = np.empty_like(x), np.empty_like(x)
        pointers = (a.ctypes.data_as(ctypes.c_void_p) for a in (x, z, y, sizes))
        self.library[f"f{number}"](*pointers, ctypes.c_long(x.size))
        return y, sizes


def errors(
    got: np.ndarray, exact: np.ndarray, sizes: np.ndarray, kind: str, tiny: float
) -> np.ndarray:
    """Return errors in ULP; infinite if only one of the two is NaN."""
    exact = np.where((got == 0) & (np.abs(exact) < tiny), 0.0, exact)
    most = 2.0 ** MOST[kind]
    exact, sizes = np.clip(exact, -most, most), np.clip(np.abs(sizes), 0, most / 2)
    _, exponents = np.frexp(np.where(np.isnan(sizes), 1, sizes))
    units = np.ldexp(1.0, np.maximum(exponents - MANTISSA[kind] - 1, LEAST[kind]))
    with np.errstate(invalid="ignore"):
        error = np.abs(np.clip(got.astype(np.float64), -most, most) - exact) / units
    nan = np.isnan(got), np.isnan(exact)
    return np.where(nan[0] & nan[1], 0.0, np.where(nan[0] != nan[1], np.inf, error))


def patterns(kind: str, stride: int) -> Iterator[np.ndarray]:
    """Return numbers by bit pattern, COUNT at a time: every stride-th, and those next to all powers
    of two; in half precision all."""
    dtype = numpy_type(kind)
    if dtype.itemsize == 2:
        yield np.arange(1 << 16, dtype=np.uint32).astype(np.uint16).view(dtype)
        return
    powers = np.arange(512, dtype=np.uint32)[:, None] << 23
    bounds = powers + np.array([0, 1, 2, 1 << 22, (1 << 23) - 2, (1 << 23) - 1], np.uint32)
    yield np.resize(bounds.reshape(-1), COUNT).view(dtype)
    for first in range(0, 1 << 32, stride * COUNT):
        bits = (first + stride * np.arange(COUNT, dtype=np.uint64)) % (1 << 32)
        yield bits.astype(np.uint32).view(dtype)


def partners(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return second operands: random bits, ordinary and special numbers, and those next to x."""
    bits = x.view(np.uint16 if x.dtype.itemsize == 2 else np.uint32)
    any_bits = rng.integers(0, 1 << (8 * x.dtype.itemsize), x.size, np.uint32)
    z = any_bits.astype(bits.dtype).view(x.dtype).copy()
    with np.errstate(over="ignore", invalid="ignore"):
        z[1::4] = rng.uniform(-20, 20, z[1::4].size).astype(np.float32).astype(x.dtype)
        z[2::16] = rng.integers(-9, 9, z[2::16].size).astype(np.float32).astype(x.dtype)
    z[3::16] = np.resize(
        np.array([0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 0.5, 2], x.dtype), z[3::16].size
    )
    z[5::16] = (bits[5::16] ^ np.asarray(1, bits.dtype)).view(x.dtype)
    return z


def in_double(x: np.ndarray) -> np.ndarray:
    """Return the numbers in double, with quiet NaN only, because C's pow() distinguishes them."""
    with np.errstate(invalid="ignore"):
        wide = x.astype(np.float64)
    return np.where(np.isnan(wide), np.nan, wide)


@dataclass
class Worst:
    """The largest error found, and its operands."""

    units: float = 0.0
    x: float = 0.0
    z: float = 0.0


def measure(kind: str, target: str, stride: int, folder: Path) -> dict[str, Worst]:
    """Return the largest error of every function for a type, by name."""
    network, judge = Network(FUNCTIONS, kind, target, folder), Judge(FUNCTIONS, folder)
    worst = {each.name: Worst() for each in FUNCTIONS}
    rng = np.random.default_rng(0)
    for x in patterns(kind, stride):
        z = partners(x, rng)
        wide = in_double(x), in_double(z)
        for number, got in enumerate(network.results(x, z)):
            function = FUNCTIONS[number]
            error = errors(got, *judge.exact(number, *wide), kind, function.tiny)
            at = int(np.argmax(error))
            found = worst[function.name]
            if error[at] > found.units:
                found.units, found.x, found.z = float(error[at]), float(x[at]), float(z[at])
    return worst
