"""Plans for reading a layer's windows, derived from its shape.

:class:`.geometry.Window` is the shape, :class:`WindowPlan` how the rows under it are read.
``members()`` of both fill ``tvmrt_window`` and ``tvmrt_row_plan`` (``kernels/window.h``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from tvmrt.compiler.ir.rounding import ceil_div, round_up
from tvmrt.compiler.ir.sizes import SymInt, sym_max, sym_min, symbols_of, upper_bound

from ..geometry import FLOAT, Window

CHUNK_BYTES = 32 << 10  # of pixels that are copied at a time where rows are long
MIN_CHUNK = 32  # pixels
RESIDENT_BYTES = 256 << 10  # of rounded pixels that stay while all weights stream past
PAGE = 4096  # addresses this many bytes apart share a cache set
LINE = 16  # elements of a cache line
MAX_SECTION_WORK = 0.8  # of the columns' work; above it, splitting rows into runs does not pay
MAX_SECTION_LENGTHS = 3  # that tiles are chosen for


@dataclass(frozen=True)
class LineBuffer:
    """Line buffer: padded copies of input rows, ``slots`` of depth planes and rows.

    ``columns`` are copied after ``left`` columns of padding; ``width`` is the length of a row.
    """

    slots: tuple[int, int]
    left: SymInt
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
    segment
        Elements of a segment.
    taps
        Segments of a kernel row: 1 if its columns touch.
    line_buffer
        Line buffer if rows are copied, else None.
    im2col
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
    pixel_padding
        Padding elements between two pixels of such a copy.
    sections
        (pixels, kernel columns) of each section, if a row is computed in sections of pixels that
        use the same kernel columns; else empty.
    channel_stride
        Channel stride of NCHW input in elements; 0: channels are innermost.
    line, line_step
        For a copy without a line buffer of pixels from several rows: pixels per row, and the row
        stride of the input in elements; 0 if the pixels are contiguous.
    overread
        Windows past the end of a row that tiles may read from the scratch.
    """

    window: Window
    element: int
    channels: int
    copied: int
    segment: int
    taps: int
    line_buffer: LineBuffer | None = None
    im2col: bool = False
    unit: int = 4
    fill: int = 0
    skip: int = 0
    stride: int = 1
    floats: int = 0
    chunk: int = 0
    pixel_padding: int = 0
    sections: tuple[tuple[int, int], ...] = ()
    channel_stride: int = 0
    line: int = 0
    line_step: int = 0
    overread: int = 0

    @property
    def source(self) -> str:
        kind = "LINE_BUFFER" if self.line_buffer else "IM2COL" if self.im2col else "DIRECT"
        return f"TVMRT_SOURCE_{kind}"

    @property
    def segments(self) -> int:
        rows = self.window.kernel[0] * self.window.kernel[1]
        return 1 if self.im2col else rows * self.taps

    @property
    def x_pixel(self) -> int:
        if self.chunk:
            return self.copied + self.pixel_padding
        return self.copied if self.line_buffer else self.window.x_stride

    @property
    def x_step(self) -> int:
        return self.segment if self.im2col else self.stride * self.x_pixel

    @property
    def pitch(self) -> int:
        """Bytes of a row in the line buffer."""
        width = self.line_buffer.width if self.line_buffer else 0
        return round_up(width * self.copied * self.element, self.unit)

    @property
    def slots(self) -> int:
        return prod(self.line_buffer.slots) if self.line_buffer else 0

    def scratch_offsets(self, begin: int) -> tuple[int, int, int]:
        """Return offsets from ``begin`` bytes of scratch: (line buffer's row numbers, its rows,
        end)."""
        rows = round_up(begin + 4 * self.slots, self.unit)
        end = rows + self.overread * self.x_step * self.element
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
            "run": self.segment,
            "segments": self.segments,
            "taps": self.taps,
            "x_pixel": self.x_pixel,
            "x_step": self.x_step,
        }
        more: dict[str, object] = {"skip": self.skip, "runs": int(bool(self.sections))}
        if self.line_buffer:
            held, rows, _ = self.scratch_offsets(begin)
            more |= {
                "slots": tuple(self.line_buffer.slots),
                "pitch": self.pitch,
                "left": self.line_buffer.left,
                "columns": self.line_buffer.columns,
                "copied": self.copied,
                "fill": self.fill,
                "at_row_numbers": held,
                "at_line_buffer": rows,
            }
        if self.chunk:
            at = self.scratch_offsets(begin)[1]
            more |= {"columns": self.chunk, "copied": self.copied, "at_line_buffer": at}
            more |= {"line": self.line, "line_step": self.line_step}
        more |= {"floats": self.floats, "scratch": scratch, "channel_stride": self.channel_stride}
        return first | {name: value for name, value in more.items() if value != 0}


