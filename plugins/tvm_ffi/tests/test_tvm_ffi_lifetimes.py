"""Test the bridge to apache-tvm-ffi: how long objects live, and what they keep alive."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import weakref

import numpy as np
import pytest
from bridge_case import (
    aligned,
    both_sides,
    bridge,
    ffi_tensor,
    from_ffi,
    packed,
    strong_references,
    to_ffi,
    tvm_ffi,
)

import tvmrt


class Payload:
    """Callable whose lifetime can be observed."""

    def __call__(self, *args):
        return len(args)


@pytest.fixture
def payload():
    """Return a function that makes the payload, and one that asserts that it was released."""
    watched = []

    def make():
        made = Payload()
        watched.append(weakref.ref(made))
        return made

    yield make
    gc.collect()
    assert watched and all(watch() is None for watch in watched)


@both_sides
def test_function_keeps_what_it_calls(side, payload):
    function = side(payload())
    gc.collect()
    assert function(1, 2) == 2


@both_sides
def test_temporary_argument_is_released_after_the_call(side, payload):
    assert side(lambda f: f(1))(payload()) == 1


@both_sides
def test_referenced_function_argument_stays(side, payload):
    kept = []
    side(kept.append)(payload())
    gc.collect()
    assert kept[0](1, 2, 3) == 3


def test_unwrapped_function_is_released(payload):
    again = bridge.from_tvm_ffi(bridge.to_tvm_ffi(packed(payload())))
    gc.collect()
    assert again() == 0


@pytest.mark.parametrize("convert_to", [bridge.to_tvm_ffi, bridge.from_tvm_ffi], ids=["to", "from"])
def test_tensor_keeps_its_source(convert_to):
    class Array(np.ndarray):
        pass

    array = aligned(4).view(Array)
    watch = weakref.ref(array)
    source = tvmrt.nd.from_dlpack if convert_to is bridge.to_tvm_ffi else tvm_ffi.from_dlpack
    tensor = convert_to(source(array))
    del array
    gc.collect()
    assert watch() is not None
    del tensor
    gc.collect()
    assert watch() is None


def fail(*args):
    raise ValueError("no")


ARGUMENTS = {
    "none": lambda: None,
    "long-str": lambda: "a text on the heap",
    "long-bytes": lambda: b"bytes on the heap",
    "array": lambda: ffi_tensor(aligned(4)),
    "view": lambda: ffi_tensor(aligned(4, offset=4)),
    "function": lambda: tvm_ffi.convert(lambda: None),
    "list": lambda: [1, "a text on the heap", [2.5]],
}


# The function, and another argument.
ENDS = {"returns": (lambda *args: None, 1), "fails": (fail, 1), "refused": (fail, object())}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("name", ["array", "view", "function"])
def test_references_of_arguments_are_given_back(name, end):
    argument, (function, last) = ARGUMENTS[name](), ENDS[end]
    before = strong_references(argument)
    for _ in range(3):
        with contextlib.suppress(ValueError, TypeError):
            to_ffi(function)(*[argument] * 9, last)
    assert strong_references(argument) == before


class MallInfo(ctypes.Structure):
    """struct mallinfo2 of glibc."""

    _fields_ = [("counts", ctypes.c_size_t * 10)]


def heap_bytes() -> int:
    """Return the bytes allocated on malloc()'s heap."""
    mallinfo = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if mallinfo is None:
        pytest.skip("this C library does not count its heap")
    mallinfo.restype = MallInfo
    gc.collect()
    return mallinfo().counts[7]


@pytest.mark.everyday(2)
@both_sides
@pytest.mark.parametrize("end", ["returns", "fails", "many"])
@pytest.mark.parametrize("name", ARGUMENTS)
def test_calls_do_not_leak_memory(side, end, name):
    argument = ARGUMENTS[name]()
    if side is from_ffi and isinstance(argument, (tvm_ffi.Tensor, tvm_ffi.Function)):
        argument = bridge.from_tvm_ffi(argument)  # objects that the classic side passes
    rounds, grown = 400, []

    def once():
        try:
            side(fail if end == "fails" else lambda *args: args[0])(
                *[argument] * (12 if end == "many" else 1)
            )
        except ValueError:
            assert end == "fails"

    for _ in range(50):  # Python fills caches of its own
        once()
    for _ in range(3):
        before = heap_bytes()
        for _ in range(rounds):
            once()
        grown.append(heap_bytes() - before)
        if grown[-1] < rounds * 8:  # less than the smallest block per iteration
            return
    pytest.fail(f"{grown} bytes stay of {rounds} calls each")
