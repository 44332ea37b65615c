"""Loops over elements as calls of functions of rows: the same numbers as libtcc's loops."""

import ctypes
import random
import re

import numpy as np
import pytest

from tvmrt.error import CompileError
from tvmrt.plugins.kernel_pack import link, pack
from tvmrt.plugins.kernel_pack import row_functions as rows
from tvmrt.plugins.kernel_pack.row_loops import PIECE, with_rows

pytestmark = pytest.mark.skipif(bool(pack.why_missing()), reason=pack.why_missing() or "-")

TYPES = {
    "float": np.float32,
    "double": np.float64,
    "int8_t": np.int8,
    "uint8_t": np.uint8,
    "int16_t": np.int16,
    "uint16_t": np.uint16,
    "int32_t": np.int32,
    "uint32_t": np.uint32,
    "int64_t": np.int64,
    "uint64_t": np.uint64,
}
FUNCTIONS = (
    *(f"tvmrt_{n}_f32" for n in ("max", "min", "abs", "exp", "tanh", "sigmoid", "silu", "floor")),
    *(
        "tvmrt_clamp_f32",
        "tvmrt_round_even_f32",
        "sqrtf",
        "fmodf",
        "sqrt",
        "exp",
        "tvmrt_isnan_f32",
    ),
    *("tvmrt_f32_to_int8", "tvmrt_f32_to_uint8", "tvmrt_f32_to_int32", "tvmrt_f64_to_int64"),
    *("tvmrt_quantize_int8", "tvmrt_quantize_uint8", "tvmrt_dequantize", "tvmrt_div_int32"),
    *("tvmrt_floor_mod_int64", "tvmrt_float16_to_f32", "tvmrt_f32_to_float16"),
    *("tvmrt_round_and_add_zero_point", "tvmrt_fixed_requantize", "tvmrt_bits_f32"),
)
FLOATS = ("float", "double")


def _signatures():
    return pack.find_pack().scalar_functions


