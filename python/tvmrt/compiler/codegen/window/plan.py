"""Plans for reading a layer's windows, derived from its shape.

:class:`.geometry.Window` is the shape, :class:`WindowPlan` how the rows under it are read.
``members()`` of both fill ``tvmrt_window`` and ``tvmrt_row_plan`` (``kernels/window.h``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from tvmrt.compiler.ir.extent import sym_max, sym_min, symbols_of, upper_bound
from tvmrt.compiler.ir.rounding import ceil_div, round_up

from ..geometry import FLOAT, Window

CHUNK_BYTES = 32 << 10  # of pixels that are copied at a time where rows are long
LEAST_CHUNK = 32  # pixels
HELD_BYTES = 256 << 10  # of rounded pixels that stay while all weights stream past
PAGE = 4096  # addresses this many bytes apart share a cache set
LINE = 16  # elements of a cache line
RUNS_WORTH = 0.8  # of the columns' work; above it, splitting rows into runs does not pay
MOST_RUN_LENGTHS = 3  # that tiles are chosen for


@dataclass(frozen=True)
class Ring:
    """Line buffer: padded copies of input rows, ``slots`` of depth planes and rows.

    ``columns`` are copied after ``left`` columns of padding; ``width`` is the length of a row.
    """

    slots: tuple[int, int]
    left: int
    columns: int
    width: int


@dataclass(frozen=True)
class WindowPlan:
    """Plan for reading the rows under a window.

    Parameters
    ----------
    element
        Bytes of an element.
    channels
        Elements of a pixel that belong to a window: the channels of a group.
    copied
        Elements per pixel that row copies contain.
    run
        Elements of a segment.
    taps
        Segments of a kernel row: 1 if its columns touch.
    ring
        Line buffer if rows are copied, else None.
    gathers
        Whether windows are copied whole (im2col), each a single segment.
    unit
        Alignment in bytes of a row in the line buffer and of its length.
    fill
        Byte value of the padding.
    skip
        First column of the input that is read.
    stride
        Pixels from one window of a row to the next.
    floats
        Floats per pixel that are converted to bfloat16 pairs as rows are copied; 0 for a
        plain copy.
    chunk
        Without a line buffer, pixels copied at a time; 0: they are read in place.
    apart
        Padding elements between two pixels of such a copy.
    runs
        (pixels, kernel columns) of each run, if a row is computed in runs of pixels that use
        the same kernel columns; else empty.
    planes
        Channel stride of NCHW input in elements; 0: channels are innermost.
    line, line_step
        For a copy without a line buffer of pixels from several rows: pixels per row, and the row
        stride of the input in elements; 0 if the pixels are contiguous.
    behind
        Windows past the end of a row that tiles may read from the scratch.
    """

    window: Window
    element: int
    channels: int
    copied: int
    run: int
    taps: int
    ring: Ring | None = None
    gathers: bool = False
    unit: int = 4
    fill: int = 0
    skip: int = 0
    stride: int = 1
    floats: int = 0
    chunk: int = 0
    apart: int = 0
    runs: tuple[tuple[int, int], ...] = ()
    planes: int = 0
    line: int = 0
    line_step: int = 0
    behind: int = 0

    @property
    def source(self) -> str:
        kind = "LINE_BUFFER" if self.ring else "IM2COL" if self.gathers else "DIRECT"
        return f"TVMRT_SOURCE_{kind}"

    @property
    def segments(self) -> int:
        rows = self.window.kernel[0] * self.window.kernel[1]
        return 1 if self.gathers else rows * self.taps

    @property
    def x_pixel(self) -> int:
        if self.chunk:
            return self.copied + self.apart
        return self.copied if self.ring else self.window.x_stride

    @property
    def x_step(self) -> int:
        return self.run if self.gathers else self.stride * self.x_pixel

    @property
    def pitch(self) -> int:
        """Bytes of a row in the line buffer."""
        return round_up(self.ring.width * self.copied * self.element, self.unit) if self.ring else 0

    @property
    def slots(self) -> int:
        return prod(self.ring.slots) if self.ring else 0

    def scratch_of_rows(self, begin: int) -> tuple[int, int, int]:
        """Return offsets from ``begin`` bytes of scratch: (line buffer's row numbers, its rows,
        end)."""
        rows = round_up(begin + 4 * self.slots, self.unit)
        end = rows + self.behind * self.x_step * self.element
        if self.chunk:
            return begin, rows, end + self.chunk * self.x_pixel * self.element
        return begin, rows, end + self.slots * self.pitch

    def members(self, begin: int, scratch: int) -> dict[str, object]:
        """Return the members of the ``tvmrt_row_plan``.

        ``begin``: bytes of scratch before the line buffer; ``scratch``: total bytes of a task.
        """
        first = {
            "source": self.source,
            "element": self.element,
            "run": self.run,
            "segments": self.segments,
            "taps": self.taps,
            "x_pixel": self.x_pixel,
            "x_step": self.x_step,
        }
        more: dict[str, object] = {"skip": self.skip, "runs": int(bool(self.runs))}
        if self.ring:
            held, rows, _ = self.scratch_of_rows(begin)
            more |= {
                "slots": tuple(self.ring.slots),
                "pitch": self.pitch,
                "left": self.ring.left,
                "columns": self.ring.columns,
                "copied": self.copied,
                "fill": self.fill,
                "at_row_numbers": held,
                "at_line_buffer": rows,
            }
        if self.chunk:
            at = self.scratch_of_rows(begin)[1]
            more |= {"columns": self.chunk, "copied": self.copied, "at_line_buffer": at}
            more |= {"line": self.line, "line_step": self.line_step}
        more |= {"floats": self.floats, "scratch": scratch, "channel_stride": self.planes}
        return first | {name: value for name, value in more.items() if value != 0}


def plan_window(
    window: Window,
    channels: int,
    *,
    element: int,
    copied: int | None = None,
    least_run: int = 0,
    touching: bool = False,
    unit: int = 4,
    fill: int = 0,
) -> WindowPlan:
    """Return the plan of a dense layer.

    Parameters
    ----------
    channels
        Input channels of a group.
    copied
        Channels in row copies; those of a group by default.
    least_run
        Windows with shorter segments use im2col, rounded up to a multiple of it.
    touching
        Whether to copy rows also to make columns contiguous.
    """
    copied = channels if copied is None else copied
    columns = window.kernel[2]
    joinable = columns == 1 or (window.dilation[2] == 1 and copied == channels)
    if (columns if joinable else 1) * channels < least_run:
        run = round_up(window.taps * channels, least_run)
        return WindowPlan(window, element, channels, copied, run, 1, gathers=True, unit=unit)
    apart = columns > 1 and joinable and window.x_stride != channels
    ring = ring_of(window) if window.overhangs(2) or (touching and apart) else None
    runs = () if joinable or least_run or touching else runs_of(window)
    ring = None if runs else ring
    joined = joinable and (ring is not None or not apart)
    run, taps = (columns * channels, 1) if joined else (channels, columns)
    return plan_rows(
        window,
        channels,
        element,
        copied=copied,
        run=run,
        taps=taps,
        ring=ring,
        unit=unit,
        fill=fill,
        runs=runs,
    )


def plan_row_pairs(window: Window, channels: int, unit: int, fill: int) -> WindowPlan:
    """Return the plan of a dense int8 layer that reads pairs of rows with interleaved pixels, in
    runs of whole quads (``conv_i8_row_pairs_amx.h``)."""
    rows, columns = ceil_div(window.kernel[1], 2), window.kernel[2]
    kernel, stride = (1, rows, columns), (1, 1, window.stride[2])
    by_pairs = replace(window, kernel=kernel, stride=stride, pad=(0, 0, window.pad[2]))
    both, run = 2 * channels, round_up(2 * channels * columns, 4)
    more = {"copied": both, "run": run, "taps": 1, "ring": ring_of(by_pairs)}
    return plan_rows(by_pairs, both, 1, **more, unit=unit, fill=fill)


def plan_planes(window: Window, channels: int) -> WindowPlan:
    """Return the plan of a dense float layer over one NCHW image; the line buffer interleaves its
    channels."""
    more = {"copied": channels, "run": window.kernel[2] * channels, "taps": 1}
    planes = window.in_[1] * window.in_[2]
    return plan_rows(window, channels, FLOAT, **more, ring=ring_of(window), planes=planes)


def plan_pairs(
    window: Window, channels: int, each: int, behind: int, planes: int = 0, again: bool = False
) -> WindowPlan:
    """Return the plan of a dense float32 layer with input rounded to bfloat16: segments count
    pairs, all rows are copied, ``each`` words per pair. ``channels`` are those of a group;
    ``behind``, ``planes``: see :class:`WindowPlan`. ``again``: all rows are read more than once,
    because the weights exceed the cache."""
    pairs = ceil_div(channels, 2)
    words = pairs * each
    line, line_step = 0, 0
    if window.picks_pixels and not window.is_pixels:
        line, line_step = window.out[2], window.stride[1] * window.in_[2] * window.x_stride
        window = window.of_picked()
    if window.rows == 1 and window.is_pixels:
        # a distance of a large power of two would map many pixels to few cache sets
        apart = LINE if words * FLOAT % PAGE == 0 else 0
        held = HELD_BYTES if again else CHUNK_BYTES
        chunk = max(LEAST_CHUNK, held // ((words + apart) * FLOAT))
        return WindowPlan(
            window, FLOAT, pairs, words, pairs, 1, unit=64, floats=channels,
            chunk=min(chunk, max(upper_bound(window.pixels), 1)), apart=apart, behind=behind, line=line,
            line_step=line_step,
        )  # fmt: skip
    columns = window.kernel[2]
    joined = columns == 1 or window.dilation[2] == 1
    run, taps = (columns * pairs, 1) if joined else (pairs, columns)
    runs = () if joined else runs_of(window)
    ring = ring_of(window)
    in_ = window.in_[:2]
    if again and not symbols_of(*in_) and prod(in_) * ring.width * words * FLOAT <= HELD_BYTES:
        ring = replace(ring, slots=(max(ring.slots[0], in_[0]), max(ring.slots[1], in_[1])))
    more = {"copied": words, "run": run, "taps": taps, "ring": ring, "runs": runs}
    more |= {"behind": behind, "planes": planes}
    return plan_rows(window, pairs, FLOAT, **more, unit=64, floats=channels)


def plan_rows(window: Window, channels: int, element: int, **more: object) -> WindowPlan:
    """Return the plan of windows that begin with the first column that is not cropped."""
    skip = max(0, -window.pad[2])
    return WindowPlan(window, element, channels, skip=skip, stride=window.stride[2], **more)  # type: ignore[arg-type]


def runs_of(window: Window) -> tuple[tuple[int, int], ...]:
    """Return the runs of a row if they skip enough columns in the padding, else none.

    Threads divide a single row by its pixels, which does not work with runs.
    """
    fixed = not symbols_of(*window.in_, *window.out)
    if not fixed or window.dilation[2] == 1 or window.rows == 1 or not window.overhangs(2):
        return ()
    runs = window.column_runs()
    work = sum(pixels * columns for pixels, columns in runs)
    if work > RUNS_WORTH * window.out[2] * window.kernel[2]:
        return ()
    return tuple(runs) if len({pixels for pixels, _ in runs}) <= MOST_RUN_LENGTHS else ()


def ring_of(window: Window) -> Ring:
    """Return the line buffer for the rows that a window needs."""
    width, skip = window.reach(2), max(0, -window.pad[2])
    left = min(max(0, window.pad[2]), width)
    columns = sym_max(0, sym_min(window.in_[2] - skip, width - left))
    return Ring((window.span(0), window.span(1)), left, columns, width)


def plan_transposed(window: Window, channels: int, *, element: int) -> WindowPlan:
    """Return the plan of a transposed layer; every phase of its rows is a window of stride 1."""
    left, right = _transposed_ends(window)
    ring = _transposed_ring(window, left, right) if left or right else None
    return WindowPlan(window, element, channels, channels, channels, window.kernel[2], ring)


def plan_transposed_pairs(window: Window, channels: int, each: int, behind: int) -> WindowPlan:
    """Return the plan of a transposed float32 layer with input rounded to bfloat16, ``each`` words
    per pair."""
    pairs, ring = ceil_div(channels, 2), _transposed_ring(window, *_transposed_ends(window))
    more = {"unit": 64, "floats": channels, "behind": behind}
    return WindowPlan(window, FLOAT, pairs, pairs * each, pairs, window.kernel[2], ring, **more)  # type: ignore[arg-type]


def _transposed_ends(window: Window) -> tuple[int, int]:
    """Return the columns before the first input column and past the last that rows of a transposed
    layer use."""
    stride = window.stride[2]
    reach = (window.kernel[2] - 1) * window.dilation[2] - window.pad[2]
    left = max(0, ceil_div(reach, stride))
    return left, max(0, (window.out[2] - 1 + window.pad[2]) // stride - window.in_[2] + 1)


def _transposed_ring(window: Window, left: int, right: int) -> Ring:
    """Return the line buffer for the input rows that a transposed layer uses at a time."""
    columns = window.in_[2]
    slots = ((window.span(d) - 1) // window.stride[d] + 1 for d in (0, 1))
    return Ring(tuple(slots), left, columns, left + columns + right)  # type: ignore[arg-type]
