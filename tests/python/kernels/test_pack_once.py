"""Weights packed at run time have the compiler's layout and are packed once."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import kernel_build as kb
import numpy as np
import pytest

from tvmrt.compiler.codegen.c.formatting import initializer
from tvmrt.compiler.codegen.geometry import Window
from tvmrt.compiler.codegen.window import packing_f32, packing_i8, tiles_f32
from tvmrt.compiler.codegen.window.choose_i8 import choose
from tvmrt.compiler.codegen.window.layer_i8 import ConstantsI8, LayerI8, VariantI8
from tvmrt.compiler.codegen.window.plan_i8 import make_plan
from tvmrt.compiler.codegen.window.tiles_i8 import FORMATS, SHARED

RNG = np.random.default_rng(4)
HEAD = "#include <tvm/runtime/kernels/pack_f32.h>\n#include <tvm/runtime/kernels/pack_i8.h>\n"


def library(folder, orders: dict[str, list]):
    """Build a C function for each kind of layer, which packs in the order given by a number."""
    lines = [HEAD]
    for kind, zeros in (("f32", ""), ("i8", ", zeros")):
        rows = ",\n".join(initializer(order.members(*rest)) for order, *rest in orders[kind])
        lines.append(f"static const tvmrt_pack_{kind} orders_{kind}[] = {{{rows}}};")
        lines.append(f"void pack_{kind}(int n, const void* w, const int32_t* zeros, void* out);")
        lines.append(f"void pack_{kind}(int n, const void* w, const int32_t* zeros, void* out) {{")
        lines.append("  (void)zeros;")
        lines.append(f"  tvmrt_pack_weights_{kind}(&orders_{kind}[n], w{zeros}, out);\n}}")
    return kb.build(folder, "\n".join(lines), [*kb.WARNINGS, "-O1", *kb.UNDEFINED])


def floats():
    """Return (order, channels per block), the weights and the compiler's packed weights."""
    for groups, outputs, inputs, taps, block in (
        (1, 40, 3, 9, 32),
        (3, 5, 4, 1, 16),
        (2, 16, 7, 4, 8),
    ):
        tiles = tiles_f32.Tiles(8, block // 8, (1,))
        w = RNG.standard_normal((groups * outputs, inputs, taps)).astype(np.float32)
        order = packing_f32.PackingOrder(outputs, inputs, taps, groups)
        yield (order, block), w, packing_f32.pack_conv(w, tiles, groups)
        w = RNG.standard_normal((groups * inputs, outputs, taps)).astype(np.float32)
        packed = packing_f32.pack_conv_transpose(w, tiles, groups)
        yield (replace(order, transposed=True), block), w, packed
    w = RNG.standard_normal((21, 1, 9)).astype(np.float32)
    yield (packing_f32.PackingOrder(21, 1, 9), 16), w, packing_f32.pack_depthwise(w, 16)


def formats():
    for fmt in FORMATS.values():
        yield {"fmt": fmt}
    for widest, readers in SHARED.items():
        for name in readers.values():
            yield {"fmt": FORMATS[name], "widest": FORMATS[widest]}


def bytes_():
    """Return (order,), weights, the offset of each channel and the compiler's packed weights."""
    shapes = (((3, 3), 6, 20, 1), ((3, 3), 3, 5, 1), ((1, 1), 8, 70, 2), ((2, 5), 7, 33, 1))
    for kernel, inputs, outputs, groups in shapes:
        window = Window(1, (1, 9, 9), (1, 5, 5), inputs * groups, outputs * groups, (1, *kernel))
        for chosen in formats():
            signed = bool(RNG.integers(2))
            kind = np.int8 if signed else np.uint8
            low = np.iinfo(kind).min
            w = RNG.integers(low, low + 256, (outputs * groups, inputs, *kernel)).astype(kind)
            zeros = RNG.integers(low, low + 256, outputs * groups).astype(np.int32)
            layer = LayerI8(window, inputs * groups, outputs * groups, groups)
            constants = ConstantsI8(layer, w, zeros)
            plan = make_plan(choose(VariantI8(layer, **chosen), constants))
            packed = packing_i8.pack(plan, constants)
            order = packing_i8.PackingOrderI8(plan, int(np.prod(kernel)), False, signed)
            if packed.shift is not None:
                zeros = zeros + packed.shift.reshape(groups, -1)[:, :outputs].reshape(-1)
            yield (order,), w, zeros.astype(np.int32), packed.weights


def test_runtime_packing_matches_the_compiler(tmp_path):
    real, whole = list(floats()), list(bytes_())
    made = library(tmp_path, {"f32": [c[0] for c in real], "i8": [c[0] for c in whole]})
    for number, ((order, block), w, packed) in enumerate(real):
        found = np.full(order.floats(block), np.nan, np.float32)
        made.pack_f32(number, kb.pointer(w), None, kb.pointer(found))
        np.testing.assert_array_equal(found, packed)
        assert found.nbytes <= order.max_bytes
    for number, ((order,), w, zeros, packed) in enumerate(whole):
        found = np.full(order.elements, 99, np.int16 if order.wide else np.int8)
        made.pack_i8(number, kb.pointer(w), kb.pointer(zeros), kb.pointer(found))
        np.testing.assert_array_equal(found.view(np.int8), packed)
        layer = order.plan.layer
        inputs = layer.in_c // layer.groups
        sizes = (order.channels, inputs, order.taps, layer.groups)
        assert found.nbytes <= packing_i8.max_packed_bytes(*sizes)


ONCE = """
static float weights[8];
static int state;
const float* ask(const float* w, float* own);
const float* ask(const float* w, float* own) {
  static const tvmrt_packed_weights kept = {weights, &state};
  static const tvmrt_pack_f32 order = {1, 8, 1, 1, 8, 8, 1, 1};
  return tvmrt_pack_once_f32(&order, w, &kept, own);
}
int* state_of(void);
int* state_of(void) { return &state; }
"""


@pytest.fixture(scope="module")
def once(tmp_path_factory):
    made = kb.build(tmp_path_factory.mktemp("once"), HEAD + ONCE, [*kb.WARNINGS, "-O1"])
    made.ask.restype = ctypes.POINTER(ctypes.c_float)
    made.state_of.restype = ctypes.POINTER(ctypes.c_int)
    return made


def test_only_the_first_run_packs(once):
    w, own = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    once.state_of()[0] = 0
    first = once.ask(kb.pointer(w), kb.pointer(own))
    w += 100
    second = once.ask(kb.pointer(w), kb.pointer(own))
    assert first[:8] == second[:8] == list(range(8))
    assert not own.any()


def test_concurrent_first_runs_pack_separately(once):
    w, own = np.arange(8, dtype=np.float32) + 5, np.zeros(8, np.float32)
    once.state_of()[0] = 1  # another run is packing
    once.ask(kb.pointer(w), kb.pointer(own))
    np.testing.assert_array_equal(own, w)
    assert once.state_of()[0] == 1  # and will report when it has finished