class _Draw:
    """Draws the C of loops."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.names = {}

    def leaf(self):
        if self.names and self.random.random() < 0.75:
            return self.random.choice(sorted(self.names.items()))
        return self.random.choice(
            (("1.5f", "float"), ("-0.25f", "float"), ("3", "int32_t"), ("7u", "uint32_t"))
        )

    def expression(self, depth):
        """Return C without undefined behaviour, and its type."""
        if depth == 0 or self.random.random() < 0.15:
            return self.leaf()
        kind = self.random.choice(("call", "binary", "binary", "unary", "cast", "select"))
        a, a_type = self.expression(depth - 1)
        if kind == "cast":
            wider = [t for t in TYPES if not (a_type in FLOATS and t not in FLOATS)]
            to = self.random.choice(wider)
            return f"({to})({a})", to
        if kind == "unary":
            return f"-({a})", self.common(a_type)
        if kind == "call":
            return self.called(depth)
        b, b_type = self.expression(depth - 1)
        common = self.common(a_type, b_type)
        if kind == "select":
            c, _ = self.expression(depth - 1)
            return f"({c} > 1 ? {a} : {b})", common
        signs = ["+", "-", "*", "<", "<=", "==", "!=", "&&", "||"]
        signs += ["/"] if common in FLOATS else ["&", "|", "^"]
        sign = self.random.choice(signs)
        if sign in ("&&", "||"):
            return f"(({a}) > 0 {sign} ({b}) < 2)", "int32_t"
        return f"(({a}) {sign} ({b}))", common if sign in "+-*/&|^" else "int32_t"

    def common(self, *types):
        ranks = ("int32_t", "uint32_t", "int64_t", "uint64_t", "float", "double")
        return max((t if t in ranks else "int32_t" for t in types), key=ranks.index)

    def called(self, depth):
        name = self.random.choice(FUNCTIONS)
        result, operands = _signatures()[name]
        texts = []
        for i, kind in enumerate(operands):
            text, of = self.expression(depth - 1) if i < 2 else self.leaf()
            if "requantize" in name and i:
                text = ("1 << 30", "-2", "3", "-100", "100")[i - 1]
            elif of in FLOATS and kind not in FLOATS:
                text = "5"
            elif "quantize" in name and i == 1:
                text = "0.125f"
            texts.append(text if of == kind else f"({kind})({text})")
        return f"{name}({', '.join(texts)})", result

    def function(self, name):
        """Return a function with one loop, its parameters (types and steps) and its result."""
        kinds = [
            (self.random.choice(list(TYPES)), self.random.choice((0, 1, 1, 1, 3))) for _ in range(3)
        ]
        lines = []
        for i, (kind, step) in enumerate(kinds):
            index = {0: "0", 1: "i"}.get(step, f"i * {step}")
            lines.append(f"const {kind} a{i} = x{i}[{index}];")
            self.names[f"a{i}"] = kind
        for i in range(self.random.randint(1, 3)):
            text, kind = self.expression(3)
            lines.append(f"const {kind} v{i} = {text};")
            self.names[f"v{i}"] = kind
        result = self.random.choice(("float", "double", kind) if kind in FLOATS else list(TYPES))
        step = self.random.choice((1, 1, 2))
        lines.append(f"y[{'i' if step == 1 else f'i * {step}'}] = v{i};")
        parameters = "".join(f"const {kind} *restrict x{i}, " for i, (kind, _) in enumerate(kinds))
        body = "\n".join(f"    {line}" for line in lines)
        return (
            (
                f"int32_t {name}({parameters}{result} *restrict y, int n) {{\n"
                f"  for (int i = 0; i < n; ++i) {{\n{body}\n  }}\n  return 0;\n}}\n"
            ),
            kinds,
            (result, step),
        )


def _built(text, folder, name):
    with link._LOCK, link._Compiler(pack.find_pack()) as compiler:
        compiler.compile({"loops.c": text}, pack.find_pack().header)
        compiler.link(folder / f"{name}.so")
    return ctypes.CDLL(str(folder / f"{name}.so"))


def _values(rng, kind, size):
    dtype = np.dtype(TYPES[kind])
    if dtype.kind == "f":
        return (rng.standard_normal(size) * 4).astype(dtype)
    values = rng.integers(-100 if dtype.kind == "i" else 0, 100, size)
    return values.astype(dtype)


def _pointer(array):
    return ctypes.c_void_p(array.ctypes.data)


@pytest.mark.parametrize("seed", range(1))
def test_drawn_loops(seed, tmp_path):
    """All of 240 drawn loops become calls, with the numbers of the scalar loops."""
    drawn = [(f"f{i}", *_Draw(1000 * seed + i).function(f"f{i}")) for i in range(240)]
    text = "".join(each[1] for each in drawn)
    converted = with_rows(text, _signatures())
    assert len(re.findall("tvmrt_n = ", converted)) == len(drawn)
    plain, changed = _built(text, tmp_path, "plain"), _built(converted, tmp_path, "rows")
    rng = np.random.default_rng(seed)
    for size in (1, 7, PIECE, 2 * PIECE + 3):
        for name, source, kinds, (result, step) in drawn:
            inputs = [_values(rng, kind, 3 * size) for kind, _ in kinds]
            found = []
            for library in (plain, changed):
                y = np.zeros(size * step, TYPES[result])
                getattr(library, name)(*map(_pointer, inputs), _pointer(y), size)
                found.append(y)
            np.testing.assert_array_equal(*found, err_msg=source)


SUM = """
float total(const float *restrict x, int n) {
  float acc = 2.0f;
  TVMRT_SIMD_REDUCTION(+, acc)
  for (int i = 0; i < n; ++i) {
    const float a = x[i];
    const float mul_1 = a * a;
    acc = acc + mul_1;
  }
  return acc;
}
int32_t whole(const int32_t *restrict x, int n) {
  int32_t acc = 5;
  for (int i = 0; i < n; ++i) {
    acc += x[i];
  }
  return acc;
}
uint32_t any(const float *restrict x, int n) {
  uint32_t far = 0;
  for (int i = 0; i < n; ++i) {
    far |= tvmrt_is_large_angle_f32(x[i]);
  }
  return far;
}
"""


def test_sums(tmp_path):
    text = with_rows(SUM, _signatures())
    assert text.count("tvmrt_row_fold_") == 6  # declared and called
    library = _built(text, tmp_path, "sums")
    library.total.restype, library.any.restype = ctypes.c_float, ctypes.c_uint32
    for size in (0, 1, 600):
        x = np.random.default_rng(size).standard_normal(size).astype(np.float32)
        expected = 2 + np.sum(x.astype(np.float64) ** 2)
        assert library.total(_pointer(x), size) == pytest.approx(expected, rel=1e-5)
        n = np.arange(size, dtype=np.int32)
        assert library.whole(_pointer(n), size) == 5 + n.sum()
    x = np.zeros(600, np.float32)
    assert library.any(_pointer(x), 600) >> 31 == 0
    x[555] = 1e30
    assert library.any(_pointer(x), 600) >> 31 == 1


INLINED = """
static inline float element(int32_t acc, float scale, float low) {
  const float sum = tvmrt_int32_to_f32(acc) * scale;
  return tvmrt_max_f32(sum, low);
}
int32_t rows(const int32_t *restrict acc, const float *restrict scale, float *restrict row,
             int channels) {
  int c = 0;
  for (; c + 16 <= channels; c += 16) {
    TVMRT_SIMD
    for (int i = 0; i < 16; ++i) {
      row[c + i] = element(acc[c + i], scale[c + i], -1.0f);
    }
  }
  for (; c < channels; ++c) {
    row[c] = element(acc[c], scale[c], -1.0f);
  }
  return c;
}
"""


def test_functions_of_elements_and_blocks(tmp_path):
    text = with_rows(INLINED, _signatures())
    assert "c + 16" not in text
    assert "element(acc" not in text
    library = _built(text, tmp_path, "inlined")
    for size in (3, 16, 700):
        rng = np.random.default_rng(size)
        acc = rng.integers(-50, 50, size).astype(np.int32)
        scale, row = rng.random(size).astype(np.float32), np.zeros(size, np.float32)
        assert library.rows(*map(_pointer, (acc, scale, row)), size) == size
        np.testing.assert_array_equal(row, np.maximum(acc.astype(np.float32) * scale, -1))


HALVES = """
int32_t halves(float *acc) {
  for (int half = 16; half > 0; half /= 2) {
    for (int lane = 0; lane < half; ++lane) {
      acc[lane] = acc[lane + half] > acc[lane] ? acc[lane + half] : acc[lane];
    }
  }
  return 0;
}
"""


def test_halves_of_an_array(tmp_path):
    text = with_rows(HALVES, _signatures())
    assert "tvmrt_row_op_select_f32_vvv" in text
    acc = np.random.default_rng(3).standard_normal(32).astype(np.float32)
    expected = acc.max()
    _built(text, tmp_path, "halves").halves(_pointer(acc))
    assert acc[0] == expected


# What depends on other elements, on order or on conditions, and loops over other things.
KEPT = [
    "y[i] = y[i - 1] + x[i];",
    "y[i] = x[i]; y[i + 1] = x[i];",
    "acc = acc + x[i];",
    "acc = acc - x[i];",
    "acc = x[i];",
    "y[0] = x[i];",
    "y[k[i]] = x[i];",
    "y[i * i] = x[i];",
    "y[i] = x[i] > 0.0f ? x[k[i]] : 0.0f;",
    "y[i] = z[i] > 0 ? 10 / z[i] : 0;",
    "y[i] = z[i] > 0 && 10 % z[i] == 0;",
    "y[i] = unknown(x[i]);",
    "y[i] = x[i]; break;",
    "*y = x[i];",
    "y[i].part = x[i];",
    "y[i] = missing[i];",
    "y[i] = x[i] + acc; acc = acc * 2.0f;",
]


@pytest.mark.parametrize("body", KEPT)
def test_other_loops_stay(body):
    text = (
        "void f(float *y, const float *x, const int32_t *z, const int64_t *k, int n, float acc) {\n"
        f"  for (int i = 0; i < n; ++i) {{\n    {body}\n  }}\n}}\n"
    )
    assert with_rows(text, _signatures()) == text


NARROW = """
int32_t narrow(const float *restrict a, const float *restrict b, uint8_t *restrict y) {
  for (int i0 = 0; i0 < 60; ++i0) {
    const float a0 = a[i0];
    const float a1 = b[i0];
    const uint8_t equal_1 = (a0 == a1);
    y[i0] = equal_1;
  }
  return 0;
}
"""


def test_rows_of_wider_types_are_not_computed_in_place(tmp_path):
    text = with_rows(NARROW, _signatures())
    assert "tvmrt_row_op_eq_f32_vv" in text
    a = np.arange(60, dtype=np.float32) % 3
    b = np.ones(60, np.float32)
    y = np.full(300, 7, np.uint8)
    _built(text, tmp_path, "narrow").narrow(*map(_pointer, (a, b, y)))
    np.testing.assert_array_equal(y[:60], a == b)
    assert (y[60:] == 7).all()


def test_many_operations_stay():
    """The rows of a piece would take more than 128 KiB of the stack."""
    lines = [f"const double a{i + 1} = a{i} * a{i};" for i in range(80)]
    body = "\n".join(["const double a0 = x[i];", *lines, "y[i] = a80;"])
    text = (
        "void f(double *restrict y, const double *restrict x, int n) {\n"
        f"  for (int i = 0; i < n; ++i) {{\n{body}\n  }}\n}}\n"
    )
    assert with_rows(text, _signatures()) == text
    shorter = text.replace("\n".join(lines[30:]) + "\ny[i] = a80", "y[i] = a30")
    assert with_rows(shorter, _signatures()) != shorter


def test_elements_of_another_type_are_an_error(tmp_path):
    text = "void f(int *y, const float *x) { tvmrt_row_copy_4(4, y, 1, x, 1); sqrtf(*x); }\n"
    _built(f"extern {rows.copy(4)};\n{text}", tmp_path, "right")
    wrong = f"extern {rows.negation('float').prototype('v')};\n"
    wrong += "void f(int *y, const float *x) { tvmrt_row_op_neg_f32_v(4, y, x); }\n"
    with pytest.raises(CompileError, match=r"loops.c.*incompatible pointer"):
        _built(wrong, tmp_path, "wrong")


def test_short_loops_stay():
    text = "void f(float *y) {\n  for (int i = 0; i < 7; ++i) {\n    y[i] = 1.0f;\n  }\n}\n"
    assert with_rows(text, _signatures()) == text
    assert with_rows(text.replace("7", "8"), _signatures()) != text
