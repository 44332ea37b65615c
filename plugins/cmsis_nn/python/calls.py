"""C functions that call CMSIS-NN, one per layer.

Parameters are set member by member, since structs grew between versions and C++ has no designated
initialisers. The required scratch size is queried from the library at run time and compared with
the planned size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import singledispatch
from typing import NamedTuple

import numpy as np

from tvmrt.compiler.sdk.graph import Needs, Region, Value
from tvmrt.plugins.cmsis_nn.layers import (
    Convolution,
    ElementwisePair,
    Layer,
    MatMul,
    Operand,
    Requantization,
    Window,
)
from tvmrt.plugins.cmsis_nn.scratch import scratch_bytes

HEAD = """\
#include <stddef.h>
#include <stdint.h>

#include <tvm/runtime/c_backend_api.h>

#if defined(__has_include)
#if !__has_include("arm_nnfunctions.h")
#error "CMSIS-NN is not found: run make CMSIS_NN=PATH with the folder that contains Include and \
Source, or add its Include to the include path"
#endif
#endif
#include "arm_nnfunctions.h"

static inline cmsis_nn_dims extents(int32_t n, int32_t h, int32_t w, int32_t c) {
  cmsis_nn_dims dims;
  dims.n = n;
  dims.h = h;
  dims.w = w;
  dims.c = c;
  return dims;
}

static inline cmsis_nn_tile tile(int32_t h, int32_t w) {
  cmsis_nn_tile made;
  made.h = h;
  made.w = w;
  return made;
}

static inline cmsis_nn_activation bounds(int32_t low, int32_t high) {
  cmsis_nn_activation made;
  made.min = low;
  made.max = high;
  return made;
}

static inline cmsis_nn_context memory(uint8_t *bytes, int32_t size) {
  cmsis_nn_context made;
  made.buf = bytes;
  made.size = size;
  return made;
}

/* CMSIS-NN takes multipliers by pointers that are not const; it only reads them. */
static inline cmsis_nn_per_channel_quant_params scales(const int32_t *m, const int32_t *e) {
  cmsis_nn_per_channel_quant_params made;
  made.multiplier = (int32_t *)(uintptr_t)m;
  made.shift = (int32_t *)(uintptr_t)e;
  return made;
}

static inline int32_t short_of_scratch(void) {
  TVMAPISetLastError("this version of CMSIS-NN wants more scratch memory than was planned for it");
  return -1;
}

static inline int32_t finished(arm_cmsis_nn_status status) {
  if (status == ARM_CMSIS_NN_SUCCESS) return 0;
  TVMAPISetLastError("CMSIS-NN refuses a layer's arguments");
  return -1;
}
"""


class _Body(NamedTuple):
    """Lines of a function, and the constants that it reads, by parameter name."""

    lines: list[str]
    constants: Mapping[str, np.ndarray]


class _Names(NamedTuple):
    """Names of the layer's tensors and memory in the function."""

    values: Mapping[Value, str]
    output: str
    scratch: int
    mve: bool

    def of(self, value: Value) -> str:
        return self.values[value]

    @property
    def memory(self) -> str:
        return f"memory(scratch, {self.scratch})" if self.scratch else "memory(NULL, 0)"


def function(region: Region, layer: Layer, board: frozenset[str]) -> tuple[str, Needs]:
    """Return the text of a region's function, and the parameters that follow its tensors."""
    scratch = scratch_bytes(layer, board)
    names = {value: f"input{i}" for i, value in enumerate(region.inputs)}
    body = _body(layer, _Names(names, "output", scratch, "mve" in board))
    parameters = [f"const int8_t *{name}" for name in names.values()]
    parameters.append("int8_t *output")
    for name, array in body.constants.items():
        parameters.append(f"const {array.dtype.name}_t *{name}")
    parameters += ["uint8_t *scratch"] if scratch else []
    head = f"int32_t {region.symbol}"
    text = [*_format_prototype(head, parameters, ";"), *_format_prototype(head, parameters, " {")]
    text += [*(f"  {line}" for line in body.lines), "}", ""]
    return "\n".join(text), Needs(body.constants, scratch, _channels_last(layer))


def _format_prototype(head: str, parts: Sequence[str], end: str) -> list[str]:
    return [f"{head}(", *(f"    {part}," for part in parts[:-1]), f"    {parts[-1]}){end}"]


def _channels_last(layer: Layer) -> bool:
    if isinstance(layer, ElementwisePair):
        return layer.a.value.type.rank > 2
    return not isinstance(layer, MatMul)


@singledispatch
def _body(layer: Layer, names: _Names) -> _Body:
    raise NotImplementedError(type(layer).__name__)


def _dims(name: str, extents: Sequence[int]) -> str:
    return f"const cmsis_nn_dims {name} = extents({', '.join(map(str, extents))});"


def _requantization_members(finish: Requantization, x_zero: int) -> list[str]:
    """Return the parameter members shared by convolutions and fully connected layers."""
    return [
        f"params.input_offset = {-x_zero};",
        f"params.output_offset = {finish.zero};",
        f"params.activation = bounds({finish.low}, {finish.high});",
    ]


def _tiles(window: Window) -> list[str]:
    rows = {"stride": window.strides, "padding": window.pads}
    return [f"params.{name} = tile({high}, {wide});" for name, (high, wide) in rows.items()]


def _constants(layer: Convolution | MatMul) -> dict[str, np.ndarray]:
    return {"weights": layer.weights, "bias": layer.bias}


