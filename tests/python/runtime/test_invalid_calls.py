"""Global functions with arguments of a wrong type raise an exception that names it."""

from __future__ import annotations

import ctypes

import pytest

import tvmrt
from tvmrt.runtime import _library, get_global_func

C = ctypes.CDLL(_library.PATH)


def tensor(*shape):
    return tvmrt.nd.empty(shape or (2,))


def shape_tuple():
    return tvmrt.runtime.ShapeTuple([1, 2])


def source():
    return get_global_func("runtime.CSourceModuleCreate")("int x;", "c")


CASES = {
    "object for a number": ("runtime.TVMSetStream", lambda: (shape_tuple(), 0, None), "ShapeTuple"),
    "object for a text": ("tvmrt.device.find", lambda: (shape_tuple(),), "a str.*ShapeTuple"),
    "no array": ("runtime.ArraySize", lambda: (shape_tuple(),), "Array.*ShapeTuple"),
    "no arguments": ("runtime.GetShapeTupleElem", lambda: (), "takes 2 arguments, got 0"),
    "none for a variadic": ("runtime.ADT", lambda: (), "takes at least 1 argument, got 0"),
    "none as a key": ("runtime.Map", lambda: (None, 1), "argument 0 is None"),
    "none as a value": ("runtime.Map", lambda: ("a", None), "argument 1 is None"),
    "vectors as parameters": (
        "runtime.SaveParams",
        lambda: ({"p": tvmrt.nd.empty((2,), "float32x4")},),
        "compact CPU tensors of scalar types",
    ),
    "numbers as parameters": ("runtime.SaveParams", lambda: ({"p": 3},), "map str to NDArray"),
    "missing import": ("runtime.ModuleGetImport", lambda: (source(), 3), "0 imports"),
    "a view before its tensor": (
        "runtime.TVMArrayCreateView",
        lambda: (tensor(), shape_tuple(), "float32", -8),
        "offset is negative",
    ),
    "evaluator without calls": (
        "runtime.RPCTimeEvaluator",
        lambda: (None, "runtime.NumThreads", 1, 0, 0, 0, 0, 0, 0, 0, 0, ""),
        "at least 1",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_function_refuses(case):
    name, arguments, text = CASES[case]
    function = get_global_func(name)
    assert function is not None
    with pytest.raises((TypeError, ValueError, IndexError, tvmrt.TVMError), match=text):
        function(*arguments())


def test_maps_find_keys_by_their_value():
    make, get = get_global_func("runtime.Map"), get_global_func("runtime.MapGetItem")
    shape = shape_tuple()
    found = make(1, "one", 2, "two", 2, "again", "two", "text", shape, "shape")
    assert get_global_func("runtime.MapSize")(found) == 4
    assert get(found, 1) == "one"
    assert get(found, 2) == "again"
    assert get(found, "two") == "text"
    assert get(found, shape) == "shape"
    for absent in (7, shape_tuple()):
        with pytest.raises((KeyError, IndexError, ValueError)):
            get(found, absent)


def test_moved_values_go_into_containers():
    text = tvmrt.runtime.ShapeTuple([4])
    moved = tvmrt.runtime.ObjectRValueRef(text)
    array = get_global_func("runtime.Array")(moved)
    assert text.handle == 0
    assert list(array[0]) == [4]


@pytest.mark.parametrize("device_type", [0, 99, 35], ids=["none", "beyond", "not named"])
def test_allocation_on_missing_devices_fails(device_type):
    with pytest.raises((ValueError, tvmrt.TVMError), match="no device of type"):
        tvmrt.nd.empty((2,), device=tvmrt.runtime.Device(device_type, 0))


def test_memory_by_shape_is_given_and_counted():
    space, kept = ctypes.c_void_p(), (ctypes.c_int64 * 2)(2, 3)

    class Place(ctypes.Structure):
        _fields_ = [("type", ctypes.c_int32), ("id", ctypes.c_int32)]

    class Type(ctypes.Structure):
        _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]

    allocate = C.TVMDeviceAllocDataSpaceWithScope
    allocate.argtypes = [
        Place,
        ctypes.c_int,
        ctypes.c_void_p,
        Type,
        ctypes.c_char_p,
        ctypes.c_void_p,
    ]
    assert allocate(Place(1, 0), 2, kept, Type(2, 32, 1), b"global", ctypes.byref(space)) == 0
    ctypes.memset(space, 1, 24)
    C.TVMDeviceFreeDataSpace.argtypes = [Place, ctypes.c_void_p]
    assert C.TVMDeviceFreeDataSpace(Place(1, 0), space) == 0
    assert allocate(Place(1, 0), 2, kept, Type(2, 32, 1), b"texture", ctypes.byref(space)) != 0
    huge = (ctypes.c_int64 * 2)(2**62, 2**62)
    assert allocate(Place(1, 0), 2, huge, Type(2, 32, 1), None, ctypes.byref(space)) != 0
    assert not space.value


def test_functions_are_found_without_a_module():
    handle = ctypes.c_void_p()
    assert C.TVMBackendGetFuncFromEnv(None, b"runtime.NumThreads", ctypes.byref(handle)) == 0
    assert handle.value == get_global_func("runtime.NumThreads").handle
    assert C.TVMBackendGetFuncFromEnv(None, b"no.such.function", ctypes.byref(handle)) != 0
    assert C.TVMBackendGetFuncFromEnv(None, None, ctypes.byref(handle)) != 0
