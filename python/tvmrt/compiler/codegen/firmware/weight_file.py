"""Weights of a firmware network as a blob outside the program (``params="file"``).

The program has the address of the blob that ``tvmgen_<name>_set_weights()`` accepted, and the
number of its layout. Programs that differ in the contents of their constants only have equal
layouts. ``tvm/runtime/weight_blob.h`` documents the bytes and checks them.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterable

from tvmrt.compiler.ir.program import Program
from tvmrt.libinfo import __version__

from ..c.formatting import reject_if
from ..options import Options, Sources
from . import link_guard
from .pool_functions import loaded_pools, loaded_symbol
from .tensor_names import own_includes

MAGIC, VERSION = 0x574D5654, 1
HEADER = struct.Struct("<IIQIIII")
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)


def layout_of(sources: Sources, texts: Iterable[str]) -> int:
    """Return the 64-bit layout number of a program: a hash of its C texts without comments, of the
    place of each constant, and of the version of tvmrt, whose kernels define the packing."""
    rows = [f"{b.dtype} {b.size} {sources.weight_offsets[b]}" for b in sources.weight_buffers]
    code = [" ".join(_COMMENT.sub(" ", text).split()) for text in texts]
    return int(link_guard.identity(__version__, *rows, *code, digits=16), 16)


def blob_of(sources: Sources) -> bytes:
    """Return the header and the contents of a network's weights."""
    contents = bytes(sources.weights)
    head = HEADER.pack(MAGIC, VERSION, sources.layout, len(contents), zlib.crc32(contents), 0, 0)
    return head + contents


def have_equal_layouts(blob: bytes, other: bytes) -> bool:
    """Return whether two blobs are weights for the same programs."""
    layouts = slice(4, 16)  # the version of the format, and the layout
    return blob[layouts] == other[layouts]


def declarations(prefix: str, sources: Sources, options: Options) -> list[str]:
    """Return header lines with the size of the blob and the function that takes its address."""
    if not options.weights_in_blob:
        return []
    load = f" Call {prefix}_load()\n * after it." if sources.resident else ""
    return [
        "/*! \\brief Bytes of a blob of weights, with its header; aligned to 16 bytes. */",
        f"#define {prefix.upper()}_WEIGHTS_SIZE {HEADER.size + len(sources.weights)}",
        "",
        "/*!",
        " * \\brief Set the weights: the blob that the compiler wrote, or that of a new training.",
        " *",
        " * Call it before the first run, and not during a run. The blob is read in place by every",
        f" * run. It is described in tvm/runtime/weight_blob.h.{load}",
        " * \\param blob Its address, a multiple of 16; borrowed until the next call.",
        " * \\param size Bytes that may be read there, at least those of the blob.",
        " * \\return 0; kTvmErrorNetworkWeightsMisplaced for a NULL or misaligned address;",
        " * kTvmErrorNetworkWeightsUnknown if it is not a blob of this format;",
        " * kTvmErrorNetworkWeightsMismatch for weights of another network;",
        " * kTvmErrorNetworkWeightsDamaged if bytes are missing or changed. After an error the",
        " * network has no weights, and runs return kTvmErrorNetworkWeightsNotLoaded.",
        " */",
        f"int32_t {prefix}_set_weights(const void *blob, size_t size);",
        "",
    ]


def pointer_declaration(prefix: str) -> list[str]:
    """Return lines of the header of operators."""
    return [
        "/* Contents of the blob of weights, or NULL; calls pass the weights by their offsets. */",
        f"extern const unsigned char TVMGEN_LOCAL *{prefix}_weights;",
        "",
    ]


def checks(prefix: str, options: Options) -> list[str]:
    """Return C lines that refuse to run without weights."""
    if not options.weights_in_blob:
        return []
    return reject_if(f"{prefix}_weights == NULL", "NetworkWeightsNotLoaded")


def print_files(
    program: Program, prefix: str, sources: Sources, options: Options
) -> dict[str, str]:
    """Return the file with the function by name; empty if the weights are in the program."""
    if not options.weights_in_blob:
        return {}
    low, high = sources.layout & 0xFFFFFFFF, sources.layout >> 32
    resident = loaded_pools(program)
    lines = [
        *own_includes(prefix, "crt/error_codes", "weight_blob"),
        f'#include "{prefix}_ops.h"',
        "",
        *(f"TVMGEN_LOCAL extern const uint8_t *{loaded_symbol(p, prefix)};" for p in resident),
        *([""] if resident else []),
        f"const unsigned char *{prefix}_weights;",
        "",
        f"int32_t {prefix}_set_weights(const void *blob, size_t size) {{",
        "  static const tvmrt_weight_layout expected = {",
        f"      .layout = {{0x{low:08x}u, 0x{high:08x}u}},",
        f"      .content_bytes = {len(sources.weights)}}};",
        "  const int32_t code = tvmrt_weight_blob_check(blob, size, &expected);",
        *(f"  {loaded_symbol(pool, prefix)} = NULL;" for pool in resident),
        f"  {prefix}_weights = NULL;",
        "  if (code != 0) return code;",
        f"  {prefix}_weights = (const unsigned char *)blob + TVMRT_WEIGHT_BLOB_HEADER_SIZE;",
        "  return 0;",
        "}",
        "",
    ]
    return {f"{prefix}_weights.c": "\n".join(lines)}