@_body.register
def _convolution(layer: Convolution, names: _Names) -> _Body:
    kind = "depthwise_conv" if layer.depth else "convolve"
    window, images = layer.window, 1
    source, result = window.source, window.result
    if layer.depth:  # several images are processed one by one
        images, source, result = source[0], (1, *source[1:]), (1, *result[1:])
    lines = [
        f"cmsis_nn_{'dw_conv' if layer.depth else 'conv'}_params params;",
        _dims("source", source), _dims("kernel", layer.weights.shape),
        _dims("biases", (1, 1, 1, result[3])), _dims("result", result),
        "const cmsis_nn_per_channel_quant_params quant = scales(multiplier, shift);",
        f"const cmsis_nn_context context = {names.memory};",
        *_requantization_members(layer.finish, layer.x_zero), *_tiles(window),
        f"params.dilation = tile({window.dilations[0]}, {window.dilations[1]});",
        *([f"params.ch_mult = {layer.depth};"] if layer.depth else []),
    ]  # fmt: skip
    required_size = f"arm_{kind}_wrapper_s8_get_buffer_size(&params, &source, &kernel, &result)"
    lines += [f"if ({required_size} > context.size) return short_of_scratch();"]
    call = (
        f"arm_{kind}_wrapper_s8(&context, &params, &quant, &source, {{x}},",
        "    &kernel, weights, &biases, bias, &result, {y})",
    )
    more = {"multiplier": layer.finish.multiplier, "shift": layer.finish.shift}
    lines += _each_image(images, source, result, names.of(layer.x), names.output, call)
    return _Body(lines, {**_constants(layer), **more})


def _each_image(
    images: int, source: Sequence[int], result: Sequence[int], x: str, y: str, call: Sequence[str]
) -> list[str]:
    """Return the call with ``{x}`` and ``{y}`` filled in, in a loop if there are several images."""
    text = "\n  ".join(call)
    if images == 1:
        return [f"return finished({text.format(x=x, y=y)});"]
    steps = [int(np.prod(extents[1:])) for extents in (source, result)]
    text = text.format(x=f"{x} + i * {steps[0]}", y=f"{y} + i * {steps[1]}")
    return [
        f"for (int32_t i = 0; i < {images}; ++i) {{",
        f"  if (finished({text}) != 0) return -1;",
        "}",
        "return 0;",
    ]


@_body.register
def _product(layer: MatMul, names: _Names) -> _Body:
    """Call the fully connected function if one scale applies to all results. With per-channel
    scales, and with Helium, whose kernel needs sums of weights in a version-dependent form, call a
    1x1 convolution instead."""
    if names.mve or not layer.finish.is_per_tensor:
        results, terms = layer.weights.shape
        kernel = layer.weights.reshape(results, 1, 1, terms)
        window = Window((1, 1, layer.rows, terms), (1, 1, layer.rows, results), *[(1, 1)] * 2,
                        (0, 0), (1, 1))  # fmt: skip
        like = Convolution(layer.x, window, kernel, layer.bias, layer.x_zero, layer.finish, 0)
        return _convolution(like, names)
    results, terms = layer.weights.shape
    finish = layer.finish
    lines = [
        "cmsis_nn_fc_params params;",
        "cmsis_nn_per_tensor_quant_params quant;",
        _dims("source", (layer.rows, 1, 1, terms)), _dims("kernel", (terms, 1, 1, results)),
        _dims("biases", (1, 1, 1, results)), _dims("result", (layer.rows, 1, 1, results)),
        f"const cmsis_nn_context context = {names.memory};",
        *_requantization_members(finish, layer.x_zero),
        "params.filter_offset = 0;",
        f"quant.multiplier = {finish.multiplier[0]};",
        f"quant.shift = {finish.shift[0]};",
        "if (arm_fully_connected_s8_get_buffer_size(&kernel) > context.size) {",
        "  return short_of_scratch();",
        "}",
        f"return finished(arm_fully_connected_s8(&context, &params, &quant, &source,"
        f" {names.of(layer.x)},",
        f"    &kernel, weights, &biases, bias, &result, {names.output}));",
    ]  # fmt: skip
    return _Body(lines, _constants(layer))


@_body.register
def _pair(layer: ElementwisePair, names: _Names) -> _Body:
    constants: dict[str, np.ndarray] = {}
    sides = [_operand(operand, names, constants) for operand in (layer.a, layer.b)]
    finish, pair = layer.finish, (layer.a, layer.b)
    if layer.is_sum:
        name = "add"
        arguments = [f"{-o.zero}, {o.multiplier}, {o.shift}" for o in pair] + [str(layer.bits)]
    else:
        name, arguments = "mul", [str(-o.zero) for o in pair]
    last = f"{finish.zero}, {finish.multiplier[0]}, {finish.shift[0]}, {finish.low}, {finish.high}"
    return _Body(
        [
            f"return finished(arm_elementwise_{name}_s8({', '.join(sides)},",
            f"    {', '.join(arguments)},",
            f"    {names.output}, {last}, {layer.size}));",
        ],
        constants,
    )


def _operand(operand: Operand, names: _Names, constants: dict[str, np.ndarray]) -> str:
    """Return the name of a tensor's parameter; a constant is added with channels last."""
    if not operand.value.is_constant:
        return names.of(operand.value)
    data = operand.value.data
    assert data is not None
    name = f"constant{len(constants)}"
    constants[name] = np.ascontiguousarray(np.moveaxis(data, 1, -1) if data.ndim > 2 else data)
    return name
