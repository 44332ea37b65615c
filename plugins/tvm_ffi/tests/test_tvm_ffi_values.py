"""Test the bridge to apache-tvm-ffi: values as arguments and results, on both sides."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from bridge_case import ARRAY, VIEW, aligned, bridge, ffi_tensor, from_ffi, to_ffi, tvm_ffi

import tvmrt

# The value on the side of tvm-ffi, and in the classic ABI.
VALUES = {
    "none": (None, None),
    "int": (-7, -7),
    "largest-int": (2**63 - 1, 2**63 - 1),
    "float": (2.5, 2.5),
    "true": (True, True),
    "false": (False, False),
    "empty-str": ("", ""),
    "small-str": ("seven77", "seven77"),
    "str": ("eight888", "eight888"),
    "utf8": ("grüße, Welt", "grüße, Welt"),
    "empty-bytes": (b"", b""),
    "small-bytes": (b"a\0b", b"a\0b"),
    "bytes": (b"long\0" * 9, b"long\0" * 9),
    "device": (tvm_ffi.device("cuda", 2), tvmrt.cuda(2)),
}
TYPES = {
    "dtype": (tvm_ffi.dtype("int8"), "int8"),
    "vector-dtype": (tvm_ffi.dtype("float16x4"), "float16x4"),
    "bool-dtype": (tvm_ffi.dtype("bool"), "bool"),
    "e4m3": (tvm_ffi.dtype("float8_e4m3fn"), "e4m3_float8"),
    "e5m2": (tvm_ffi.dtype("float8_e5m2"), "e5m2_float8"),
}


def same(value, expected) -> bool:
    return value == expected and isinstance(value, bool) == isinstance(expected, bool)


@pytest.mark.parametrize("name", [*VALUES, *TYPES])
def test_value_of_tvm_ffi(name):
    given, expected = {**VALUES, **TYPES}[name]
    seen = []
    to_ffi(seen.append)(given)
    assert same(seen[0], expected), "as an argument"
    assert same(from_ffi(lambda: given)(), expected), "as a result"


@pytest.mark.parametrize("name", VALUES)
def test_classic_value(name):
    expected, given = VALUES[name]
    seen = []
    from_ffi(seen.append)(given)
    assert seen == [expected], "as an argument"
    assert to_ffi(lambda: given)() == expected, "as a result"


def test_pointers():
    seen = []
    to_ffi(lambda value: seen.append(value.value))(ctypes.c_void_p(4096))
    from_ffi(lambda value: seen.append(value.value))(ctypes.c_void_p(4096))
    assert seen == [4096, 4096]


CODES = {
    "bool": (lambda: True, 15),
    "float": (lambda: 1.0, 2),
    "small-str": (lambda: "ab", 11),
    "bytes": (lambda: b"abcdefghij", 12),
    "pointer": (lambda: ctypes.c_void_p(16), 3),
    "dtype": (lambda: tvm_ffi.dtype("int8"), 5),
    "device": (lambda: tvm_ffi.device("cpu"), 6),
    "lambda": (lambda: lambda: None, 10),
    "tensor": (lambda: ffi_tensor(aligned(3)), ARRAY),
    "unaligned-tensor": (lambda: ffi_tensor(aligned(3, offset=4)), VIEW),
}


@pytest.mark.parametrize("name", CODES)
def test_argument_has_the_classic_type_code(toolbox, name):
    make, code = CODES[name]
    assert bridge.to_tvm_ffi(toolbox["type_codes"])(make()) == code


@pytest.mark.parametrize(
    ("maker", "value"),
    [
        ("String", "text"),
        ("String", "text" * 9),
        ("BoxInt", 7),
        ("BoxFloat", 2.5),
        ("BoxBool", True),
    ],
    ids=["small-string", "string", "int", "float", "bool"],
)
def test_result_object_becomes_its_value(maker, value):
    function = bridge.to_tvm_ffi(tvmrt.get_global_func(f"runtime.{maker}"))
    assert same(function(value), value)


@pytest.mark.parametrize("count", [0, 1, 8, 9, 200])
def test_any_number_of_arguments(toolbox, count):
    texts = [f"a longer text {i}" for i in range(count)]
    assert bridge.to_tvm_ffi(toolbox["count"])(*texts) == count
    assert to_ffi(lambda *args: list(args) == texts)(*texts) == 1
    assert from_ffi(lambda *args: list(args) == texts)(*texts) == 1


def nested(container):
    value = container([1])
    for _ in range(300):
        value = container([value])
    return value


REFUSED = {
    "in-list": (to_ffi, lambda: [1, [object()]], "OpaquePyObject"),
    "nul-in-text": (to_ffi, lambda: "a\0b", "NUL"),
    "strided-tensor": (to_ffi, lambda: ffi_tensor(np.zeros((4, 4), np.float32).T), "contiguous"),
    "float4": (to_ffi, lambda: tvm_ffi.dtype("float4_e2m1fn"), "type code 17"),
    "too-deep": (to_ffi, lambda: nested(list), "nested more than 200 deep"),
    "too-deep-classic": (
        from_ffi,
        lambda: nested(tvmrt.runtime.Array),
        "nested more than 200 deep",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_argument_is_named(name):
    side, make, text = REFUSED[name]
    with pytest.raises((TypeError, ValueError), match=rf"argument 1: .*{text}"):
        side(lambda *args: None)(0, make())
