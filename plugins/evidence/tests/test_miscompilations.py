"""Seeded errors of the code generator, the kernels and the passes: ``tvmrt verify`` reports each.

Each seed changes what a stage of the compiler makes while a network is compiled. The checks are
those of any folder, and know nothing of the seeds.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
from evidence_folder import make_evidence, wrong_rows

from tvmrt.compiler.pipeline import stages
from tvmrt.plugins.evidence import folder as evidence_folder

LIB, RUN, STEP, WEIGHTS = (
    f"tvmgen_default_{name}.c" for name in ("lib1", "lib0", "step", "weights")
)
KERNELS = "tvm/runtime/kernels/"


def changed(text, pattern, replacement):
    """Return the text with one change, which there must be."""
    new = re.sub(pattern, replacement, text, count=1, flags=re.S)
    assert new != text, pattern
    return new


def code(name, *changes):
    """Seed: the code generator prints another text."""

    def seed(monkeypatch):
        generate = stages.c_source.generate

        def wrong(*arguments):
            sources = generate(*arguments)
            for pattern, replacement in changes:
                sources.files[name] = changed(sources.files[name], pattern, replacement)
            return sources

        monkeypatch.setattr(stages.c_source, "generate", wrong)

    return seed


def kernel(name, *changes):
    """Seed: a kernel of the package is wrong."""

    def seed(monkeypatch):
        headers = evidence_folder.runtime_headers

        def wrong(*arguments):
            found = headers(*arguments)
            for pattern, replacement in changes:
                found[KERNELS + name] = changed(found[KERNELS + name], pattern, replacement)
            return found

        monkeypatch.setattr(evidence_folder, "runtime_headers", wrong)

    return seed


def graph(change):
    """Seed: a pass changes the graph wrongly; ``change`` returns whether it found its node."""

    def seed(monkeypatch):
        layouts = stages.infer_layouts

        def wrong(network):
            assert any([change(node) for node in network.nodes]), "no node to change"
            layouts(network)

        monkeypatch.setattr(stages, "infer_layouts", wrong)

    return seed


def constant(op, operand, function):
    """Return a change of a constant operand of the first such operator."""

    def change(node):
        if node.op != op or change.done:
            return False
        value = node.inputs[operand]
        value.data = function(np.array(value.data)).astype(value.data.dtype)
        change.done = True
        return True

    change.done = False
    return change


def attribute(op, **values):
    """Return a change of attributes of an operator."""

    def change(node):
        if node.op != op or any(name not in node.attrs for name in values):
            return False
        node.attrs = {**node.attrs, **{name: f(node.attrs[name]) for name, f in values.items()}}
        return True

    return change


def overlapping(monkeypatch):
    """Seed: the memory planner places two tensors at one address."""
    plan = stages.LoweredNetwork.generate

    def wrong(self, planned, image=None):
        buffers = [access.buffer for step in self.need.program.steps for access in step.writes]
        for buffer in (b for b in buffers if b.address):
            buffer.address = 64
        return plan(self, planned, image)

    monkeypatch.setattr(stages.LoweredNetwork, "generate", wrong)


def zeros_from(part):
    """Return a function that loses the last part of an array."""

    def function(array):
        array.reshape(-1)[int(array.size * part) :] = 0
        return array

    return function


def first_changed(array):
    """Return the array with a stale first element."""
    array.reshape(-1)[0] = -array.reshape(-1)[0] // 2 + 3
    return array


CALL = r"  if \(tvmgen_default_{0}\(.*?\n  \}}\n"
CASE = r"      if \(tvmgen_default_{0}\(.*?\n      \}}\n"
BIAS = r"bias \? VEC##_load\(bias \+ o \* \(V\)\)"
FLOAT, WHOLE = "digits_f32", "digits_int8"
SEEDS = {
    "wrong offset of a tensor": (WHOLE, code(RUN, (r"at_conv2 = \d+", "at_conv2 = 4"))),
    "wrong offset in steps": (FLOAT, code(STEP, (r"at_pool = \d+", "at_pool = 16"))),
    "tensors overlap": (FLOAT, overlapping),
    "scratch overlaps": (WHOLE, code(STEP, (r"at_conv2_scratch = \d+", "at_conv2_scratch = 640"))),
    "step skipped in the run": (WHOLE, code(RUN, (CALL.format("depthwise"), ""))),
    "step skipped in slices": (FLOAT, code(STEP, (CASE.format("pointwise"), ""))),
    "step twice": (FLOAT, code(STEP, (r"case 4:", "case 40:"))),
    "swapped weights of layers": (
        FLOAT, code(RUN, (r"w_conv1_bias,", "w_conv2_bias,")),
    ),
    "missing lower clamp": (FLOAT, code(LIB, (r"\.lo = 0\.0f", ".lo = -INFINITY"))),
    "wrong upper clamp": (WHOLE, code(LIB, (r"\.hi = 127", ".hi = 126"))),
    "wrong lower clamp": (WHOLE, code(LIB, (r"\.lo = -128", ".lo = -127"))),
    "wrong zero point of a layer": (WHOLE, code(LIB, (r"\.zero = -128", ".zero = -127"))),
    "wrong zero point of an input": (WHOLE, code(LIB, (r"\.x_zero = -128", ".x_zero = -127"))),
    "wrong stride": (FLOAT, code(LIB, (r"\.x_step = 16", ".x_step = 8"))),
    "wrong pixel stride": (FLOAT, code(LIB, (r"\.y_stride = 16", ".y_stride = 8"))),
    "wrong padding": (FLOAT, code(LIB, (r"\.pad = \{0, 1, 1\}", ".pad = {0, 0, 1}"))),
    "off by one in a loop": (WHOLE, code(LIB, (r"i0 < 64", "i0 < 63"))),
    "wrong constant": (WHOLE, code(LIB, (r"0\.003921569f", "0.00393f"))),
    "truncated weights": (FLOAT, graph(constant("conv", 1, zeros_from(0.9)))),
    "truncated integer weights": (WHOLE, graph(constant("qconv", 1, zeros_from(0.95)))),
    "one stale weight": (WHOLE, graph(constant("qconv", 1, first_changed))),
    "stale bias": (FLOAT, graph(constant("conv", 2, lambda bias: bias * 1.001))),
    "bias off by one": (WHOLE, graph(constant("qconv", 3, lambda bias: bias + 40))),
    "wrong sign": (FLOAT, graph(constant("matmul", 1, lambda weights: -weights))),
    "wrong scale": (WHOLE, graph(constant("qconv", 2, lambda scale: scale * 1.02))),
    "pass moves a zero point": (WHOLE, graph(attribute("qconv", y_zero=lambda n: n + 1))),
    "pass changes a clamp": (WHOLE, graph(attribute("qconv", high=lambda n: 100))),
    "pooling of another kind": (FLOAT, code(LIB, ("TVMRT_POOL_MAX", "TVMRT_POOL_LP"))),
    "kernel rounds toward zero": (
        WHOLE,
        kernel("scalar/quant.h", (r"\(v == v \? v :", "(v == v ? (float)(int32_t)v :")),
    ),
    "kernel adds no bias": (
        FLOAT, kernel("tile/gemm_f32.h", (BIAS, "bias ? VEC##_splat(0.0f)")),
    ),
    "kernel adds another channel's bias": (
        FLOAT, kernel("tile/gemm_f32.h", (BIAS, "bias ? VEC##_load(bias)")),
    ),
    "kernel subtracts the wrong way round": (
        FLOAT,
        kernel(
            "op/softmax.h",
            (r"exp_f32v\(TVMRT_ROW_F32\(load\)\(x \+ i\) - top\)",
             "exp_f32v(top - TVMRT_ROW_F32(load)(x + i))"),
            (r"exp_f32v\(a - top\)", "exp_f32v(top - a)"),
        ),
    ),
    "scratch over a result": (
        FLOAT, code(STEP, (r"at_conv2_scratch = \d+", "at_conv2_scratch = 2064")),
    ),
    "wrong dilation": (FLOAT, code(LIB, (r"\.dilation = \{1, 1, 1\}", ".dilation = {1, 2, 1}"))),
    "rows off by one": (FLOAT, code(LIB, (r"\.in = \{1, 8, 8\}", ".in = {1, 7, 8}"))),
    "wrong axis": (FLOAT, graph(attribute("softmax", axis=lambda axis: 0))),
    "lost padding": (FLOAT, graph(attribute("conv", pads_before=lambda p: (0,) * len(p)))),
    "lost bias": (WHOLE, graph(constant("qmatmul", 3, lambda bias: bias * 0))),
    "weights in another order": (WHOLE, graph(constant("qconv", 1, lambda w: w[::-1].copy()))),
    "kernel clamps nothing": (
        WHOLE,
        kernel(
            "scalar/quant.h",
            (r"bits = bits < least \? least : bits;", ""),
            (r"return \(bits > most \? most : bits\)", "return bits"),
        ),
    ),
    "kernel ends a loop early": (
        FLOAT, kernel("op/softmax.h", (r"for \(int i = 0; i < 6; i", "for (int i = 0; i < 5; i")),
    ),
    "kernel skips a product": (
        FLOAT, kernel("op/softmax.h", (r"load\)\(y \+ i\) \* scale", "load)(y + i)")),
    ),
}  # fmt: skip
EVERYDAY = ("wrong upper clamp",)


@pytest.mark.parametrize(
    "name", [each if each in EVERYDAY else pytest.param(each, marks=pytest.mark.slow)
             for each in SEEDS]
)  # fmt: skip
def test_a_seeded_error_is_reported(name, monkeypatch, tmp_path):
    network, seed = SEEDS[name]
    with monkeypatch.context() as patched:
        seed(patched)
        folder = make_evidence(network, tmp_path / "evidence")
    assert wrong_rows(folder)
