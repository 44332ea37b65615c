"""Depth-first execution on hosts: neighbouring layers are computed a slab of rows at a time, so
that intermediate results stay in the cache.

A result larger than the cache is written to memory and read again by the next layer. If both layers
need few multiply-adds per element, as around depthwise layers, this takes much of their time. In a
chain, the next layer reads a slab immediately, and the intermediate tensor needs no arena memory.

Results are bit-exact for any number of threads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tvmrt.compiler.ir.extent import statically_known_true
from tvmrt.compiler.ir.program import Buffer, Program, Step

from .operators.row_chain import main_read
from .operators.slab_chain import MOST_LAYERS, SlabChainLowering
from .operators.slab_factors import FactorsChainLowering, as_factors
from .row_chains import as_one, last_uses, passes
from .target import Target

CACHE_SHARE = 0.5  # of the L2 cache: smaller results are still there when they are read
FEW_ROWS = 8  # maximum rows of a depthwise layer that form one slab
# Multiply-adds per intermediate element above which memory traffic is at most a twentieth of the
# time.
MOST_MACS = 256
LEAST_TILES = 2  # with at most this many pixel tiles, threads split a layer by channels


def with_slabs(program: Program, target: Target, asked: bool | None = None) -> Program:
    """Replace each chain by one step: chains that are faster, or all possible chains if
    ``asked``."""
    steps: list[Step] = []
    last_use, begin = last_uses(program), 0
    while begin < len(program.steps):
        chain, end = _with_factors(program, begin, last_use, target), begin + 2
        if chain is None:
            chain, end = _longest(program, begin, last_use, target, asked)
        steps.append(chain)
        begin = end
    return replace(program, steps=steps)


def _longest(
    program: Program, begin: int, last_use: Mapping[Buffer, int], target: Target, asked: bool | None
) -> tuple[Step, int]:
    """Return the longest chain that starts with a step (or that step alone), and the next index."""
    found, end = program.steps[begin], begin + 1
    while end < len(program.steps) and end - begin < MOST_LAYERS:
        before, after = program.steps[end - 1 : end + 1]
        if last_use[before.writes[0].buffer] != end or not statically_known_true(
            _joins, before, after
        ):
            break
        if not asked and not statically_known_true(_wins, before, after, target):
            break
        longer = _form(program.steps[begin : end + 1], target)
        if not asked and not longer.lowering.fits_cache:
            break
        found, end = longer, end + 1
    return found, end


def _joins(before: Step, after: Step) -> bool:
    """Return whether a step reads the previous result only through its windows."""
    if not (_can_be_cut(before) and _can_be_cut(after)):
        return False
    return before.lowering.epilogue.residual is None and _reads_alone(before, after)


def _reads_alone(before: Step, after: Step) -> bool:
    written, read = before.writes[0], main_read(after)
    others = [a for a in after.reads if a is not read]
    return all(a.buffer is not written.buffer for a in others) and passes(written, read)


def _with_factors(
    program: Program, at: int, last_use: Mapping[Buffer, int], target: Target
) -> Step | None:
    """Fuse channel scaling at step ``at`` with the following 1x1 convolution, if possible."""
    before = as_factors(program.steps[at], target)
    if before is None or last_use[before.writes[0].buffer] != at + 1:
        return None
    if at + 1 == len(program.steps):
        return None
    if not statically_known_true(_can_be_cut, program.steps[at + 1]):
        return None
    after = program.steps[at + 1]
    layer = after.lowering.slab_layer(after)
    plain = layer.window.is_pixels and after.group.root.attrs.get("groups") == 1
    many = layer.pixels > LEAST_TILES * after.lowering.slab_width(after)
    joins = plain and many and _reads_alone(before, after)
    return _form([before, after], target, FactorsChainLowering) if joins else None


def _can_be_cut(step: Step) -> bool:
    plain = step.guard is None and not step.data_dependent_dims and len(step.writes) == 1
    return plain and bool(step.reads) and step.lowering.slab_layer(step) is not None


def _wins(before: Step, after: Step, target: Target) -> bool:
    """Return whether fusing two layers pays: the intermediate tensor exceeds the cache, is at least
    as large as the input or output, and moving it takes much of the time."""
    between = before.writes[0].buffer
    others = main_read(before).at.size, after.writes[0].at.size
    macs = before.lowering.macs() + after.lowering.macs()
    large = between.nbytes >= CACHE_SHARE * target.l2_bytes or _few_rows(before, after, target)
    return large and between.size >= min(others) and macs <= MOST_MACS * between.size


def _few_rows(before: Step, after: Step, target: Target) -> bool:
    """Return whether threads should split two layers by channels. One thread's channels of few rows
    stay in its own cache; a split by rows would read many rows of other threads."""
    layers = [step.lowering.slab_layer(step) for step in (before, after)]
    if not (target.threads and layers[1].depthwise):
        return False
    return layers[0].window.is_pixels and 1 < layers[1].window.out[1] <= FEW_ROWS


def _form(
    steps: Sequence[Step], target: Target, kind: type[SlabChainLowering] = SlabChainLowering
) -> Step:
    chain = as_one(steps, lambda group: kind(group, target, steps))
    for level in target.levels:
        own = [replace(step, lowering=step.levels[level.name]) for step in steps]
        chain.levels[level.name] = kind(chain.group, level, own)
    chain.in_place = chain.lowering.in_place(chain)
    return chain
