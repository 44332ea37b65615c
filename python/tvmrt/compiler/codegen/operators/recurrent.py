"""Recurrent cells in float32."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tvmrt.compiler.ir import Value
from tvmrt.compiler.ir.program import ALIGN_BYTES, DENSE, ROWS, Step
from tvmrt.compiler.ir.rounding import round_up
from tvmrt.compiler.ir.sizes import symbols_of, upper_bound

from ..c.formatting import call, plus
from ..c.initializers import float_literal, print_layer, print_struct, print_tiles
from ..c.inputs import input_pointer
from ..c.writer import FunctionWriter
from ..lowering import Lowering, ResultLayout, Scratch, lowers
from ..window import packing_f32 as packing
from ..window.first_run_packing import print_pack_once
from ..window.tiles_f32 import Tiles, VectorMachine, choose_tiles

# Members of a job in the order of the struct.
JOB = (
    "steps", "x", "r", "r_hidden", "bias", "peephole", "h0", "c0", "lengths", "y", "h", "c", "sums",
)  # fmt: skip

# C expressions of x, alpha and beta; sigmoid and tanh are functions in the math header
_EXPRESSIONS = {
    "affine": "{alpha} * x + {beta}",
    "elu": "x >= 0.0f ? x : {alpha} * (tvmrt_exp_f32(x) - 1.0f)",
    "hardsigmoid": "tvmrt_max_f32(0.0f, tvmrt_min_f32(1.0f, {alpha} * x + {beta}))",
    "leakyrelu": "x >= 0.0f ? x : {alpha} * x",
    "relu": "tvmrt_max_f32(x, 0.0f)",
    "scaledtanh": "{alpha} * tvmrt_tanh_f32({beta} * x)",
    "softplus": "tvmrt_max_f32(x, 0.0f) + tvmrt_log_f32(1.0f + tvmrt_exp_f32(-tvmrt_abs_f32(x)))",
    "softsign": "x / (1.0f + tvmrt_abs_f32(x))",
    "thresholdedrelu": "x >= {alpha} ? x : 0.0f",
}


NARROW_COLUMNS = 64  # of a block of weights for a batch of one
MIN_SHARED_STEPS = 8  # for a launch of threads
MIN_SHARED_MACS = 40000  # of a step for two threads, which exchange states in 0.2 us


class RecurrentLowering(Lowering):
    """Base class of cells: packed weights, states and the kernel instance."""

    gates = 1
    scratch_rows = 1  # floats of scratch per batch row and hidden unit
    matmuls: tuple[tuple[int, ...], ...] = ((0,),)  # gates with jointly packed weights, per matmul

    def demand(self, value: Value) -> str:
        return ROWS if value is self.node.inputs[0] else DENSE

    def result_layout(self, index: int, accesses) -> ResultLayout:
        return ResultLayout(demand=ROWS if index == 0 else DENSE)

    @property
    def batch(self) -> int:
        return self.node.inputs[0].shape[1]

    @property
    def hidden(self) -> int:
        return self.node.inputs[1].shape[1]

    def macs(self) -> int:
        steps = self.node.inputs[0].shape[0]
        return steps * self.batch * self.gates * self.hidden * self.hidden

    def scratch(self, step: Step) -> Scratch:
        accumulators = self.batch * self.scratch_rows * self.hidden * 4
        tiles = self.tiles(step)
        # states and sums that two threads share
        shared = (8 * self.batch * self.hidden * 4,) if self._is_shared(tiles) else ()
        return Scratch(self._packed_bytes(tiles) + accumulators, shared)

    def _packed_bytes(self, tiles: Tiles) -> int:
        """Return the scratch bytes, before the accumulators, of operands packed at run time."""
        floats = 0 if self._is_packed() else self._packed_floats(tiles, self.matmuls)
        bias = self.hidden_bias()
        if bias is not None and not bias.is_constant:
            floats += self._bias_floats(tiles)
        return round_up(4 * floats, ALIGN_BYTES)

    def _is_packed(self) -> bool:
        """Return whether the recurrence weights are packed at compile time: not dynamic ones, and
        not those of a region's fallback, which the library already stores for the device."""
        return self.node.inputs[1].is_constant and not self.node.inputs[1].keeps_layout

    def _packed_floats(self, tiles: Tiles, matmuls: Sequence[tuple[int, ...]]) -> int:
        rows = (round_up(len(gates) * self.hidden, tiles.packed) for gates in matmuls)
        return sum(rows) * self.hidden

    def _bias_floats(self, tiles: Tiles) -> int:
        return round_up(self.gates * self.hidden, tiles.packed)

    def hidden_bias(self) -> Value | None:
        """Return the bias that is added to the recurrent matmul."""
        return None

    def tiles(self, step: Step) -> Tiles:
        columns = self.gates * self.hidden
        tiles = choose_tiles(self.batch, columns, self.hidden, self.target)
        if self.batch != 1:
            return tiles
        return _narrow_tiles(tiles, columns, self.target.widest or self.target)

    def functions(self, f: FunctionWriter) -> list[tuple[str, str]]:
        """Return, for each activation, its word in the kernel's name and its C function. Functions
        of activations with parameters are defined first."""
        names = []
        for name, alpha, beta in self.node.attrs["activations"]:
            if name in ("sigmoid", "tanh"):
                names.append((name, f"tvmrt_{name}_f32"))
                continue
            text = _EXPRESSIONS[name].format(
                alpha=_optional_literal(alpha), beta=_optional_literal(beta)
            )
            parts = [name, *(_word(v) for v in (alpha, beta) if v is not None)]
            symbol = "_".join(["recurrent", *parts])
            f.define(f"static inline float {symbol}(float x) {{ return {text}; }}")
            names.append((symbol, symbol))
        return names

    def emit(self, step: Step, f: FunctionWriter) -> None:
        tiles = self.tiles(step)
        f.include("scalar/math.h", "op/recurrent.h")
        words, functions = zip(*self.functions(f))
        macro = f"TVMRT_DEFINE_{self.node.op.upper()}_F32"
        kernel = "_".join([self.node.op, *words, *self.variant])
        f.define(call(macro, kernel, *functions, *self.macro_arguments()))
        job = self.job(step, f, tiles)
        layer, registers = self._print_layer(step, f, tiles), print_tiles(f, tiles)
        ordered = {member: job[member] for member in JOB if member in job}
        print_struct(f, "const tvmrt_recurrent_f32_job job", ordered)
        if self._is_shared(tiles):
            f.include("op/recurrent_shared.h")
            f.define(call(f"TVMRT_SHARE_{self.node.op.upper()}_F32", kernel))
            kernel += "_shared"
        f.result(call(kernel, f"&{layer}", f"&{registers}", "&job", *self.extra_arguments()))

    def _is_shared(self, tiles: Tiles) -> bool:
        """Return whether two threads share the units of each step: each has whole tiles."""
        blocks, tail = divmod(self.hidden, tiles.block)
        if symbols_of(self.batch) or len(self.matmuls) > 1 or tail or blocks < 2:
            return False
        steps = upper_bound(self.node.inputs[0].shape[0])
        macs = self.batch * self.gates * self.hidden * self.hidden
        return self.target.threads and steps >= MIN_SHARED_STEPS and macs >= MIN_SHARED_MACS

    @property
    def variant(self) -> list[str]:
        """Words that distinguish this instance from others with the same activations."""
        return []

    def macro_arguments(self) -> list[str]:
        """Return the arguments of the defining macro after the activations."""
        return []

    def extra_arguments(self) -> list[str]:
        """Return the arguments of the kernel after the job."""
        return []

    def job(self, step: Step, f: FunctionWriter, tiles: Tiles) -> dict[str, str]:
        """Return the members of the job that are not NULL."""
        x = step.read_values.index(self.node.inputs[0])
        return {
            "steps": str(self.node.inputs[0].shape[0]),
            "x": f.name_read(x, "x"),
            "h0": input_pointer(f, 2, "h0"),
            "y": f.write(0),
            "h": f.name_write(1, "last"),
            "sums": _floats(f, self._packed_bytes(tiles) // 4),
        }

    def _print_layer(self, step: Step, f: FunctionWriter, tiles: Tiles) -> str:
        x = step.reads[step.read_values.index(self.node.inputs[0])].at
        y = step.writes[0].at
        return print_layer(
            f,
            "tvmrt_recurrent_f32_layer",
            {
                "batch": self.batch,
                "hidden": self.hidden,
                "reverse": int(self.node.attrs["reverse"]),
                "x_step": x.strides[0],
                "x_row": x.strides[1],
                "y_step": y.strides[0],
                "y_row": y.strides[1],
                "clip": _optional_literal(self.node.attrs["clip"]),
                **tiles.members(),
            },
        )

    def packed(self, f: FunctionWriter, tiles: Tiles, gates: Sequence[int]) -> str:
        """Return the packed recurrence weights of some gates."""
        if not self._is_packed():
            return self._packed_at_run_time(f, tiles, tuple(gates))
        r = self.node.inputs[1].data.reshape(self.gates, self.hidden, self.hidden)
        matrix = r[list(gates)].reshape(-1, self.hidden).T
        return f.constant("r_hidden" if gates == [2] else "r", packing.pack_matmul(matrix, tiles))

    def _packed_at_run_time(self, f: FunctionWriter, tiles: Tiles, gates: tuple[int, ...]) -> str:
        """Print code that packs recurrence weights into scratch; constants are packed once."""
        matmul = self.matmuls.index(gates)
        offset = _floats(f, self._packed_floats(tiles, self.matmuls[:matmul]))
        first, rows = gates[0] * self.hidden * self.hidden, len(gates) * self.hidden
        source = plus(input_pointer(f, 1, "r"), str(first))
        if self.node.inputs[1].is_constant:
            order = packing.PackingOrder(rows, self.hidden, 1)
            name = f"order{matmul or ''}"
            return print_pack_once(f, order, tiles.packed, source, offset, name)
        f.line(f"{call('tvmrt_pack_rows_f32', source, rows, self.hidden, tiles.packed, offset)};")
        return offset


def _floats(f: FunctionWriter, offset: int) -> str:
    """Return a scratch pointer at an offset in floats."""
    return plus(f"(float *){f.scratch()}", str(offset))


@lowers("lstm")
class LstmLowering(RecurrentLowering):
    """LSTM: gates i, o, f, c in one matmul per step."""

    gates = scratch_rows = 4
    matmuls = ((0, 1, 2, 3),)

    @property
    def variant(self) -> list[str]:
        return ["peephole"] if self.node.inputs[4] is not None else []

    def macro_arguments(self) -> list[str]:
        return [str(len(self.variant))]

    def job(self, step, f, tiles):
        return {
            **super().job(step, f, tiles),
            "r": self.packed(f, tiles, [0, 1, 2, 3]),
            "c0": input_pointer(f, 3, "c0"),
            "peephole": input_pointer(f, 4, "peephole"),
            "lengths": input_pointer(f, 5, "lengths"),
            "c": f.name_write(2, "last_cell"),
        }

    def extra_arguments(self) -> list[str]:
        return [str(int(self.node.attrs["input_forget"]))]


@lowers("gru")
class GruLowering(RecurrentLowering):
    """GRU: gates z, r, h; two matmuls per step if the reset is applied before the hidden matmul."""

    gates = 3
    scratch_rows = 4

    @property
    def matmuls(self):
        return ((0, 1, 2),) if self.node.attrs["linear_before_reset"] else ((0, 1), (2,))

    def hidden_bias(self) -> Value | None:
        return self.node.inputs[3] if len(self.node.inputs) > 3 else None

    def job(self, step, f, tiles):
        job = {**super().job(step, f, tiles), "lengths": input_pointer(f, 4, "lengths")}
        if not self.node.attrs["linear_before_reset"]:
            job["r"] = self.packed(f, tiles, [0, 1])
            return {**job, "r_hidden": self.packed(f, tiles, [2])}
        job["r"] = self.packed(f, tiles, [0, 1, 2])
        bias = self.hidden_bias()
        if bias is None:
            return job
        if bias.is_constant:
            row = np.concatenate([np.zeros(2 * self.hidden, np.float32), bias.data])
            return {**job, "bias": f.constant("bias", packing.pad_channels(row, tiles.packed))}
        offset = _floats(f, self._packed_bytes(tiles) // 4 - self._bias_floats(tiles))
        f.line(f"memset({offset}, 0, {4 * self._bias_floats(tiles)});")
        hidden = plus(offset, str(2 * self.hidden))
        f.line(f"memcpy({hidden}, {input_pointer(f, 3, 'bias')}, {4 * self.hidden});")
        return {**job, "bias": offset}


@lowers("rnn")
class RnnLowering(RecurrentLowering):
    """Simple RNN with one gate."""

    def job(self, step, f, tiles):
        return {
            **super().job(step, f, tiles),
            "r": self.packed(f, tiles, [0]),
            "lengths": input_pointer(f, 3, "lengths"),
        }


def _narrow_tiles(tiles: Tiles, columns: int, widest: VectorMachine) -> Tiles:
    """Return tiles that read blocks of NARROW_COLUMNS, if the widest ISA level has wide ones.

    Reading the weights from the L2 cache limits a batch of one: four vectors of 16 lanes read them
    as fast as eight, and two threads can divide the units of more cells.
    """
    is_widest = tiles.packed == tiles.block
    if widest.lanes < 16 or tiles.packed != 2 * NARROW_COLUMNS or columns % NARROW_COLUMNS:
        return tiles
    if is_widest:
        return replace(tiles, vectors=NARROW_COLUMNS // tiles.lanes)
    return replace(tiles, shared_block=NARROW_COLUMNS)


def _optional_literal(value: float | None) -> str:
    return "0.0f" if value is None else float_literal(value)


def _word(value: float) -> str:
    """Return a number as part of a C identifier."""
    return float_literal(value).translate(str.maketrans(".-+", "_mp"))
