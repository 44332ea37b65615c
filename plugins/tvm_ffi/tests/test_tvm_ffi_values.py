"""Test the bridge to apache-tvm-ffi: values as arguments and results, on both sides."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from bridge_case import (
    ARRAY,
    VIEW,
    aligned,
    bridge,
    ffi_tensor,
    from_ffi,
    string_object,
    to_ffi,
    tvm_ffi,
)

import tvmrt

TO_CLASSIC = {
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
    "dtype": (tvm_ffi.dtype("int8"), "int8"),
    "vector-dtype": (tvm_ffi.dtype("float16x4"), "float16x4"),
    "bool-dtype": (tvm_ffi.dtype("bool"), "bool"),
    "e4m3": (tvm_ffi.dtype("float8_e4m3fn"), "e4m3_float8"),
    "e5m2": (tvm_ffi.dtype("float8_e5m2"), "e5m2_float8"),
}


@pytest.mark.parametrize("name", TO_CLASSIC)
def test_classic_function_gets_value(name):
    given, expected = TO_CLASSIC[name]
    seen = []
    to_ffi(seen.append)(given)
    assert seen == [expected]
    assert isinstance(seen[0], bool) == isinstance(expected, bool)


def test_classic_function_gets_pointer():
    seen = []
    to_ffi(lambda value: seen.append(value.value))(ctypes.c_void_p(4096))
    assert seen == [4096]


CODES = {
    "none": (lambda: None, 4),
    "int": (lambda: 1, 0),
    "bool": (lambda: True, 15),
    "float": (lambda: 1.0, 2),
    "small-str": (lambda: "ab", 11),
    "str": (lambda: "abcdefghij", 11),
    "bytes": (lambda: b"abcdefghij", 12),
    "pointer": (lambda: ctypes.c_void_p(16), 3),
    "dtype": (lambda: tvm_ffi.dtype("int8"), 5),
    "device": (lambda: tvm_ffi.device("cpu"), 6),
    "function": (lambda: tvm_ffi.convert(lambda: None), 10),
    "lambda": (lambda: lambda: None, 10),
    "tensor": (lambda: ffi_tensor(aligned(3)), ARRAY),
    "unaligned-tensor": (lambda: ffi_tensor(aligned(3, offset=4)), VIEW),
    "numpy-array": (lambda: aligned(3), ARRAY),
}


@pytest.mark.parametrize("name", CODES)
def test_argument_has_the_classic_type_code(toolbox, name):
    make, code = CODES[name]
    assert bridge.to_tvm_ffi(toolbox["type_codes"])(make()) == code


CLASSIC_RESULTS = {
    "none": (lambda: None, None),
    "int": (lambda: 7, 7),
    "float": (lambda: 2.5, 2.5),
    "str": (lambda: "text", "text"),
    "long-str": (lambda: "text" * 9, "text" * 9),
    "bytes": (lambda: b"a\0b", b"a\0b"),
    "device": (lambda: tvmrt.cuda(2), tvm_ffi.device("cuda", 2)),
}


@pytest.mark.parametrize("name", CLASSIC_RESULTS)
def test_result_of_classic_function(name):
    make, expected = CLASSIC_RESULTS[name]
    assert to_ffi(make)() == expected


@pytest.mark.parametrize(
    ("maker", "value"),
    [("String", "text"), ("String", "text" * 9), ("BoxInt", 7), ("BoxFloat", 2.5)],
    ids=["small-string", "string", "int", "float"],
)
def test_result_object_becomes_its_value(maker, value):
    function = bridge.to_tvm_ffi(tvmrt.get_global_func(f"runtime.{maker}"))
    assert function(value) == value


def test_boxed_bool_becomes_a_bool():
    assert bridge.to_tvm_ffi(tvmrt.get_global_func("runtime.BoxBool"))(True) is True


def test_library_function_returns_by_tvm_ffi(toolbox):
    add3 = bridge.to_tvm_ffi(toolbox["add3"])
    assert isinstance(add3, tvm_ffi.Function)
    assert add3(1, 2, 3) == 6


# ---- values, called by the classic side ----

FROM_CLASSIC = {
    "none": (lambda: None, None),
    "int": (lambda: -7, -7),
    "float": (lambda: 2.5, 2.5),
    "str": (lambda: "text", "text"),
    "bytes": (lambda: b"a\0b", b"a\0b"),
    "device": (lambda: tvmrt.opencl(1), tvm_ffi.device("opencl", 1)),
    "string-object": (lambda: string_object("text"), "text"),
    "long-string-object": (lambda: string_object("text" * 9), "text" * 9),
}


@pytest.mark.parametrize("name", FROM_CLASSIC)
def test_tvm_ffi_function_gets_value(name):
    make, expected = FROM_CLASSIC[name]
    seen = []
    from_ffi(seen.append)(make())
    assert seen == [expected]


FFI_RESULTS = {
    "none": (lambda: None, None),
    "int": (lambda: 7, 7),
    "true": (lambda: True, True),
    "float": (lambda: 2.5, 2.5),
    "small-str": (lambda: "text", "text"),
    "str": (lambda: "text" * 9, "text" * 9),
    "small-bytes": (lambda: b"a\0b", b"a\0b"),
    "bytes": (lambda: b"a\0b" * 9, b"a\0b" * 9),
    "device": (lambda: tvm_ffi.device("cuda", 2), tvmrt.cuda(2)),
    "dtype": (lambda: tvm_ffi.dtype("bool"), "bool"),
}


@pytest.mark.parametrize("name", FFI_RESULTS)
def test_result_of_tvm_ffi_function(name):
    make, expected = FFI_RESULTS[name]
    result = from_ffi(make)()
    assert result == expected
    assert isinstance(result, bool) == isinstance(expected, bool)


TYPED = {
    "int": ("int", lambda: 7),
    "float": ("float", lambda: 2.5),
    "bool": ("bool", lambda: True),
    "str": ("string", lambda: "text"),
    "long-str": ("string", lambda: "text" * 9),
    "bytes": ("bytes", lambda: bytearray(b"a\0b" * 9)),
    "device": ("device", lambda: tvmrt.cuda(1)),
    "dtype": ("dtype", lambda: tvmrt.DataType("float32")),
}


@pytest.mark.parametrize("name", TYPED)
def test_typed_cpp_function_takes_and_returns(name):
    """Call typed functions written in C++."""
    kind, make = TYPED[name]
    pytest.importorskip("tvm_ffi.testing")
    function = tvm_ffi.get_global_func(f"testing.schema_id_{kind}", allow_missing=True)
    if function is None:
        pytest.skip(f"this tvm-ffi has no test function for {kind}")
    assert bridge.from_tvm_ffi(function)(make()) == make()


@pytest.mark.parametrize("count", [0, 1, 8, 9, 200])
def test_any_number_of_arguments(toolbox, count):
    texts = [f"a longer text {i}" for i in range(count)]
    assert bridge.to_tvm_ffi(toolbox["count"])(*texts) == count
    assert from_ffi(lambda *args: len(args))(*texts) == count
    assert to_ffi(lambda *args: list(args) == texts)(*texts) == 1
    assert from_ffi(lambda *args: list(args) == texts)(*texts) == 1


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


REFUSED = {
    "object": (to_ffi, object, "OpaquePyObject"),
    "in-list": (to_ffi, lambda: [1, [object()]], "OpaquePyObject"),
    "nul-in-text": (to_ffi, lambda: "a\0b", "NUL"),
    "nul-in-long-text": (to_ffi, lambda: "a\0b" * 9, "NUL"),
    "strided-tensor": (to_ffi, lambda: ffi_tensor(np.zeros((4, 4), np.float32).T), "contiguous"),
    "float4": (to_ffi, lambda: tvm_ffi.dtype("float4_e2m1fn"), "type code 17"),
    "too-deep": (to_ffi, lambda: nested(300), "nested more than 200 deep"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_argument_is_named(name):
    side, make, text = REFUSED[name]
    with pytest.raises((TypeError, ValueError), match=rf"argument 1: .*{text}"):
        side(lambda *args: None)(0, make())
