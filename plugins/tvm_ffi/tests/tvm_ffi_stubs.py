"""Script of test_tvm_ffi_stubs.py for a separate process: call the stubs of tvm-ffi's C interface
as libraries do if tvm-ffi is not loaded. Constants are those of its header."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import numpy as np

import tvmrt
from tvmrt.runtime import _library

sys.path.insert(0, str(Path(__file__).parents[3] / "tests" / "python" / "runtime"))

from test_extension_from_c import DLTensor, Managed, tensor_of

FFI = ctypes.CDLL(str(Path(_library.PATH).with_name("libtvmrt_tvm_ffi.so")))
NONE, INT, SMALL_BYTES, OBJECT, BYTES, ERROR, TENSOR = 0, 1, 12, 64, 66, 67, 70
Pointer = ctypes.c_void_p
FFI.TVMFFIEnvGetStream.restype = Pointer
FFI.TVMFFIGetTypeAttrColumn.restype = Pointer
FFI.TVMFFIGetTypeInfo.restype = Pointer


class Text(ctypes.Structure):
    _fields_ = [("data", ctypes.c_char_p), ("size", ctypes.c_size_t)]


class Value(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("small", ctypes.c_uint32), ("bits", ctypes.c_int64)]


class Head(ctypes.Structure):
    """Header of every object."""

    _fields_ = [
        ("strong", ctypes.c_uint32),
        ("weak", ctypes.c_uint32),
        ("type", ctypes.c_int32),
        ("padding", ctypes.c_int32),
        ("deleter", ctypes.CFUNCTYPE(None, Pointer, ctypes.c_int)),
    ]


class Error(ctypes.Structure):
    _fields_ = [("head", Head), ("kind", Text), ("message", Text), ("backtrace", Text),
                ("update", ctypes.CFUNCTYPE(None, Pointer, ctypes.POINTER(Text), ctypes.c_int32)),
                ("cause", Pointer), ("extra", Pointer)]  # fmt: skip


class TypeInfo(ctypes.Structure):
    _fields_ = [("index", ctypes.c_int32), ("depth", ctypes.c_int32), ("key", Text)]


def text(data: bytes):
    return ctypes.byref(Text(data, len(data)))


def raised() -> Error:
    """Take the error of this thread."""
    out = Pointer()
    FFI.TVMFFIErrorMoveFromRaised(ctypes.byref(out))
    return Error.from_address(out.value)


def version_and_registry() -> None:
    version = (ctypes.c_uint32 * 3)(9, 9, 9)
    FFI.TVMFFIGetVersion(version)
    assert list(version) == [0, 1, 0]
    out = Pointer(1)
    assert FFI.TVMFFIFunctionGetGlobal(text(b"any"), ctypes.byref(out)) == 0 and not out.value
    assert FFI.TVMFFIEnvCheckSignals() == 0


def errors() -> None:
    parts = (ctypes.c_char_p * 3)(b"one ", None, b"x" * 2000)
    FFI.TVMFFIErrorSetRaisedFromCStrParts(b"ValueError", parts, 3)
    error = raised()
    assert error.kind.data == b"ValueError" and error.message.data == b"one " + b"x" * 1019
    made, above = Pointer(), Pointer()
    lines = b"  File a\n"
    create = FFI.TVMFFIErrorCreate
    assert create(text(b"KeyError"), text(b"k"), text(lines), ctypes.byref(made)) == 0
    cause = Error.from_address(made.value)
    cause.update(made.value, ctypes.pointer(Text(b"  File b\n", 9)), 1)
    assert cause.backtrace.data == lines + b"  File b\n"
    cause.update(made.value, ctypes.pointer(Text(b"  File c\n", 9)), 0)
    assert cause.backtrace.data == b"  File c\n"
    create = FFI.TVMFFIErrorCreateWithCauseAndExtraContext
    arguments = text(b"OSError"), text(b"m"), None, made, made
    assert create(*arguments, ctypes.byref(above)) == 0
    assert FFI.TVMFFIObjectIncRef(made) == 0 and cause.head.strong == 4
    FFI.TVMFFIErrorSetRaised(above)
    assert raised().cause == made.value
    for holder in (above, above):  # made() and the thread
        FFI.TVMFFIObjectDecRef(holder)
    assert cause.head.strong == 2
    cause.head.weak += 1  # as tvm-ffi's weak references: the content is freed before the block
    for _ in range(2):
        FFI.TVMFFIObjectDecRef(made)
    assert (cause.head.strong, cause.head.weak) == (0, 1)
    cause.head.deleter(made.value, 2)


def values_and_types() -> None:
    out = Value()
    assert FFI.TVMFFIBytesFromByteArray(text(b"a\0b"), ctypes.byref(out)) == 0
    assert (out.type, out.small, out.bits) == (SMALL_BYTES, 3, int.from_bytes(b"a\0b", "little"))
    assert FFI.TVMFFIBytesFromByteArray(text(b"longer than seven"), ctypes.byref(out)) == 0
    assert out.type == BYTES
    assert Text.from_address(out.bits + ctypes.sizeof(Head)).data == b"longer than seven"
    FFI.TVMFFIObjectDecRef(Pointer(out.bits))
    for index, key, depth in ((NONE, b"None", 0), (INT, b"int", 0), (TENSOR, b"ffi.Tensor", 1)):
        info = TypeInfo.from_address(FFI.TVMFFIGetTypeInfo(index))
        assert (info.index, info.depth, info.key.data) == (index, depth, key)
    assert FFI.TVMFFIGetTypeInfo(50) is None
    own = [FFI.TVMFFITypeGetOrAllocIndex(text(b"my.Type"), -1, 1, 0, 1, OBJECT) for _ in "ab"]
    assert own[0] == own[1] >= 128
    below = FFI.TVMFFITypeGetOrAllocIndex(text(b"my.Other"), -1, 2, 0, 1, own[0])
    info = TypeInfo.from_address(FFI.TVMFFIGetTypeInfo(below))
    assert (info.depth, info.key.data) == (2, b"my.Other")
    assert FFI.TVMFFITypeGetOrAllocIndex(text(b"ffi.Tensor"), TENSOR, 1, 0, 0, OBJECT) == TENSOR
    column = (ctypes.c_int64 * 2).from_address(FFI.TVMFFIGetTypeAttrColumn(text(b"__hash__")))
    assert list(column) == [0, 0]
    for register in ("Field", "Method", "Metadata"):
        assert getattr(FFI, f"TVMFFITypeRegister{register}")(own[0], None) == 0
    assert FFI.TVMFFITypeRegisterAttr(own[0], text(b"a"), None) == 0


def once() -> None:
    calls = []

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Pointer))
    def init(out):
        calls.append("init")
        out[0] = 77 if len(calls) > 1 else None
        return 0 if len(calls) > 1 else -1

    @ctypes.CFUNCTYPE(ctypes.c_int, Pointer)
    def deinit(handle):
        calls.append(handle)
        return 0

    handle = Pointer()
    for expected in (-1, 0, 0):
        assert FFI.TVMFFIHandleInitOnce(ctypes.byref(handle), init) == expected
    assert handle.value == 77
    for _ in range(2):
        assert FFI.TVMFFIHandleDeinitOnce(ctypes.byref(handle), deinit) == 0
    assert calls == ["init", "init", 77] and not handle.value


def streams() -> None:
    old = Pointer(1)
    assert FFI.TVMFFIEnvGetStream(2, 0) is None
    assert FFI.TVMFFIEnvSetStream(2, 0, Pointer(11), ctypes.byref(old)) == 0 and not old.value
    assert FFI.TVMFFIEnvSetStream(2, 0, Pointer(12), ctypes.byref(old)) == 0 and old.value == 11
    assert FFI.TVMFFIEnvGetStream(2, 0) == 12 and FFI.TVMFFIEnvGetStream(2, 1) is None
    assert [FFI.TVMFFIEnvSetStream(2, i, Pointer(1), None) for i in range(1, 17)] == [0] * 15 + [-1]
    assert b"16 devices" in raised().message.data


def tensors() -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    out, shown = Pointer(), ctypes.POINTER(Managed)()
    assert FFI.TVMFFIEnvTensorAlloc(ctypes.byref(tensor_of(array)), ctypes.byref(out)) == 0
    made = DLTensor.from_address(out.value + ctypes.sizeof(Head))
    assert (made.ndim, list(made.shape[:2]), made.bits) == (2, [2, 3], 32)
    assert FFI.TVMFFITensorToDLPack(out, ctypes.byref(shown)) == 0
    assert shown.contents.tensor.data == made.data
    again = Pointer()
    assert FFI.TVMFFITensorFromDLPack(shown, 0, 0, ctypes.byref(again)) == 0
    assert DLTensor.from_address(again.value + ctypes.sizeof(Head)).data == made.data
    for tensor in (out, again):
        FFI.TVMFFIObjectDecRef(tensor)
    negative = tensor_of(array, shape=(-1,))
    assert FFI.TVMFFIEnvTensorAlloc(ctypes.byref(negative), ctypes.byref(out)) == -1
    assert b"-1" in raised().message.data


SafeCall = ctypes.CFUNCTYPE(
    ctypes.c_int, Pointer, ctypes.POINTER(Value), ctypes.c_int32, ctypes.POINTER(Value)
)


@SafeCall
def fail(self, args, count, result):
    FFI.TVMFFIErrorSetRaisedFromCStr(b"IndexError", b"from far away")
    return -1


@SafeCall
def call(self, args, count, result):
    nothing = Value()
    return FFI.TVMFFIFunctionCall(Pointer(args[0].bits), None, 0, ctypes.byref(nothing))


def errors_across_both_sides() -> None:
    """Raise an error in tvm-ffi, and pass it through the classic side and tvm-ffi again."""
    start = FFI.tvmrt_tvm_ffi_start
    assert start() == 0
    make = tvmrt.get_global_func("tvmrt.tvm_ffi.from_safe_call")
    inner, outer = (make(ctypes.cast(f, Pointer), None, None) for f in (fail, call))
    try:
        outer(tvmrt.runtime.convert(lambda: inner() or 1))
    except IndexError as error:
        assert "from far away" in str(error)
    else:
        raise AssertionError


for part in (
    version_and_registry, errors, errors_across_both_sides, values_and_types, once, streams,
    tensors,
):  # fmt: skip
    part()
    print(part.__name__)
assert "tvm_ffi" not in sys.modules
