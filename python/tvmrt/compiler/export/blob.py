"""The tree of modules in a library (``__tvm_dev_mblob``), and params files."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tvmrt.compiler.codegen.c.packed_functions import WEAK
from tvmrt.compiler.ir import ModuleBlob, dtype_of

NDARRAY_MAGIC = 0xDD5E40F096B4A13F
PARAMS_MAGIC = 0xF7E58D4F05049CB7
NO_PARAMS = bytes(16)  # in a factory: number of tensors, and number of names
# If file offset and address agree modulo a huge page, Linux may map a file by huge pages, which
# need fewer TLB entries: 8 MiB of small pages fill the TLB of a processor.
HUGE_PAGE = 2 << 20  # bytes
MANY_PAGES = 8 << 20  # bytes
HUGE_PAGE_SECTION = ".tvm_weights"  # a separate section, so that no other section moves


class Tree(NamedTuple):
    """Bytes of ``__tvm_dev_mblob``, and offsets of the ends of the imported modules."""

    data: bytes
    ends: list[int]


def u64(value: int) -> bytes:
    return struct.pack("<Q", value)


def string(text: str | bytes) -> bytes:
    data = text.encode("utf-8") if isinstance(text, str) else text
    return u64(len(data)) + data


def vector(values: Sequence[int]) -> bytes:
    return u64(len(values)) + b"".join(u64(v) for v in values)


def ndarray(array: np.ndarray) -> bytes:
    """Serialise one tensor in the format of the classic ABI; always on CPU 0."""
    dtype = dtype_of(array)
    data = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
    head = struct.pack("<QQiii", NDARRAY_MAGIC, 0, 1, 0, array.ndim)
    head += struct.pack("<BBH", dtype.code, dtype.bits, 1)
    shape = struct.pack(f"<{array.ndim}q", *array.shape)
    return head + shape + struct.pack("<q", len(data)) + data


def params(arrays: Mapping[str, np.ndarray]) -> bytes:
    """Return a params file: names and tensors."""
    names = b"".join(string(name) for name in arrays)
    tensors = b"".join(ndarray(array) for array in arrays.values())
    return (
        struct.pack("<QQ", PARAMS_MAGIC, 0) + u64(len(arrays)) + names + u64(len(arrays)) + tensors
    )


def graph_library(json: str, module_name: str, imports: Sequence[ModuleBlob] = ()) -> Tree:
    """Return the tree of a library for the graph executor: factory, then the library itself, which
    imports the modules of devices."""
    factory = string("GraphExecutorFactory") + string(json) + NO_PARAMS + string(module_name)
    return _chain([factory], imports)


def aot_library(module_name: str, imports: Sequence[ModuleBlob] = ()) -> Tree:
    """Return the tree of a library for the AOT executor: factory, metadata, then the library
    itself, which imports the modules of devices."""
    factory = string("AotExecutorFactory") + NO_PARAMS + string(module_name)
    return _chain([factory, string("metadata_module")], imports)


def _chain(heads: Sequence[bytes], imports: Sequence[ModuleBlob]) -> Tree:
    """Return a chain of modules that import the next one, then the library, then its imports.

    The table of imports has the start of each module's row and, in one list, the indices of the
    modules that it imports.
    """
    modules = [*heads, string("_lib")]
    offset = len(u64(0) + u64(0)) + sum(map(len, modules))  # after two counts
    ends = []
    for module in imports:
        key = string(module.type_key)
        modules.append(key + module.payload_at(offset + len(key)))
        offset += len(modules[-1])
        ends.append(offset)
    rows = [*range(len(heads) + 1), *[len(modules) - 1] * (len(imports) + 1)]
    stream = u64(len(modules) + 1) + b"".join(modules)
    stream += string("_import_tree") + vector(rows) + vector(range(1, len(modules)))
    return Tree(u64(len(stream)) + stream, ends)


def blob_source(blob: bytes, shared: bool = True) -> str:
    """Return C text that defines ``__tvm_dev_mblob`` for loaders. Several networks in one program
    may each define it, unless they refer to data in it (not ``shared``)."""
    lines = [
        "/* Module tree of this library; see __tvm_dev_mblob. */",
        "#include <tvm/runtime/c_backend_api.h>",
        "",
        "#if defined(__GNUC__)",
        "#define TVMGEN_ALIGNED __attribute__((aligned(64)))  /* as its content */",
        "#else",
        "#define TVMGEN_ALIGNED",
        "#endif",
        f"TVM_DLL extern const unsigned char __tvm_dev_mblob[{len(blob)}];",
        *(WEAK if shared else []),
        f"const unsigned char __tvm_dev_mblob[{len(blob)}] TVMGEN_ALIGNED = {{",
    ]
    for i in range(0, len(blob), 16):
        lines.append("  " + ", ".join(f"0x{b:02x}" for b in blob[i : i + 16]) + ",")
    return "\n".join([*lines, "};", ""])


def include_bytes_assembly(
    symbol: str,
    file_name: str,
    nbytes: int,
    exported: bool = False,
    inner: Mapping[str, int] | None = None,
) -> str:
    """Return assembly that includes a file's bytes under a symbol, read-only and 64-aligned;
    compilers take minutes for such a C array. Hidden unless ``exported``. ``inner``: hidden symbols
    for offsets in the bytes. Exported bytes without them are weak, because several networks in one
    program may define them. Large data are aligned to huge pages on ELF systems."""
    binding = ".weak" if exported and not inner else ".globl"
    hidden = "" if exported else f"  .hidden {symbol}\n"
    private = "" if exported else f"  .private_extern _{symbol}\n"
    section, alignment = f".rodata.{symbol}", 6
    if nbytes >= MANY_PAGES:
        section, alignment = HUGE_PAGE_SECTION, HUGE_PAGE.bit_length() - 1
    listed = f'  .section .drectve,"yn"\n  .ascii " -export:{symbol},data"\n' if exported else ""
    return f"""\
/* {nbytes} bytes, copied from {file_name}. */
#if defined(__APPLE__)
  .section __TEXT,__const
{private}  .globl _{symbol}
  .p2align 6
_{symbol}:
#elif defined(_WIN32)
{listed}  .section .rdata,"dr"
  .globl {symbol}
  .p2align 6
{symbol}:
#else
  .section {section},"a",%progbits
  {binding} {symbol}
{hidden}  .p2align {alignment}
{symbol}:
#endif
{_parts(file_name, inner or {})}#if defined(__ELF__)
  .type {symbol}, %object
  .size {symbol}, {nbytes}
  .section .note.GNU-stack,"",%progbits
#endif
"""


def _parts(file_name: str, inner: Mapping[str, int]) -> str:
    """Return the bytes of the file, split at each symbol."""
    lines, begin = [], 0
    for symbol, offset in sorted(inner.items(), key=lambda item: item[1]):
        lines.append(
            f'  .incbin "{file_name}", {begin}, {offset - begin}' if offset > begin else ""
        )
        lines.append(_hidden_label(symbol))
        begin = offset
    rest = f", {begin}" if begin else ""
    return "\n".join([*filter(None, lines), f'  .incbin "{file_name}"{rest}', ""])


def _hidden_label(symbol: str) -> str:
    return f"""\
#if defined(__APPLE__)
  .private_extern _{symbol}
  .globl _{symbol}
_{symbol}:
#else
  .globl {symbol}
#if defined(__ELF__)
  .hidden {symbol}
#endif
{symbol}:
#endif"""
