"""Test the bridge to apache-tvm-ffi: calls by address, without Python."""

from __future__ import annotations

import ctypes
import gc
import weakref
from pathlib import Path

import numpy as np
import pytest
from bridge_case import (
    ARRAY,
    Payload,
    aligned,
    bridge,
    call_packed,
    compile_c,
    ffi_tensor,
    packed,
    string_object,
    strong_references,
    tvm_ffi,
)

import tvmrt
from tvmrt import libinfo
from tvmrt.runtime import _core, _library


def ffi_include_flags() -> list[str]:
    root = tvm_ffi.libinfo
    folders = {root.find_include_path(), root.find_dlpack_include_path()}
    return [f"-I{folder}" for folder in [*folders, *libinfo.find_include_path()]]


@pytest.fixture(scope="module")
def calls_path(tmp_path_factory):
    return compile_c(
        Path(__file__).with_name("tvm_ffi_calls.c"),
        tmp_path_factory.mktemp("calls") / "calls.so",
        *ffi_include_flags(),
    )


@pytest.fixture(scope="module")
def calls(calls_path):
    """Load data/tvm_ffi_calls.c; its functions run with the GIL held."""
    ctypes.CDLL(tvm_ffi.libinfo.find_libtvm_ffi(), ctypes.RTLD_GLOBAL)
    library = ctypes.PyDLL(str(calls_path))
    for name in ("run_safe_call", "run_packed_call"):
        getattr(library, name).restype = ctypes.c_int64
        getattr(library, name).argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    return library


def symbol(library: ctypes.CDLL, name: str) -> int:
    return ctypes.cast(getattr(library, name), ctypes.c_void_p).value


def test_safe_call_of_a_classic_function(calls, toolbox):
    call = bridge.safe_call(toolbox["add3"])
    assert calls.run_safe_call(call.address, call.handle) == 60


def test_safe_call_through_a_function_of_tvm_ffi_and_back(calls, toolbox):
    """Call classic C through tvm-ffi, the classic side, and tvm-ffi again, without Python."""
    inner = bridge.safe_call(toolbox["add3"])
    middle = bridge.from_safe_call(inner.address, inner.handle, keep_alive=inner)
    outer = bridge.safe_call(middle)
    assert calls.run_safe_call(outer.address, outer.handle) == 60


def test_packed_call_of_a_function_of_tvm_ffi(calls, toolbox):
    call = bridge.packed_call(bridge.to_tvm_ffi(toolbox["add3"]))
    assert calls.run_packed_call(call.address, call.handle) == 60


def test_packed_call_of_a_c_function(calls):
    function = bridge.from_safe_call(symbol(calls, "__tvm_ffi_sum"), keep_alive=calls)
    call = bridge.packed_call(bridge.to_tvm_ffi(function))
    assert calls.run_packed_call(call.address, call.handle) == 60


@pytest.mark.parametrize("runner", ["run_safe_call", "run_packed_call"])
def test_error_by_address(calls, toolbox, runner):
    failing = toolbox["raise_error"]
    if runner == "run_safe_call":
        call = bridge.safe_call(failing)
    else:
        call = bridge.packed_call(bridge.to_tvm_ffi(failing))
    assert getattr(calls, runner)(call.address, call.handle) == -1


@pytest.mark.parametrize("runner", ["run_safe_call", "run_packed_call"])
def test_null_handle_is_an_error(calls, runner):
    address = {
        "run_safe_call": bridge._SAFE_CALL,
        "run_packed_call": bridge._PACKED_CALL,
    }[runner]
    assert getattr(calls, runner)(address, None) == -1


def test_c_function_of_tvm_ffi_as_packed_function(calls):
    total = bridge.from_safe_call(symbol(calls, "__tvm_ffi_sum"))
    assert total(1, 2, 3) == 6
    with pytest.raises(TypeError, match=r"^sum\(\) adds integers$"):
        total(1, "two")


