"""Audio features from energies: filter banks, roots, noise subtraction, gain, logarithms."""

from __future__ import annotations

import numpy as np

from tvmrt.compiler.sdk.arithmetic import GAIN_PLACES
from tvmrt.compiler.sdk.graph import Value
from tvmrt.error import UnsupportedError
from tvmrt.plugins.tflite.frontend.context import OpContext
from tvmrt.plugins.tflite.frontend.registry import tflite_op
from tvmrt.plugins.tflite.frontend.signal.operands import check_range, integer_options, operand


@tflite_op(SignalFilterBank=1)
def filter_bank(ctx: OpContext) -> Value:
    x = operand(ctx, 0, "uint32", 1)
    (channels,) = integer_options(ctx, "num_channels")
    tables = [operand(ctx, i, "int16", 1) for i in range(1, 6)]
    for i in range(1, 6):
        ctx.constant_operand(i, "a table of the filter bank")
    if channels < 1 or any(len(t.data) <= channels for t in tables[2:]):
        raise ValueError(f"its tables have fewer than {channels + 1} elements")
    if len(tables[0].data) != len(tables[1].data):
        raise ValueError("its weights and unweights differ in length")
    channel_tables = [ctx.const(t.data[: channels + 1]) for t in tables[2:]]
    return ctx.emit("signal_filter_bank", [x, *tables[:2], *channel_tables])


@tflite_op(SignalFilterBankSquareRoot=1)
def square_root(ctx: OpContext) -> Value:
    x, bits = operand(ctx, 0, "uint64", 1), ctx.required(1)
    if bits.dtype.name != "int32" or bits.type.size != 1:
        raise ValueError(f"operand 1 is {bits.type}, not one int32")
    root = ctx.emit("signal_root", [x])
    return ctx.emit("shift_right", [root, ctx.cast(ctx.reshape(bits, ()), "uint32")])


@tflite_op(SignalFilterBankLog=1)
def logarithm(ctx: OpContext) -> Value:
    x = operand(ctx, 0, "uint32", 1)
    bits, scale = integer_options(ctx, "input_correction_bits", "output_scale")
    check_range("input_correction_bits", bits, 0, 31)
    check_range("output_scale", scale, 0, 2**31 - 1)
    raised = ctx.emit("shift_left", [x, ctx.const(bits, np.uint32)])
    logs = ctx.emit("signal_log", [raised, ctx.const(scale, np.uint32)])
    return ctx.cast(ctx.clamp(logs, None, 32767), "int16")


@tflite_op(SignalPCAN=1)
def gain(ctx: OpContext) -> Value:
    x, noise = operand(ctx, 0, "uint32", 1), operand(ctx, 1, "uint32", 1)
    table = operand(ctx, 2, "int16", 1)
    shift = check_range("snr_shift", *integer_options(ctx, "snr_shift"), 0, 63)
    if x.shape != noise.shape:
        raise ValueError(f"{noise.type} does not match the noise of {x.type}")
    if len(ctx.constant_operand(2, "the table of gains")) < GAIN_PLACES:
        raise ValueError(f"its gain table has fewer than {GAIN_PLACES} elements")
    return ctx.emit("signal_gain", [x, noise, table], shift=shift)


_SUBTRACTION = (
    "smoothing",
    "one_minus_smoothing",
    "alternate_smoothing",
    "alternate_one_minus_smoothing",
    "smoothing_bits",
    "spectral_subtraction_bits",
    "min_signal_remaining",
    "clamping",
    "num_channels",
)


@tflite_op(SignalFilterBankSpectralSubtraction=1)
def subtraction(ctx: OpContext) -> list[Value]:
    """Subtract a noise estimate from x, but keep at least a share of x; also return the estimate.
    It is a running mean over the runs; odd channels have their own smoothing factors."""
    x, options = operand(ctx, 0, "uint32", 1), integer_options(ctx, *_SUBTRACTION)
    option = dict(zip(_SUBTRACTION, options))
    for name in ("smoothing_bits", "spectral_subtraction_bits"):
        check_range(name, option[name], 0, 31)
    for name in (*_SUBTRACTION[:4], "min_signal_remaining"):
        check_range(name, option[name], 0, 2**31 - 1)
    if option["num_channels"] != x.shape[0]:
        raise UnsupportedError(
            f"num_channels is {option['num_channels']}, but the input is {x.type}"
        )
    ctx.importer.check_state()
    state = ctx.importer.states.add(ctx.const(np.zeros(x.shape, np.uint32)))
    subtraction_bits = ctx.const(option["spectral_subtraction_bits"], np.uint64)

    def factors(even: str, odd: str) -> Value:
        pair = np.array([option[even], option[odd]], np.uint32)
        return ctx.const(pair[np.arange(x.shape[0]) % 2])

    def shift_to_uint32(value: Value) -> Value:
        return ctx.cast(ctx.emit("shift_right", [value, subtraction_bits]), "uint32")

    bits = ctx.const(option["smoothing_bits"], np.uint32)
    raised = ctx.emit("shift_left", [x, bits])
    before = ctx.importer.states.current_value(state)
    new = ctx.emit("wide_product", [raised, factors("smoothing", "alternate_smoothing")])
    rest = factors("one_minus_smoothing", "alternate_one_minus_smoothing")
    old = ctx.emit("wide_product", [before, rest])
    noise = shift_to_uint32(ctx.emit("add", [new, old]))
    noise_level = ctx.emit("min", [noise, raised])
    if option["clamping"]:
        noise = noise_level
    remaining = ctx.const(option["min_signal_remaining"], np.uint32)
    least = shift_to_uint32(ctx.emit("wide_product", [x, remaining]))
    left = ctx.emit("shift_right", [ctx.emit("sub", [raised, noise_level]), bits])
    ctx.importer.set_state(state, noise)
    return [ctx.emit("max", [left, least]), noise]