def plan_window(
    window: Window,
    channels: int,
    *,
    element: int,
    copied: int | None = None,
    min_segment: int = 0,
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
    min_segment
        Windows with shorter segments use im2col, rounded up to a multiple of it. With such a
        minimum, rows are copied also to make columns contiguous.
    """
    copied = channels if copied is None else copied
    columns = window.kernel[2]
    joinable = columns == 1 or (window.dilation[2] == 1 and copied == channels)
    if (columns if joinable else 1) * channels < min_segment:
        segment = round_up(window.taps * channels, min_segment)
        return WindowPlan(window, element, channels, copied, segment, 1, im2col=True, unit=unit)
    pixel_padding = columns > 1 and joinable and window.x_stride != channels
    sections = () if joinable or min_segment else row_sections(window)
    copies = window.overlaps_padding(2) or (min_segment and pixel_padding)
    line_buffer = line_buffer_of(window) if copies and not sections else None
    joined = joinable and (line_buffer is not None or not pixel_padding)
    segment, taps = (columns * channels, 1) if joined else (channels, columns)
    return plan_rows(
        window, channels, element, copied=copied, segment=segment, taps=taps,
        line_buffer=line_buffer, unit=unit, fill=fill, sections=sections,
    )  # fmt: skip


def plan_row_pairs(window: Window, channels: int, unit: int, fill: int) -> WindowPlan:
    """Return the plan of a dense int8 layer that reads pairs of rows with interleaved pixels, in
    runs of whole quads (``conv_i8_amx.h``)."""
    rows, columns = ceil_div(window.kernel[1], 2), window.kernel[2]
    kernel, stride = (1, rows, columns), (1, 1, window.stride[2])
    pair_window = replace(window, kernel=kernel, stride=stride, pad=(0, 0, window.pad[2]))
    both, segment = 2 * channels, round_up(2 * channels * columns, 4)
    return plan_rows(
        pair_window, both, 1, copied=both, segment=segment, taps=1,
        line_buffer=line_buffer_of(pair_window), unit=unit, fill=fill,
    )  # fmt: skip


def plan_nchw(window: Window, channels: int) -> WindowPlan:
    """Return the plan of a dense float layer over one NCHW image; the line buffer interleaves its
    channels."""
    return plan_rows(
        window, channels, FLOAT, copied=channels, segment=window.kernel[2] * channels, taps=1,
        line_buffer=line_buffer_of(window), channel_stride=window.in_[1] * window.in_[2],
    )  # fmt: skip


def plan_bf16(
    window: Window,
    channels: int,
    words_per_pair: int,
    overread: int,
    channel_stride: int = 0,
    rereads: bool = False,
) -> WindowPlan:
    """Return the plan of a dense float32 layer with input rounded to bfloat16: segments count
    pairs, all rows are copied, ``words_per_pair`` words per pair. ``channels`` are those of a
    group; ``overread``, ``channel_stride``: see :class:`WindowPlan`. ``rereads``: all rows are read
    more than once, because the weights exceed the cache."""
    pairs = ceil_div(channels, 2)
    row_words = pairs * words_per_pair
    line, line_step = 0, 0
    if window.is_strided_1x1 and not window.is_identity_window:
        line, line_step = window.out[2], window.stride[1] * window.in_[2] * window.x_stride
        window = window.as_contiguous_row()
    if window.rows == 1 and window.is_identity_window:
        # a distance of a large power of two would map many pixels to few cache sets
        pixel_padding = LINE if row_words * FLOAT % PAGE == 0 else 0
        cached = RESIDENT_BYTES if rereads else CHUNK_BYTES
        chunk = max(MIN_CHUNK, cached // ((row_words + pixel_padding) * FLOAT))
        return WindowPlan(
            window, FLOAT, pairs, row_words, pairs, 1, unit=64, floats=channels,
            chunk=min(chunk, max(upper_bound(window.pixels), 1)), pixel_padding=pixel_padding,
            overread=overread, line=line,
            line_step=line_step,
        )  # fmt: skip
    columns = window.kernel[2]
    joined = columns == 1 or window.dilation[2] == 1
    segment, taps = (columns * pairs, 1) if joined else (pairs, columns)
    sections = () if joined else row_sections(window)
    line_buffer = line_buffer_of(window)
    in_, row_bytes = window.in_[:2], line_buffer.width * row_words * FLOAT
    if rereads and not symbols_of(*in_) and prod(in_) * row_bytes <= RESIDENT_BYTES:
        line_buffer = replace(line_buffer, slots=tuple(map(max, line_buffer.slots, in_)))
    return plan_rows(
        window, pairs, FLOAT, copied=row_words, segment=segment, taps=taps,
        line_buffer=line_buffer, sections=sections, overread=overread,
        channel_stride=channel_stride, unit=64, floats=channels,
    )  # fmt: skip


def plan_rows(window: Window, channels: int, element: int, **more: object) -> WindowPlan:
    """Return the plan of windows that begin with the first column that is not cropped."""
    skip = max(0, -window.pad[2])
    return WindowPlan(window, element, channels, skip=skip, stride=window.stride[2], **more)  # type: ignore[arg-type]


def row_sections(window: Window) -> tuple[tuple[int, int], ...]:
    """Return the runs of a row if they skip enough columns in the padding, else none.

    Threads divide a single row by its pixels, which does not work with runs.
    """
    fixed = not symbols_of(*window.in_, *window.out)
    if not fixed or window.dilation[2] == 1 or window.rows == 1 or not window.overlaps_padding(2):
        return ()
    sections = window.column_segments()
    work = sum(pixels * columns for pixels, columns in sections)
    if work > MAX_SECTION_WORK * window.out[2] * window.kernel[2]:
        return ()
    return tuple(sections) if len({pixels for pixels, _ in sections}) <= MAX_SECTION_LENGTHS else ()


def line_buffer_of(window: Window) -> LineBuffer:
    """Return the line buffer for the rows that a window needs."""
    width, skip = window.padded_extent(2), max(0, -window.pad[2])
    left = sym_min(max(0, window.pad[2]), width)
    columns = sym_max(0, sym_min(window.in_[2] - skip, width - left))
    return LineBuffer((window.window_extent(0), window.window_extent(1)), left, columns, width)


def plan_transposed(
    window: Window, channels: int, words_per_pair: int = 0, overread: int = 0
) -> WindowPlan:
    """Return the plan of a transposed float32 layer; every phase of its rows is a window of stride
    1. With ``words_per_pair``, its input is rounded to bfloat16, so many words per pair."""
    # columns before the first input column and past the last that rows use
    stride, columns = window.stride[2], window.in_[2]
    overlap = (window.kernel[2] - 1) * window.dilation[2] - window.pad[2]
    left = max(0, ceil_div(overlap, stride))
    right = max(0, (window.out[2] - 1 + window.pad[2]) // stride - columns + 1)
    # the input rows that the layer uses at a time
    slots = tuple((window.window_extent(d) - 1) // window.stride[d] + 1 for d in (0, 1))
    line_buffer = LineBuffer(slots, left, columns, left + columns + right)  # type: ignore[arg-type]
    taps = window.kernel[2]
    if not words_per_pair:
        used = line_buffer if left or right else None
        return WindowPlan(window, FLOAT, channels, channels, channels, taps, used)
    pairs = ceil_div(channels, 2)
    return WindowPlan(
        window, FLOAT, pairs, pairs * words_per_pair, pairs, taps, line_buffer, unit=64,
        floats=channels, overread=overread,
    )  # fmt: skip
