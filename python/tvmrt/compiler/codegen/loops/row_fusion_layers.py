"""Row-wise fusion of elementwise steps and of reductions over images."""

from __future__ import annotations

from dataclasses import replace

from tvmrt.compiler.ir import DTYPES
from tvmrt.compiler.ir.program import ARENA, Access, Buffer, Step, pixel_stride
from tvmrt.compiler.ir.sizes import symbols_of
from tvmrt.compiler.planner.row_fusion_schedule import RowLayer

from ..lowering import same_offsets


def elementwise_row_layer(step: Step) -> RowLayer | None:
    """Return the row layer of an elementwise step, whose operands all have the result's shape; None
    if the tensors do not have rows of images."""
    x, y = step.reads[0], step.writes[0]
    shape = y.shape
    if len(shape) != 4 or symbols_of(shape) or shape[2] < 2 or pixel_stride(y.at) is None:
        return None
    if any(a.shape != shape or a.at.offset for a in step.reads):
        return None
    if any(pixel_stride(a.at) is None for a in step.reads[1:]):
        return None
    whole, sizes = pixel_stride(x.at) is not None, (x.dtype.itemsize, y.dtype.itemsize)
    over = whole and same_offsets(x.at, y.at) and sizes[0] == sizes[1]
    in_bytes = x.at.strides[2] * sizes[0] if whole else 0
    return RowLayer(
        shape[2], shape[2], in_bytes, y.at.strides[2] * sizes[1], may_overwrite_input=over
    )


def reduction_row_layer(
    rows: int, in_bytes: int, out_bytes: int, accumulators_bytes: int
) -> RowLayer:
    """Return the row layer of a reduction that accumulates all rows of an image and produces a
    single output row; the accumulators take ``accumulators_bytes``."""
    return RowLayer(
        rows, 1, in_bytes, out_bytes, rows, rows, 0, 1, accumulators_bytes, may_overwrite_input=True
    )


def with_scratch(step: Step, name: str, nbytes: int) -> Step:
    """Return the step with a buffer of this name as its scratch memory."""
    scratch = Buffer(f"{step.name}_{name}", DTYPES["uint8"], nbytes, ARENA) if nbytes else None
    return replace(step, scratch=scratch, scratch_bytes=nbytes, kernel_bytes=0)


def single_row_step(step: Step) -> Step:
    """Return the step restricted to the first row of an image."""
    return replace(
        step,
        reads=[_row(a) for a in step.reads],
        writes=[_row(a) for a in step.writes],
        scratch=None,
    )


def _row(access: Access) -> Access:
    rank, (_, channels, *pixels) = len(access.shape), access.shape
    shape = (1, channels, *([1, *pixels[1:]] if pixels else []))
    return Access(access.buffer, access.at.slice([0] * rank, [1] * rank, shape))
