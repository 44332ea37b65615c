"""Random int8 layers: convolutions and matmuls by the tiles of all formats."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from layers import Layers, Random, Shape, spread, struct
from layers_f32 import window_of

from tvmrt.compiler.codegen.c.formatting import initializer
from tvmrt.compiler.codegen.window.choose_i8 import (
    ChoiceI8,
    amx_readings,
    available_tiles,
    find_overflow,
    with_tile,
)
from tvmrt.compiler.codegen.window.float_requantize import find_float_scales, find_scale_pairs
from tvmrt.compiler.codegen.window.layer_i8 import ConstantsI8, LayerI8, Reading, VariantI8
from tvmrt.compiler.codegen.window.packing_i8 import pack
from tvmrt.compiler.codegen.window.plan_i8 import PlanI8, make_plan
from tvmrt.compiler.codegen.window.print_i8 import (
    amx_members,
    layer_members,
    tile_definitions,
    tile_headers,
)
from tvmrt.compiler.codegen.window.quantized_computed import packing_bytes
from tvmrt.compiler.codegen.window.requantize_i8 import RequantizationI8
from tvmrt.compiler.codegen.window.tiles_i8 import FORMATS, SHARED, WeightFormat, tile_options
from tvmrt.compiler.ir.requantization import accumulator_range, split_scale

# groups of four weights whose dot product with extreme inputs is close to the limits of 16 bits
LIMITS = np.array([
    [-128, -128, 0, 0], [-128, -128, -1, 0], [127, 127, 4, 0], [127, 127, 2, -1],
    [-127, 0, -127, 0], [0, 127, 0, -128], [-64, -64, -64, -64], [64, 64, 64, 63],
])  # fmt: skip
MANY_VECTORS = 16  # of channels, more than any tile has
STEP = 73.9  # standard deviation of uniformly distributed bytes


@dataclass(frozen=True)
class Quantised:
    """Types, zero points and weights of a layer."""

    x_signed: bool
    x_zero: int
    w: np.ndarray  # int8 or uint8 [out_c, in_c / groups, *kernel]
    w_zero: np.ndarray | int
    bias: np.ndarray | None
    scale: np.ndarray
    extremes: int  # of the inputs, see ck_layer

    @property
    def zeros(self) -> np.ndarray:
        return np.broadcast_to(np.asarray(self.w_zero, np.int32), (len(self.w),))

    @classmethod
    def random(cls, random: Random, s: Shape, number: int) -> Quantised:
        """Return random weights of each kind in turn: all fit int8 after subtracting the zero
        point, some do not, one does not, outliers, and only extreme values."""
        rng, signed = random.rng, random.chance(0.5)
        w_signed = random.chance(0.5)
        low, w_low = -128 if signed else 0, -128 if w_signed else 0
        shape = (s.channels[1], s.channels[0] // s.groups, *s.kernel)
        w = rng.integers(w_low, w_low + 256, shape)
        zero: np.ndarray | int = 0 if w_signed else 128
        kinds = "fits ties any channel outlier ties far extremes limits".split()
        kind = kinds[number % len(kinds)]
        if kind == "any":
            zero = random.int(w_low, w_low + 255)
        elif kind == "channel":
            zero = zero + rng.integers(-3, 4, s.channels[1])
        elif kind in ("outlier", "far"):  # all but one fit
            w_low, w_signed = 0, False
            w = rng.integers(0, 256, shape) // 3 + (0 if kind == "far" else 80)
            zero = 0 if kind == "far" else random.one(120, 140)
            w.reshape(-1)[random.int(0, w.size - 1)] = 255 if zero < 128 else 0
        elif kind == "extremes":
            w = random.rng.choice([w_low, w_low + 255], shape)
        elif kind == "ties":  # small accumulators, many halfway between two results
            w_signed, zero = True, 0
            w = rng.integers(-1, 2, shape)
        elif kind == "limits" and s.channels[0] // s.groups >= 4 and len(w) >= len(LIMITS):
            w_signed, zero = True, 0
            w = rng.integers(-95, 96, shape)
            w[: len(LIMITS), :4] = LIMITS.reshape(len(LIMITS), 4, *[1] * (w.ndim - 2))
        w = w.astype(np.int8 if w_signed else np.uint8)
        x_zero = random.one(low, low + 255, 0, random.int(low, low + 255))
        bias = rng.integers(-5000, 5000, len(w)).astype(np.int32) if random.chance(0.8) else None
        centred = w.astype(np.int64) - np.asarray(zero).reshape(-1, *[1] * (w.ndim - 1))
        sums = STEP * np.sqrt((centred.astype(float) ** 2).reshape(len(w), -1).sum(axis=1).mean())
        if kind == "ties" and bias is not None:
            bias //= 256
        extremes = 2 if kind == "limits" else int(random.chance(0.15))
        wide = random.one(60.0, 60.0, 60.0, 3.0, 1000.0, 3e6)  # the last of these saturate
        scale = (rng.uniform(0.5, 1.5, len(w)) * wide / max(1.0, sums)).astype(np.float32)
        if kind == "ties":
            step = min(-1.0, float(np.rint(np.log2(60 / max(1.0, sums)))))
            scale = np.exp2(step - rng.integers(0, 2, len(w))).astype(np.float32)
        return cls(signed, x_zero, w, zero, bias, scale, extremes)


def ck_range(zero: int, signed: bool, low: int | None = None, high: int | None = None) -> str:
    """Return the initialiser of a ``ck_range`` or a ``tvmrt_i8_range``."""
    least = -128 if signed else 0
    bounds = (least if low is None else low, least + 255 if high is None else high)
    return f"{{{zero}, {bounds[0]}, {bounds[1]}, {int(signed)}}}"


def random_range(random: Random) -> str:
    """Return the range of results: the whole type, or a part."""
    signed = random.chance(0.5)
    least = -128 if signed else 0
    zero = random.one(least, least + 255, random.int(least, least + 255))
    if random.chance(0.3):
        low = random.int(least, least + 100)
        return ck_range(zero, signed, low, low + random.int(0, 150))
    return ck_range(zero, signed)


OUTPUTS = {
    "CK_BYTES": ("NULL", "NULL", "&range", 1),
    "CK_PLUS": ("NULL", "NULL", "&range", 1),
    "CK_INT32": ("tvmrt_i8_rows_int32", "NULL", "NULL", 4),
    "CK_FLOATS": ("tvmrt_i8_rows_float", "t->scales", "NULL", 4),
    "CK_REQUANTIZE": ("tvmrt_i8_rows_requantize", "&requantize", "NULL", 1),
    "CK_TWICE": ("NULL", "NULL", "&range", 1),
    "CK_ONCE": ("NULL", "NULL", "&range", 1),
}
IN_TILES = ("CK_BYTES", "CK_PLUS", "CK_TWICE", "CK_ONCE")
BODY = """{layer}
  static const tvmrt_i8_range range = {range};
{plus}  const tvmrt_i8_requantize_ctx requantize = {{t->scales, {range}}};
  const tvmrt_conv_i8_data data = {{t->x, t->w, t->bias, t->scale, t->shift, t->y, {used},
      {epilogue}, {ctx}, {bytes}, {by}, t->residual, {added}}};
  (void)range, (void)requantize;
  return tvmrt_conv_i8_run(&layer, &data);"""


def random_choice(
    layers: Layers, fmt: WeightFormat, constants: ConstantsI8, epilogue: bool
) -> ChoiceI8:
    """Return a random variant and tile for a layer with these constants."""
    random, target, layer = layers.random, layers.target, constants.layer
    widest = None
    if target.widest is not None and random.chance(0.5) and not layer.depthwise:
        widest, name = FORMATS[target.widest.int8], fmt.name
        fmt = FORMATS[SHARED.get(widest.name, {}).get(name, name)]
        widest = None if fmt is widest else widest
    elif fmt.uses_amx and random.chance(0.5) and not layer.depthwise:
        widest = FORMATS[fmt.vector_format]
    variant = VariantI8(layer, fmt, widest)
    variant = replace(variant, overflow=find_overflow(variant, constants, widest is None))
    if fmt.uses_amx and not layer.depthwise:
        readings = [Reading.ROWS]
        own_order = variant.shifts(constants) is None and widest is not None
        for reading in amx_readings(variant, allow_padded_copy=not epilogue):
            if reading is Reading.IM2COL_ROWS:
                readings.append(reading)
            elif reading is Reading.PADDED_QUADS and own_order:
                readings.append(reading)
            elif reading is Reading.PADDED_COPY or own_order:
                readings += [reading] * 2
        choice = with_tile(replace(variant, reading=random.one(*readings)))
    else:
        tiles = available_tiles(variant)
        tile = tiles[random.int(0, len(tiles) - 1)] if random.chance(0.5) else None
        choice = with_tile(variant, tile)
    return replace(choice, shifted=variant.shifts(constants) is not None)


def layer_structs(plan: PlanI8) -> str:
    """Return the structs of a layer as C declarations."""
    members = layer_members(plan)
    if plan.amx is None:
        return struct("tvmrt_conv_i8", "layer", initializer(members))
    amx = struct("tvmrt_conv_i8_amx", "amx", initializer(amx_members(plan.amx)))
    members["amx"] = "&amx"
    return amx + "\n" + struct("tvmrt_conv_i8", "layer", initializer(members))


def with_vectors(fmt: WeightFormat, constants: ConstantsI8, vectors: int) -> ChoiceI8:
    """Return the choice of a layer of one pixel in tiles of so many vectors."""
    variant = VariantI8(constants.layer, fmt)
    variant = replace(variant, overflow=find_overflow(variant, constants))
    choice = with_tile(variant, (vectors, 1))
    return replace(choice, shifted=variant.shifts(constants) is not None)


def add_conv(layers: Layers, fmt: WeightFormat, s: Shape, vectors: int = 0) -> None:
    """Add a layer, in tiles of ``vectors`` unless 0: then its variant and tile are random."""
    random = layers.random
    q = Quantised.random(random, s, random.turn())
    output = random.one("CK_BYTES", "CK_BYTES", "CK_TWICE", *OUTPUTS)
    depthwise = s.groups > 1 and s.groups == s.channels[0] == s.channels[1]
    output = "CK_BYTES" if output == "CK_PLUS" and depthwise else output
    added_signed = random.chance(0.5)
    plus = ("s8" if added_signed else "u8") if output == "CK_PLUS" else ""
    epilogue = output not in IN_TILES
    window = window_of(s).in_longest_rows()
    layer = LayerI8(window, *s.channels, s.groups, q.x_signed, q.x_zero)
    constants = ConstantsI8(layer, q.w, q.w_zero, q.bias)
    if vectors:
        choice = with_vectors(fmt, constants, vectors)
    else:
        choice = random_choice(layers, fmt, constants, epilogue)
    own = random_range(random) if output != "CK_PLUS" else ck_range(random.int(0, 100), False)
    requantization = RequantizationI8(q.scale)
    if output in ("CK_TWICE", "CK_ONCE"):
        requantization = fixed_point(random, q, output[3:].lower(), own, choice.variant.fmt)
    plan = make_plan(
        replace(choice, requantizes=not epilogue), plus, rounding=requantization.rounding
    )
    packed = pack(plan, constants)
    function, ctx, used, size = OUTPUTS[output]
    fields = {
        "type": "CK_I8", "output": output, "y": own, "extremes": int(q.extremes),
        "x": ck_range(q.x_zero, q.x_signed), "has_residual": int(output == "CK_PLUS"),
    }  # fmt: skip
    text = ""
    if output == "CK_PLUS":
        text = add_plus(random, fields, own, added_signed)
    body = BODY.format(
        layer=layer_structs(plan),
        range=moved(own, requantization.middle), used=used, epilogue=function, ctx=ctx, bytes=size,
        plus=text, by="&plus" if text else "NULL", added=s.channels[1],
    )  # fmt: skip
    headers = ["depthwise_i8.h", "tile/requantize.h", *tile_headers(plan)]
    layers.need(headers, tile_definitions(plan))
    variant = plan.variant
    name = f"{'depthwise' if layer.depthwise else 'conv'}_i8_{variant.fmt.name}"
    words = [
        "shares" * variant.shares,
        "" if variant.reading is Reading.ROWS else variant.reading.name.lower(),
        "overflow_quads" * bool(variant.overflow.quads),
        "residual_type" * bool(plus),
        "shifted" * plan.shifted,
        plan.rounding,
    ]
    scale = requantization.pack(plan)
    scales = q.scale
    if plan.rounding:
        scales = np.concatenate(split_scale(requantization.scale)).astype(np.int32)
    arrays = [q.w.astype(np.int16), q.zeros, packed.weights, q.bias, packed.bias, scales, scale,
              packed.shift]  # fmt: skip
    layers.add(" ".join([name, *filter(None, words)]), s, body, fields, arrays)


def moved(own: str, middle: int) -> str:
    """Return a range with a zero point that is ``middle`` higher."""
    zero, rest = own.strip("{}").split(",", 1)
    return f"{{{int(zero) + middle},{rest}}}"


def fixed_point(
    random: Random, q: Quantised, rounding: str, own: str, fmt: WeightFormat
) -> RequantizationI8:
    """Return random fixed-point multipliers, in one of the ways that compute them."""
    zero, low, high = (int(each) for each in own.strip("{}").split(",")[:3])
    bounds = low - zero, high - zero
    exponents = np.clip(-np.frexp(q.scale)[1].astype(int), 1, 31)
    kind = random.int(0, 3)
    if kind == 0:  # any shift
        exponents = random.rng.integers(1, 32, len(q.w))
    m = random.rng.integers(1 << 30, 1 << 31, len(q.w))
    if kind == 1:  # many ties
        m[::2] = 1 << 30
        m[1::3] = (1 << 31) - 1
    scale = np.ldexp(m.astype(float), -31 - exponents)
    if fmt.fuses and kind > 1 and bounds[0] < bounds[1]:
        least = -128 if q.x_signed else 0
        inputs = least - q.x_zero, least + 255 - q.x_zero
        reach = accumulator_range(q.w, q.zeros, inputs, q.bias)
        find = find_scale_pairs if fmt.rounds_down and random.chance(0.5) else find_float_scales
        floats = find(scale, rounding, bounds, reach)
        if floats is not None:
            return RequantizationI8(scale, floats.rounding, floats)
    is_positive = rounding == "twice" and bounds[0] >= 0
    return RequantizationI8(scale, "positive" if is_positive else rounding)


def add_plus(random: Random, fields: dict[str, object], own: str, signed: bool) -> str:
    """Return the C code of the residual added to the results; its description is set in the
    fields."""
    low = -128 if signed else 0
    zero, factors = random.int(low, low + 255), random.rng.uniform(0.1, 1.9, 2).astype(np.float32)
    a_zero = int(own.strip("{}").split(",")[0])
    total = random_range(random)
    fields |= {"added": ck_range(zero, signed), "sum": total}
    fields["factors"] = f"{{{factors[0]!r}f, {factors[1]!r}f}}".replace("np.float32(", "").replace(
        ")f", "f"
    )
    numbers = fields["factors"].strip("{}")
    return (
        f"  static const tvmrt_add_i8 plus = {{{numbers}, 1.0f, {a_zero}, 0, {zero},"
        f" {int(signed)}, {total}}};\n"
    )


DYNAMIC = """{layer}
  static const int32_t zero = {zero};
  const tvmrt_matmul_i8_b right = {{t->w, {strides}, {signed}, zero, {scratch}}};
  const tvmrt_conv_i8_data data = {{
      t->x, NULL, NULL, NULL, NULL, t->y, NULL, tvmrt_i8_rows_int32, NULL, 4, NULL, NULL, 0}};
  return tvmrt_matmul_i8_dynamic(&layer, &data, &right, {x_zero});"""


def add_product(layers: Layers, number: int, fmt: WeightFormat) -> None:
    """Add a matmul whose right operand is packed at run time."""
    random = layers.random
    s = Shape((1, 1, random.int(1, 40)), (random.one(random.int(1, 8), random.int(9, 130)),
                                          random.int(1, 200)))  # fmt: skip
    q = Quantised.random(random, s, (0, 1)[number % 2])
    zero = int(q.w_zero)
    m, (k, n) = s.size[2], s.channels
    variant = VariantI8(LayerI8.matmul(m, k, n, x_signed=q.x_signed), fmt)
    plan = make_plan(replace(with_tile(variant), shifted=True, requantizes=False))
    stored = q.w.reshape(n, k) if number % 4 < 2 else np.ascontiguousarray(q.w.reshape(n, k).T)
    body = DYNAMIC.format(
        layer=layer_structs(plan),
        zero=zero, strides=f"1, {k}" if number % 4 < 2 else f"{n}, 1",
        signed=int(q.w.dtype == np.int8), scratch="{}, {}".format(*packing_bytes(plan)),
        x_zero=q.x_zero,
    )  # fmt: skip
    fields = {"type": "CK_I8", "output": "CK_INT32", "y": "{0, 0, 0, 0}",
              "x": ck_range(q.x_zero, q.x_signed), "extremes": int(q.extremes)}  # fmt: skip
    layers.need(["matmul_i8.h", "depthwise_i8.h", *tile_headers(plan)], tile_definitions(plan))
    arrays = [q.w.astype(np.int16), q.zeros, stored, None, None, None, None, None]
    layers.add(f"matmul_i8_{fmt.name} computed", s, body, fields, arrays)


def add_all(layers: Layers, part: float) -> str:
    """Add layers of all integer kernels; return the macro that names their format."""
    target = layers.target
    fmt = FORMATS[target.int8]
    for number in spread(39, part):
        add_conv(layers, fmt, layers.random.dense(number))
    for number in spread(24, part):
        add_conv(layers, fmt, layers.random.depthwise(number))
    for vectors, _ in tile_options(fmt, MANY_VECTORS, 1):  # each width, and a shorter last tile
        channels = fmt.lanes * vectors + layers.random.int(1, fmt.lanes * vectors)
        add_conv(layers, fmt, Shape((1, 1, 1), (layers.random.int(1, 150), channels)), vectors)
    for number in spread(8, part):
        add_product(layers, number, fmt)
    if target.int8_tiles:
        for number in spread(60, part):
            s = layers.random.matrices(number)
            add_conv(layers, FORMATS[target.int8_tiles], s)
        for number in spread(4, part):
            add_product(layers, number, FORMATS[target.int8_tiles])
    return f"#define TVMRT_I8_FORMAT {fmt.macro}\n"
