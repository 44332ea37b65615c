"""Lowering of integer convolution and matmul."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from math import prod

import numpy as np

from tvmrt.compiler.ir import Value
from tvmrt.compiler.ir.program import (
    CHANNELS_LAST,
    ROWS,
    Access,
    Group,
    Step,
    channels_last_order,
    pixel_stride,
)
from tvmrt.compiler.ir.quantized import storage_range
from tvmrt.compiler.ir.requantization import rounding_of
from tvmrt.compiler.ir.sizes import SymInt, upper_bound

from ...ir.program import ANY, DENSE
from ..c.formatting import GAP, initializer
from ..c.initializers import PARALLEL_WORK, print_static, print_tensors, share_layer
from ..c.writer import FunctionWriter
from ..geometry import Window
from ..kernel_features import BOARD_KERNELS, DUAL_ISSUE, HELIUM
from ..loops.quantized_binary_scales import pair_members
from ..lowering import ResultLayout, Scratch, lowers, same_offsets
from ..target import Target
from .boards.board_lowering import BoardLowering, print_weights
from .boards.channel_groups import (
    ChannelGroups,
    divide_channels,
    group_outputs,
    kernel_shape,
    pack_groups,
    pad_scales,
    print_groups,
)
from .boards.dequantize_epilogue import print_dequantize_epilogue
from .boards.int8 import KERNELS as BOARDS
from .boards.kernel import MicroKernel
from .boards.layer_i8 import MicroLayerI8
from .boards.requant_multipliers import RequantTable, requant_table
from .boards.residual_epilogue import HARD_FLOAT_FLAGS, print_residual_epilogue
from .choose_i8 import choose, choose_variant
from .epilogue_operands import fits_rows, row_strides
from .first_run_packing import print_pack_once_i8
from .fused_requant_add import FusedRequantAdd, find_fused_requant_add
from .fused_residual import residual_operand
from .layer_i8 import ConstantsI8, LayerI8, VariantI8
from .packing_i8 import PackedI8, PackingOrderI8, max_packed_bytes, pack
from .plan_i8 import PlanI8, make_plan
from .print_i8 import print_call_data, print_plan, tile_headers
from .quantized_epilogue import emit_rows
from .requantize_i8 import RequantizationI8, requantization_of
from .tiles_i8 import FORMATS, SHARED, WeightFormat, define_weight_format

# Members of tvmrt_micro_data.
_DATA = ("x", "weights", "bias", "multipliers", "shift", "y", "epilogue", "ctx")


def threads_for(target: Target, macs: SymInt, grouped: bool = False) -> int:
    """Return the threads for int8 multiply-adds: 1 for the calling thread alone, 0 for all. The
    threshold is higher than for floats: depthwise layers around small ones are not shared."""
    work = FORMATS[target.int8_tiles or target.int8].float_macs(upper_bound(macs), grouped)
    return 0 if target.threads and work >= 2.5 * PARALLEL_WORK else 1


class IntegerMatMulLowering(BoardLowering):
    """Base class of integer convolution and matmul: packing, clamping, row epilogue.

    Subclasses define the axis order (``order``), the memory layout (``demand``), and describe the
    layer (``layer``) with weights as [output channels, ...].
    """

    takes_epilogue = True
    kernels = BOARDS
    struct = "tvmrt_micro_conv_i8"

    def __init__(self, group: Group, target: Target) -> None:
        super().__init__(group, target)
        self._plans: dict[tuple[object, ...], PlanI8] = {}

    @property
    def order(self) -> tuple[int, ...]:
        raise NotImplementedError

    def layer(self, step: Step) -> LayerI8:
        raise NotImplementedError

    def weights(self) -> np.ndarray:
        raise NotImplementedError

    def macs(self) -> int:
        weights = self.weights()
        return self.node.output.type.size * (weights.size // max(1, weights.shape[0]))

    def formats(self, shares: bool) -> tuple[WeightFormat, WeightFormat | None]:
        """Return the format of the tiles, and the packing format if a wider ISA level shares the
        weights."""
        widest = self.target.widest
        own = self.target.int8
        if self.target.int8_tiles and shares:
            return FORMATS[self.target.int8_tiles], FORMATS[own]
        readers = SHARED.get(widest.int8, {}) if widest is not None and shares else {}
        if widest is None or own not in readers:
            return FORMATS[own], None
        return FORMATS[readers[own]], FORMATS[widest.int8]

    @property
    def threads(self) -> int:
        """Threads as kernels count: 1 for the calling thread alone, 0 for all."""
        return threads_for(self.target, self.macs(), self.groups > 1)

    @property
    def groups(self) -> int:
        return 1

    @property
    def w_zero(self) -> np.ndarray:
        zero = self.node.inputs[4]
        return np.zeros(1, np.int32) if zero is None else zero.data

    def common(self) -> dict:
        """Return the fields of the layer that do not depend on its shape."""
        x = self.node.inputs[0]
        return {
            "x_signed": x.dtype.is_signed,
            "x_bytes": x.dtype.itemsize,
            "x_zero": self.node.attrs["x_zero"],
            "threads": self.threads,
        }

    def accepts_epilogue(self, accesses: dict[Value, Access]) -> bool:
        shape, residual = self.node.output.shape, self.residual
        if not fits_rows(self.group.after, shape, self.order, accesses):
            return False
        return residual is None or row_strides(accesses[residual].at, shape, self.order)[1] == 1

    def in_place(self, step: Step) -> list[tuple[int, int]]:
        out = step.writes[0]
        layer, may_overwrite_input = self.board_layer(step), self.may_overwrite_input(step)
        if may_overwrite_input and layer is not None and layer.groups:
            may_overwrite_input = not self.channel_groups(step).copies_input
        return [
            (i, 0)
            for i, access in enumerate(step.reads)
            if (may_overwrite_input or step.read_values[i] is not self.node.inputs[0])
            and access.dtype.itemsize == out.dtype.itemsize
            and same_offsets(access.at, out.at)
        ]

    def read_at(self, step: Step, value: Value):
        return step.reads[step.read_values.index(value)].at

    @property
    def scale(self) -> np.ndarray:
        """Multipliers of the sums, one per output channel."""
        return np.broadcast_to(self.node.inputs[2].data.reshape(-1), (len(self.weights()),))

    @property
    def bias(self) -> np.ndarray | None:
        return None if self.node.inputs[3] is None else self.node.inputs[3].data

    @property
    def residual(self) -> Value | None:
        """Residual that the tiles of hosts add."""
        after = self.group.after
        if BOARD_KERNELS.of(self.target) or len(after) != 1:
            return None
        other = residual_operand(self.node, after[0])
        return None if other is None else after[0].inputs[other]

    @property
    def requantizes_in_kernel(self) -> bool:
        """Whether the kernel itself requantises the result."""
        alone = not self.group.after or self.residual is not None
        if self.node.attrs["to"] not in ("int8", "uint8") or not alone:
            return False
        table = self.requant_table if BOARD_KERNELS.of(self.target) else self.requantization
        return table is not None

    @cached_property
    def requantization(self) -> RequantizationI8 | None:
        """How the tiles of hosts requantise a result of bytes; None if they cannot."""
        fmt = FORMATS[self.target.int8]
        return requantization_of(self.node, self.scale, fmt, self.residual is not None)

    @property
    def _channels_of_group(self) -> int:
        """Output channels that a board's kernel computes per call."""
        weights = self.weights()
        return group_outputs(weights.shape[1] * self.groups, len(weights), self.groups)

    @cached_property
    def requant_table(self) -> RequantTable | None:
        """Multipliers of a board's kernels for a product to bytes; None if they cannot have its
        rounding."""
        if not BOARD_KERNELS.of(self.target):
            return None
        bounds = (self.node.attrs["y_zero"], *self._bounds()[:2])
        scale = pad_scales(self.scale, self._channels_of_group)
        return requant_table(scale, rounding_of(self.node), *bounds)

    def channel_groups(self, step: Step) -> ChannelGroups | None:
        """Return the groups of channels that a board's kernel computes one after another."""
        return divide_channels(self.layer(step), HELIUM.of(self.target))

    def board_layer(self, step: Step, by_rows: bool = False) -> MicroLayerI8 | None:
        if not BOARD_KERNELS.of(self.target):
            return None
        layer, groups = self.layer(step), self.channel_groups(step)
        scale = self.scale if self.requantizes_in_kernel else None
        shape = kernel_shape(layer, groups, scale, by_rows)
        if shape is None:
            return None
        whole = MicroLayerI8(shape, layer, self.weights(), self.w_zero, self.bias)
        return whole if groups is None else groups.split(whole)

    def tile_scratch(self, step: Step) -> Scratch:
        return Scratch(self._packed_bytes(), (self.plan(step).scratch.total,))

    def scratch(self, step: Step) -> Scratch:
        scratch, layer = super().scratch(step), self.board_layer(step)
        if layer is None or not layer.groups:
            return scratch
        return Scratch(0, (self.channel_groups(step).copied_bytes, *scratch.kernel_blocks))

    def emit(self, step: Step, f: FunctionWriter) -> None:
        layer = self.board_layer(step)
        if layer is None or not layer.groups:
            super().emit(step, f)
            return
        kernel = self.kernels.choose(layer, self.target.board)
        address = self.print_board(step, f, layer, kernel)
        table = self.requant_table if self.requantizes_in_kernel else None
        multipliers = 0 if table is None else table.multipliers.size
        print_groups(f, kernel, layer, self.channel_groups(step), address, multipliers)

    def print_board(
        self, step: Step, f: FunctionWriter, layer: MicroLayerI8, kernel: MicroKernel
    ) -> str:
        define_weight_format(f, self.target)
        if DUAL_ISSUE.of(self.target):
            f.macro("TVMRT_MICRO_DUAL_ISSUE", "1")
        if layer.shape.x_bytes == 2:
            f.macro("TVMRT_MICRO_INT16", "1")
        f.include(kernel.header)
        packed = pack_groups(kernel, layer)
        fields = {
            "x": f.name_read(step.read_values.index(self.node.inputs[0]), "in"),
            "weights": print_weights(f, step, packed.weights),
        }
        y, bounds, table = f.write(), (0, 0, 0, False), None
        if packed.bias is not None:
            fields["bias"] = f.constant("bias", packed.bias)
        if self.requantizes_in_kernel:
            bounds = (self.node.attrs["y_zero"], *self._bounds())
            table = self.requant_table
            fields["multipliers"] = table.print(f)
        if packed.shift is not None:
            fields["shift"] = f.constant("shift", packed.shift)
        fields["y"] = y
        twice = "" if table is None else table.twice
        fixed = table is not None and table.fixed_point_only and packed.shift is None
        fixed = fixed and bool(twice or not f.common.replaceable)
        members = layer.members(kernel, step.writes[0].dtype.itemsize, bounds, fixed, twice)
        address = share_layer(f, self.struct, members, layer.shape.of_run, step.name)
        if not self.requantizes_in_kernel:
            row_epilogue, helium = None, HELIUM.of(self.target)
            # float calls of Helium are already nested more deeply
            # its multipliers are read in quads of all channels
            whole_quads = not layer.groups or self._channels_of_group % 4 == 0
            if whole_quads and (not helium or rounding_of(self.node) != "even"):
                floats = any(each in HARD_FLOAT_FLAGS for each in self.target.flags)
                after, order = self.group.after, self.order
                row_epilogue = print_residual_epilogue(
                    f, step, self.node, after, order, self.scale, floats
                )
                if row_epilogue is None and floats and not helium:
                    # else a function of constants is smaller
                    row_epilogue = print_dequantize_epilogue(f, self.node, after)
            if row_epilogue is None:
                f.include("tile/requantize.h")
                row_epilogue = self._epilogue(step, f, self.scale)
            fields["epilogue"], fields["ctx"] = row_epilogue
        # name every member: compilers call memset() for missing ones
        print_tensors(f, "tvmrt_micro_data", {**dict.fromkeys(_DATA, "NULL"), **fields})
        return address

    def _bounds(self) -> tuple[int, int, bool]:
        """Return (minimum, maximum, whether signed) of the result's bytes."""
        attrs, dtype = self.node.attrs, self.node.output.dtype
        low, high = storage_range(dtype)
        return attrs.get("low", low), attrs.get("high", high), dtype.is_signed

    def plan(self, step: Step) -> PlanI8:
        """Return the plan for tiles, which is made once for each placement of the operands."""
        layer = self.layer(step)
        key = (layer, *self.group.after)
        if key not in self._plans:
            self._plans[key] = self._make_plan(step)
        return self._plans[key]

    def _make_plan(self, step: Step) -> PlanI8:
        variant, constants = self._variant(step)
        scale = self.scale if self.requantizes_in_kernel else None
        choice = choose(variant, constants, scale)
        rounding = self.requantization.rounding if choice.requantizes else ""
        if self.residual is None or not choice.requantizes:
            return make_plan(choice, rounding=rounding)
        signed = "s8" if self.residual.dtype.is_signed else "u8"
        fused = choice.variant.fmt.uses_amx and self._fused_requant_add() is not None
        return make_plan(choice, f"{signed}_fused" if fused else signed, rounding)

    def _constants(self, layer: LayerI8) -> ConstantsI8:
        return ConstantsI8(layer, self.weights(), self.w_zero, self.bias)

    def _variant(self, step: Step) -> tuple[VariantI8, ConstantsI8]:
        """Return the layer in its best variant, and its constants."""
        layer = self.layer(step)
        layer = replace(layer, window=layer.window.in_longest_rows())
        constants, formats = self._constants(layer), self.formats(not layer.depthwise)
        by_run, requantizes = self.packs_at_run_time, self.requantizes_in_kernel
        return choose_variant(layer, *formats, constants, by_run, requantizes), constants

    @property
    def packs_at_run_time(self) -> bool:
        """Whether the run packs the weights, because the library stores them for a device."""
        w = self.node.inputs[1]
        dense = self.groups == 1 or self.groups != len(self.weights())
        return w.keeps_layout and not BOARD_KERNELS.of(self.target) and dense

    def _packed_bytes(self) -> int:
        """Return the bytes of weights that the run packs."""
        if not self.packs_at_run_time:
            return 0
        outputs, inputs, *window = self.weights().shape
        return max_packed_bytes(outputs // self.groups, inputs, prod(window), self.groups)

    def _print_weights(self, f: FunctionWriter, plan: PlanI8, packed: PackedI8) -> str:
        """Return the pointer to packed weights."""
        if not self.packs_at_run_time:
            return f.constant("weights", packed.weights)
        w, is_product = self.node.inputs[1], self.node.op == "qmatmul"
        taps = prod(self.weights().shape[2:])
        order = PackingOrderI8(plan, taps, is_product, w.dtype.is_signed)
        zero_points = np.broadcast_to(self.w_zero.reshape(-1), (plan.layer.out_c,))
        if packed.shift is not None:
            padded = packed.shift.reshape(plan.layer.groups, -1)
            zero_points = zero_points + padded[:, : order.channels].reshape(-1)
        names = (f.constant("weights", w.data), f.constant("zeros", zero_points.astype(np.int32)))
        return print_pack_once_i8(f, order, *names, f.scratch())

    def emit_tiles(self, step: Step, f: FunctionWriter) -> None:
        node, scale, plan = self.node, self.scale, self.plan(step)
        packed = pack(plan, self._constants(plan.layer))
        x = f.name_read(step.read_values.index(node.inputs[0]), "in")
        fields = {
            "x": x,
            "weights": self._print_weights(f, plan, packed),
            "bias": f.constant("bias", packed.bias),
            "y": f.write(),
            "y_bytes": step.writes[0].dtype.itemsize,
        }
        if packed.shift is not None:
            fields["shift"] = f.constant("shift", packed.shift)
        define_weight_format(f, self.target)
        kernel = "depthwise_i8.h" if plan.layer.depthwise else "conv_i8.h"
        f.include(kernel, "tile/requantize.h", *tile_headers(plan))
        fused_add = "NULL"
        if plan.requantizes:
            packed_scales = self.requantization.pack(plan)
            scales = f.constant("scale", packed_scales)
            cast = "" if packed_scales.dtype == np.float32 else "(const float *)"
            fields["scale"] = cast + scales
            fields["range"] = f"&{print_static(f, 'tvmrt_i8_range', 'range', self._range())}"
            if plan.residual_type:
                fields.update(self._print_residual(step, f))
            if plan.residual_type.endswith("fused"):
                quick = self._fused_requant_add().initializer
                fused = print_static(f, "tvmrt_fused_add_i8", "fused_add", quick, separator=GAP)
                fused_add = f"&{fused}"
        else:
            fields["epilogue"], fields["ctx"] = self._epilogue(step, f, scale)
        struct = print_plan(f, plan, fused_add)
        print_call_data(f, fields)
        f.result(f"tvmrt_conv_i8_run(&{struct}, &data)")

    def _fused_requant_add(self) -> FusedRequantAdd | None:
        (node,) = self.group.after
        return find_fused_requant_add(self.node, node, node.inputs.index(self.residual))

    def _print_residual(self, step: Step, f: FunctionWriter) -> dict[str, object]:
        """Print the residual add of tiles; return its operands as members of the call's data."""
        (node,), residual = self.group.after, self.residual
        plus = initializer(pair_members(node, 1 - node.inputs.index(residual)))
        added = print_static(f, "tvmrt_add_i8", "residual_add", plus, separator=GAP)
        at = step.read_values.index(residual)
        strides = row_strides(step.reads[at].at, self.node.output.shape, self.order)
        return {
            "residual_add": f"&{added}",
            "added": f.name_read(at, "added"),
            "added_stride": strides[0],
        }

    def _range(self) -> str:
        low, high, signed = self._bounds()
        zero = self.node.attrs["y_zero"] + self.requantization.middle
        return f"{{.zero = {zero}, .lo = {low}, .hi = {high}, .is_signed = {int(signed)}}}"

    def _epilogue(self, step: Step, f: FunctionWriter, scale: np.ndarray) -> tuple[str, str]:
        """Return the row function and its context as C expressions."""
        to = self.node.attrs["to"]
        if not self.group.after and to == "int32":
            return "tvmrt_i8_rows_int32", "NULL"
        if not self.group.after and to == "float32":
            return "tvmrt_i8_rows_float", f.constant("scale", scale)
        if not self.group.after and to == "int16":
            f.include("board/requantize_i16.h")
            multipliers = f.constant("multipliers", np.ldexp(scale, 32).astype(np.int32))
            low, high, _ = self._bounds()
            f.line(f"const tvmrt_micro_i16_range range = {{{multipliers}, {low}, {high}}};")
            return "tvmrt_micro_i16_rows", "&range"
        # at most the accumulators' lanes, so that ISA levels with equal ones share the function
        lanes, accumulator_lanes = self.target.lanes, FORMATS[self.target.int8].lanes
        lanes = min(lanes, accumulator_lanes) if accumulator_lanes > 1 else lanes
        return emit_rows(f, step, self.node, self.group.after, self.order, lanes)


@lowers("qconv", "qconv_int16")
class QConvLowering(IntegerMatMulLowering):
    """Direct convolution by tiles, dense, grouped or depthwise; channels last."""

    @property
    def order(self) -> tuple[int, ...]:
        return channels_last_order(self.node.output.type.rank)

    def demand(self, value: Value) -> str:
        return CHANNELS_LAST if value is self.node.inputs[0] else ANY

    def result_layout(self, index: int, accesses) -> ResultLayout:
        return ResultLayout(self.order, CHANNELS_LAST)

    def weights(self) -> np.ndarray:
        return self.node.inputs[1].data

    @property
    def groups(self) -> int:
        return self.node.attrs["groups"]

    def layer(self, step: Step) -> LayerI8:
        x, y, attrs = self.node.inputs[0], self.node.output, self.node.attrs
        strides = pixel_stride(self.read_at(step, x)), pixel_stride(step.writes[0].at)
        window = Window.of(x.shape, y.shape, self.weights().shape[2:], attrs, *strides)
        return LayerI8(window, x.shape[1], y.shape[1], attrs["groups"], **self.common())


@lowers("qmatmul", "qmatmul_int16")
class QMatMulLowering(IntegerMatMulLowering):
    """A matmul is a 1 x 1 convolution whose pixels are the rows."""

    @property
    def order(self) -> tuple[int, ...]:
        return tuple(range(self.node.output.type.rank))

    def demand(self, value: Value) -> str:
        if value is not self.node.inputs[0]:
            return ANY
        return ROWS if value.type.rank == 2 else DENSE

    def result_layout(self, index: int, accesses) -> ResultLayout:
        return ResultLayout(self.order, ROWS if self.node.output.type.rank == 2 else DENSE)

    def weights(self) -> np.ndarray:
        return self.node.inputs[1].data.T

    def layer(self, step: Step) -> LayerI8:
        x, y = self.node.inputs[0], self.node.output
        rows, depth, columns = prod(x.shape[:-1]), x.shape[-1], y.shape[-1]
        return LayerI8.matmul(
            rows,
            depth,
            columns,
            lda=row_step(self.read_at(step, x), depth),
            ldc=row_step(step.writes[0].at, columns),
            **self.common(),
        )


def row_step(at, extent: int) -> int:
    """Return the row stride of a matrix in elements, or of all rows of a dense batch."""
    return at.strides[-2] if at.shape[-2] != 1 else extent
