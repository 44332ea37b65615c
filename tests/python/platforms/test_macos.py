"""Networks for macOS, compiled and linked but not run."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

import tvmrt

DIGITS = Path(__file__).parents[3] / "examples" / "digits"
MAGIC, DYLIB = 0xFEEDFACF, 6
PROCESSORS = {"aarch64-macos": 0x0100000C, "x86_64-macos": 0x01000007}
SYMTAB, NEEDED = 0x2, 0xC  # Mach-O load commands: symbol table, required library
EXTERNAL, KIND = 0x01, 0x0E  # bits of a symbol's type; no type bits: undefined


def _commands(data: bytes, target: str) -> list[tuple[int, bytes]]:
    """Return the load commands of a Mach-O file, as in Apple's <mach-o/loader.h>."""
    magic, cpu, _, kind, count = struct.unpack_from("<5I", data)
    assert (magic, cpu, kind) == (MAGIC, PROCESSORS[target], DYLIB)
    found, at = [], 32
    for _ in range(count):
        command, size = struct.unpack_from("<2I", data, at)
        found.append((command, data[at : at + size]))
        at += size
    return found


def _text(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode()


@pytest.mark.slow
@pytest.mark.parametrize("target", PROCESSORS)
def test_network_links_only_system_libraries(tmp_path, target):
    pytest.importorskip("ziglang")
    path = tmp_path / "net.dylib"
    tvmrt.compile(DIGITS / "digits_f32.onnx", target=target).export(path)
    data = path.read_bytes()
    commands = _commands(data, target)
    needed = [_text(c, struct.unpack_from("<I", c, 8)[0]) for n, c in commands if n == NEEDED]
    assert needed == ["/usr/lib/libSystem.B.dylib"]
    (table,) = (c for n, c in commands if n == SYMTAB)
    at, count, names, _ = struct.unpack_from("<4I", table, 8)
    defined, undefined = set(), set()
    for i in range(count):
        name, kind, _, _, _ = struct.unpack_from("<IBBHQ", data, at + 16 * i)
        if kind & EXTERNAL:
            (defined if kind & KIND else undefined).add(_text(data, names + name))
    assert {"___tvm_dev_mblob", "___TVMBackendAllocWorkspace"} <= defined
    assert not [name for name in undefined if "TVM" in name or "tvm" in name]


def test_file_has_the_platform_suffix(tmp_path):
    library = tvmrt.compile(DIGITS / "digits_f32.onnx", target="aarch64-macos")
    with pytest.raises(
        ValueError, match=r"net.so: a library for aarch64-macos is a .dylib file; w"
    ):
        library.export_library(tmp_path / "net.so")
    own = tvmrt.compile(DIGITS / "digits_f32.onnx", target="x86-64")
    with pytest.raises(ValueError, match=r"net.dylib: a library for x86-64 is a .so file; write"):
        own.export(tmp_path / "net.dylib")
    assert not [*tmp_path.iterdir()]
