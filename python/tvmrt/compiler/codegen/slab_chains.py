"""Neighbouring layers that hosts compute a slab of rows at a time, so that what lies between them
stays in the cache.

A layer whose result is larger than the cache writes it to memory, where the next one reads it
again. Where both take few multiply-adds for each of those numbers, as before and behind depthwise
layers, that is much of their time. In a chain the next layer reads them at once, and they take no
memory of the network's.

Contract: equal to the bit, by any number of threads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tvmrt.compiler.ir.extent import certainly
from tvmrt.compiler.ir.program import Buffer, Program, Step

from .operators.row_chain import main_read
from .operators.slab_chain import MOST_LAYERS, SlabChainLowering
from .operators.slab_factors import FactorsChainLowering, as_factors
from .row_chains import as_one, last_uses, passes
from .target import Target

CACHE_SHARE = 0.5  # of the second-level cache: what is smaller is still there when it is read
FEW_ROWS = 8  # of a depthwise layer, which are a slab
# Multiply-adds for each number between two layers, beyond which moving it is a twentieth of their
# time at most.
MOST_MACS = 256
LEAST_TILES = 2  # of pixels: of no more, threads share a layer by channels


def with_slabs(program: Program, target: Target, asked: bool | None = None) -> Program:
    """The program with one step in place of each chain: of those that win, or of all that there can
    be where they are ``asked`` for."""
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
    """The chain that begins with a step, or that step, and the step behind it."""
    found, end = program.steps[begin], begin + 1
    while end < len(program.steps) and end - begin < MOST_LAYERS:
        before, after = program.steps[end - 1 : end + 1]
        if last_use[before.writes[0].buffer] != end or not certainly(_joins, before, after):
            break
        if not asked and not certainly(_wins, before, after, target):
            break
        longer = _form(program.steps[begin : end + 1], target)
        if not asked and not longer.lowering.fits_cache:
            break
        found, end = longer, end + 1
    return found, end


def _joins(before: Step, after: Step) -> bool:
    """Whether a step reads what another writes through its windows alone."""
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
    """Step ``at``, factors of channels, and the 1x1 convolution behind it as one, if they are."""
    before = as_factors(program.steps[at], target)
    if before is None or last_use[before.writes[0].buffer] != at + 1:
        return None
    if at + 1 == len(program.steps):
        return None
    if not certainly(_can_be_cut, program.steps[at + 1]):
        return None
    after = program.steps[at + 1]
    layer = after.lowering.slab_layer(after)
    plain = layer.window.is_pixels and after.group.root.attrs.get("groups") == 1
    many = layer.pixels > LEAST_TILES * after.lowering.slab_width(after)
    joins = plain and many and _reads_alone(before, after)
    return _form([before, after], target, FactorsChainLowering) if joins else None


def _can_be_cut(step: Step) -> bool:
    plain = step.guard is None and not step.counts and len(step.writes) == 1
    return plain and bool(step.reads) and step.lowering.slab_layer(step) is not None


def _wins(before: Step, after: Step, target: Target) -> bool:
    """Whether what lies between two layers is too large for the cache, no smaller than what is read
    or written anyway, and moving it is much of the time that they take."""
    between = before.writes[0].buffer
    others = main_read(before).at.size, after.writes[0].at.size
    macs = before.lowering.macs() + after.lowering.macs()
    large = between.nbytes >= CACHE_SHARE * target.l2_bytes or _few_rows(before, after, target)
    return large and between.size >= min(others) and macs <= MOST_MACS * between.size


def _few_rows(before: Step, after: Step, target: Target) -> bool:
    """Whether threads should have channels of two layers: what one of them makes of few rows is
    then in its own cache, where a layer that is cut by rows reads many of the others'."""
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
