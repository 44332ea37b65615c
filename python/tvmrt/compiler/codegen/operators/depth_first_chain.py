"""Depth-first chain of float layers as one step that hosts compute in tiles of rows."""

from __future__ import annotations

from collections.abc import Sequence

from tvmrt.compiler.ir.program import Group, Step, pixel_stride

from ..c.formatting import braces
from ..c.writer import FunctionWriter
from ..geometry import FLOAT
from ..lowering import Lowering, Scratch
from ..target import Target
from ..window.depth_first_plan import DepthFirstPlan, plan_depth_first

MAX_CHAIN_LAYERS = 8  # maximum layers of a chain; a task has their states on its stack

# minimum rows of a tile; with fewer, keeping rows for the next tile costs too much
MIN_TILE_ROWS = 4
MAX_TILE_ROWS = 8  # maximum rows of a tile; more only take memory
CACHE_SHARE = 0.5  # of the L2 cache, for intermediate results of a chain


class DepthFirstLowering(Lowering):
    """Depth-first execution of ``steps``, each of which reads the result of the previous one.
    ``tile_sizes``: rows of a tile to try."""

    tile_sizes = range(1, MAX_TILE_ROWS + 1)

    def __init__(self, group: Group, target: Target, steps: Sequence[Step]) -> None:
        super().__init__(group, target)
        self.steps = steps
        self.layers = [s.lowering.depth_first_layer(s) for s in steps]
        self.rows, self.plan = self._plan()

    @property
    def max_bytes(self) -> float:
        """Maximum bytes of intermediate results."""
        return CACHE_SHARE * self.target.l2_bytes

    def _plan(self) -> tuple[int, DepthFirstPlan]:
        """Return the plan with the largest tiles that fit into ``max_bytes``."""
        widths, sizes = [s.lowering.depth_first_width(s) for s in self.steps], iter(self.tile_sizes)
        first = next(sizes)
        best = first, plan_depth_first(self.layers, widths, first)
        for size in sizes:
            plan = plan_depth_first(self.layers, widths, size)
            if plan.nbytes > self.max_bytes:
                break
            best = size, plan
        return best

    @property
    def fits_cache(self) -> bool:
        """Whether tiles have enough rows, and the cache also holds the weights, which are read
        again for each tile."""
        weights = sum(layer.weight_bytes for layer in self.layers)
        if self.plan.pixels >= self.layers[-1].pixels:
            weights = 0
        return self.rows >= MIN_TILE_ROWS and self.plan.nbytes + weights <= self.target.l2_bytes

    def scratch(self, step: Step) -> Scratch:
        inner = [s.lowering.scratch(s).kernel_blocks for s in self.steps]
        return Scratch(kernel_blocks=(self.plan.nbytes, max(map(sum, inner))))

    def in_place(self, step: Step) -> list[tuple[int, int]]:
        last, x = self.steps[-1], step.reads[0].buffer
        pairs = [(last.reads[i], w) for i, w in last.lowering.in_place(last)]
        # excluding the chain's input: other tasks may still read where this one writes
        return [(step.reads.index(a), w) for a, w in pairs if a in step.reads and a.buffer is not x]

    def macs(self) -> int:
        return sum(s.lowering.macs() for s in self.steps)

    def emit(self, step: Step, f: FunctionWriter) -> None:
        f.include("depth_first_f32.h")
        f.macro("TVMRT_DEPTH_FIRST_LAYERS", str(MAX_CHAIN_LAYERS))
        rows = [self._print_layer(step, f, k) for k in range(len(self.steps))]
        layers = f.fresh("layers")
        f.line(f"const tvmrt_depth_first_layer_f32 {layers}[] = {{")
        for row in rows:
            f.line(f"    {row},")
        f.line("};")
        chain, plan = f.fresh("chain"), self.plan
        members = [layers, len(rows), plan.pixels, plan.nbytes]
        f.line(f"const tvmrt_depth_first_chain_f32 {chain} = {braces(members)};")
        f.result(f"tvmrt_depth_first_f32(&{chain})")

    def _print_layer(self, step: Step, f: FunctionWriter, k: int) -> str:
        """Print a layer's variables and return its row in the table of layers."""
        inner, last = self.steps[k], k == len(self.steps) - 1
        x = f.name_read(0, "in") if k == 0 else "NULL"
        y, residual = f.write() if last else "NULL", self._residual(step, f, k)
        offset = 0 if last else self.plan.offsets[k] // FLOAT
        return braces([*inner.lowering.print_depth_first(inner, f, x, residual, y), offset])

    def _residual(self, step: Step, f: FunctionWriter, k: int) -> tuple[str, int]:
        """Return the pointer to a layer's residual operand, and its pixel stride."""
        inner = self.steps[k]
        value = inner.lowering.epilogue.residual
        if value is None:
            return "NULL", 0
        access = inner.reads[inner.read_values.index(value)]
        return f.name_read(step.reads.index(access), "residual"), pixel_stride(access.at)