def test_handle_of_a_c_function_is_kept(calls):
    extra = ctypes.c_int64(1000)
    watch = weakref.ref(extra)
    total = bridge.from_safe_call(
        symbol(calls, "__tvm_ffi_sum"), ctypes.addressof(extra), keep_alive=extra
    )
    del extra
    gc.collect()
    assert total(1) == 1001
    del total
    gc.collect()
    assert watch() is None


TYPE_INDICES = {
    "none": (lambda: None, 0),
    "int": (lambda: 1, 1),
    "float": (lambda: 1.5, 3),
    "pointer": (lambda: ctypes.c_void_p(16), 4),
    "device": (lambda: tvmrt.cpu(0), 6),
    "view": (lambda: np.zeros(3, np.float32), 70),
    "str": (lambda: "text", 8),
    "bytes": (lambda: b"text", 9),
    "small-string-object": (lambda: string_object("text"), 11),
    "string-object": (lambda: string_object("text" * 9), 65),
    "function": (lambda: packed(len), 68),
    "array": (lambda: tvmrt.nd.empty((3,)), 70),
}


@pytest.mark.parametrize("name", TYPE_INDICES)
def test_argument_has_the_type_index_of_tvm_ffi(calls, name):
    make, index = TYPE_INDICES[name]
    function = bridge.from_safe_call(symbol(calls, "__tvm_ffi_type_indices"))
    assert function(make()) == index


def test_moved_argument_is_taken_over(calls):
    text = string_object("text" * 9)
    references = bridge.from_safe_call(symbol(calls, "__tvm_ffi_references"))
    assert references(tvmrt.runtime.ObjectRValueRef(text)) == 1
    assert text.handle == 0


def test_moved_argument_of_tvm_ffi_stays_the_callers(toolbox):
    tensor = ffi_tensor(aligned(3))
    before = strong_references(tensor)
    assert bridge.to_tvm_ffi(toolbox["type_codes"])(tvm_ffi.core.ObjectRValueRef(tensor)) == ARRAY
    assert strong_references(tensor) == before


def test_function_from_packed_call(toolbox_path):
    library = ctypes.CDLL(str(toolbox_path))
    add3 = bridge.from_packed_call(symbol(library, "add3"), keep_alive=library)
    assert isinstance(add3, tvm_ffi.Function)
    assert add3(1, 2, 3) == 6
    with pytest.raises(TypeError, match="takes 3 arguments"):
        add3()


def test_packed_call_keeps_its_owner_alive(toolbox_path):
    library = ctypes.CDLL(str(toolbox_path))
    payload = Payload()
    watch = weakref.ref(payload)
    add3 = bridge.from_packed_call(symbol(library, "add3"), keep_alive=payload)
    del payload
    gc.collect()
    assert watch() is not None
    del add3
    gc.collect()
    assert watch() is None


@pytest.mark.parametrize(
    ("result", "code"), [(7, 0), (2.5, 2), (None, 4), ("text", 8), ("text" * 9, 8)], ids=str
)
def test_packed_call_returns(result, code):
    value, got = call_packed(lambda: result)
    assert got == code
    if code == 8:
        text = _core.adopt(_core.Object, value)
        assert tvmrt.get_global_func("runtime.GetFFIString")(text) == result
    elif code == 0:
        assert value == result


def test_packed_call_returns_tensors_and_functions():
    array = aligned(3)
    value, code = call_packed(lambda: ffi_tensor(array))
    assert code == ARRAY
    assert _core.tensor_from_handle(value).data_address == array.ctypes.data
    value, code = call_packed(lambda: tvm_ffi.convert(lambda: 5))
    assert code == 10
    assert _core.function_from_handle(value)() == 5


def test_packed_call_cannot_return_bytes():
    with pytest.raises(AssertionError, match="failed"):
        call_packed(lambda: b"text")
    with pytest.raises(TypeError, match="cannot return bytes"):
        raise _library.last_error()
