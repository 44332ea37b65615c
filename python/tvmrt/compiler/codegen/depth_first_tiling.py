"""Depth-first execution on hosts: adjacent layers are computed a tile of rows at a time, so
that intermediate results stay in the cache.

A result larger than the cache is written to memory and read again by the next layer. If both layers
need few multiply-adds per element, as around depthwise layers, this takes much of their time. In a
chain, the next layer reads a tile immediately, and the intermediate tensor needs no arena memory.

Results are bit-exact for any number of threads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tvmrt.compiler.ir.program import Buffer, Program, Step
from tvmrt.compiler.ir.sizes.undecided import statically_known_true

from .builder import reserve_scratch
from .fused_attention import fuse_attention
from .lowering_protocols import DepthFirstFusable
from .operators.depth_first_chain import MAX_CHAIN_LAYERS, DepthFirstLowering
from .operators.fused_channel_scale import ScaledConvLowering, as_channel_scale
from .operators.row_fused_chain import main_operand
from .row_fusion import last_uses_of_buffers, matches_rows, merge_steps
from .target import Target

CACHE_SHARE = 0.5  # of the L2 cache: smaller results are still there when they are read
MAX_FEW_ROWS = 8  # maximum rows of a depthwise layer that form one tile
# Multiply-adds per intermediate element above which memory traffic is at most a twentieth of the
# time.
MAX_MACS_PER_ELEMENT = 256
FEW_PIXEL_TILES = 2  # with at most this many pixel tiles, threads split a layer by channels


def tile_depth_first(program: Program, target: Target, is_forced: bool | None = None) -> Program:
    """Replace each attention and each chain by one step: chains that are faster, or all possible
    chains if ``is_forced``."""
    program = fuse_attention(program, target)
    steps: list[Step] = []
    last_use, begin = last_uses_of_buffers(program), 0
    while begin < len(program.steps):
        chain, end = _fuse_channel_scale(program, begin, last_use, target), begin + 2
        if chain is None:
            chain, end = _longest_chain(program, begin, last_use, target, is_forced)
        if end > begin + 1:
            reserve_scratch(chain)
        steps.append(chain)
        begin = end
    return replace(program, steps=steps)


def _longest_chain(
    program: Program,
    begin: int,
    last_use: Mapping[Buffer, int],
    target: Target,
    is_forced: bool | None,
) -> tuple[Step, int]:
    """Return the longest chain that starts with a step (or that step alone), and the next index."""
    chain, end = program.steps[begin], begin + 1
    while end < len(program.steps) and end - begin < MAX_CHAIN_LAYERS:
        before, after = program.steps[end - 1 : end + 1]
        if last_use[before.writes[0].buffer] != end or not statically_known_true(
            _can_chain, before, after
        ):
            break
        if not is_forced and not statically_known_true(_is_profitable, before, after, target):
            break
        longer = _fuse(program.steps[begin : end + 1], target)
        if not is_forced and not longer.lowering.fits_cache:
            break
        chain, end = longer, end + 1
    return chain, end


def _can_chain(before: Step, after: Step) -> bool:
    """Return whether a step reads the previous result only through its windows."""
    if not (_can_be_tiled(before) and _can_be_tiled(after)):
        return False
    return before.lowering.epilogue.residual is None and _only_reads_windows(before, after)


def _only_reads_windows(before: Step, after: Step) -> bool:
    written, read = before.writes[0], main_operand(after)
    others = [a for a in after.reads if a is not read]
    return all(a.buffer is not written.buffer for a in others) and matches_rows(written, read)


def _fuse_channel_scale(
    program: Program, at: int, last_use: Mapping[Buffer, int], target: Target
) -> Step | None:
    """Fuse channel scaling at step ``at`` with the following 1x1 convolution, if possible."""
    before = as_channel_scale(program.steps[at], target)
    if before is None or last_use[before.writes[0].buffer] != at + 1:
        return None
    after = program.steps[at + 1] if at + 1 < len(program.steps) else None
    if after is None or not statically_known_true(_can_be_tiled, after):
        return None
    layer = after.lowering.depth_first_layer(after)
    plain = layer.window.is_identity_window and after.group.root.attrs.get("groups") == 1
    many = layer.pixels > FEW_PIXEL_TILES * after.lowering.depth_first_width(after)
    joins = plain and many and _only_reads_windows(before, after)
    return _fuse([before, after], target, ScaledConvLowering) if joins else None


def _can_be_tiled(step: Step) -> bool:
    plain = step.guard is None and not step.data_dependent_dims and len(step.writes) == 1
    fusable = plain and bool(step.reads) and isinstance(step.lowering, DepthFirstFusable)
    return fusable and step.lowering.depth_first_layer(step) is not None


def _is_profitable(before: Step, after: Step, target: Target) -> bool:
    """Return whether fusing two layers pays: the intermediate tensor exceeds the cache, is at least
    as large as the input or output, and moving it takes much of the time."""
    between = before.writes[0].buffer
    others = main_operand(before).at.size, after.writes[0].at.size
    macs = before.lowering.macs() + after.lowering.macs()
    large = between.nbytes >= CACHE_SHARE * target.l2_bytes or _splits_by_channels(
        before, after, target
    )
    return large and between.size >= min(others) and macs <= MAX_MACS_PER_ELEMENT * between.size


def _splits_by_channels(before: Step, after: Step, target: Target) -> bool:
    """Return whether threads should split two layers by channels. One thread's channels of few rows
    stay in its own cache; a split by rows would read many rows of other threads."""
    layers = [step.lowering.depth_first_layer(step) for step in (before, after)]
    if not (target.threads and layers[1].depthwise):
        return False
    return layers[0].window.is_identity_window and 1 < layers[1].window.out[1] <= MAX_FEW_ROWS


def _fuse(
    steps: Sequence[Step], target: Target, kind: type[DepthFirstLowering] = DepthFirstLowering
) -> Step:
    chain = merge_steps(steps, target, kind)
    chain.in_place = chain.lowering.in_place(chain)
    return chain
