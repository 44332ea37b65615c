"""Calls from Python to C: arguments, results, errors, the registry."""

from __future__ import annotations

import ctypes
import weakref

import numpy as np
import pytest

import tvmrt
from tvmrt.runtime import String, convert


def codes(*values: int) -> int:
    """Type codes as toolbox's type_codes() returns them."""
    return sum(value * 16**i for i, value in enumerate(values))


ARGUMENTS = {
    "none": (lambda: None, 4),
    "int": (lambda: 7, 0),
    "bool": (lambda: True, 0),
    "float": (lambda: 1.5, 2),
    "str": (lambda: "text", 11),
    "bytes": (lambda: b"text", 12),
    "bytearray": (lambda: bytearray(b"text"), 12),
    "numpy-int": (lambda: np.int32(7), 0),
    "numpy-float": (lambda: np.float32(7), 2),
    "numpy-bool": (lambda: np.bool_(True), 0),
    "numpy-array": (lambda: np.zeros(3, np.float32), 7),
    "numpy-scalar-array": (lambda: np.zeros((), np.float32), 7),
    "numpy-empty-array": (lambda: np.zeros((0, 3), np.float32), 7),
    "memoryview": (lambda: memoryview(bytearray(8)), 7),
    "ndarray": (lambda: tvmrt.nd.empty((2, 3)), 13),
    "device": (lambda: tvmrt.cpu(0), 6),
    "dtype": (lambda: tvmrt.DataType("float32"), 11),
    "module": (tvmrt.runtime.system_lib, 9),
    "function": (lambda: tvmrt.get_global_func("runtime.SystemLib"), 10),
    "lambda": (lambda: lambda: None, 10),
    "builtin": (lambda: len, 10),
    "list": (lambda: [1, 2], 8),
    "tuple": (lambda: (1, "two"), 8),
    "dict": (lambda: {"a": 1}, 8),
    "object": (lambda: tvmrt.runtime.ShapeTuple([1, 2]), 8),
    "pointer": (lambda: ctypes.c_void_p(16), 3),
    "null-pointer": (lambda: ctypes.c_void_p(None), 4),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_argument_has_the_classic_type_code(toolbox, name):
    make, code = ARGUMENTS[name]
    assert toolbox["type_codes"](make()) == code


def test_argument_order_is_kept(toolbox):
    assert toolbox["type_codes"](1, "s", 2.0, None) == codes(0, 11, 2, 4)


@pytest.mark.parametrize("count", [0, 1, 8, 9, 200])
def test_any_number_of_arguments(toolbox, count):
    assert toolbox["count"](*range(count)) == count


@pytest.mark.parametrize("count", [4, 5, 9, 40])
def test_any_number_of_buffers(toolbox, count):
    arrays = [np.zeros(2, np.float32) for _ in range(count)]
    assert toolbox["count"](*arrays) == count


@pytest.mark.parametrize("value", [0, -1, 2**63 - 1, -(2**63), 1.5, -0.0, float("inf"), None, True])
def test_values_return_as_they_were(toolbox, value):
    assert toolbox["echo"](value) == value


def test_device_returns_as_device(toolbox):
    assert toolbox["echo"](tvmrt.opencl(3)) == tvmrt.opencl(3)


def test_pointer_returns_as_void_p(toolbox):
    assert toolbox["echo"](ctypes.c_void_p(4096)).value == 4096


def test_function_without_result_returns_none(toolbox):
    assert toolbox["nothing"]() is None


def test_string_is_utf8(toolbox):
    assert toolbox["string_length"]("é") == 2


def test_bytes_may_hold_nul(toolbox):
    assert toolbox["sum_bytes"](b"\x01\x00\x02") == 3


def test_numpy_array_is_passed_without_a_copy(toolbox):
    array = np.zeros(4, np.float32)
    assert toolbox["data_address"](array) == array.ctypes.data


@pytest.mark.parametrize(
    ("dtype", "code", "bits"),
    [
        ("int8", 0, 8),
        ("int16", 0, 16),
        ("int32", 0, 32),
        ("int64", 0, 64),
        ("uint8", 1, 8),
        ("uint16", 1, 16),
        ("uint32", 1, 32),
        ("uint64", 1, 64),
        ("float16", 2, 16),
        ("float32", 2, 32),
        ("float64", 2, 64),
        ("bool", 1, 1),
        ("complex64", 5, 64),
    ],
)
def test_numpy_dtype_becomes_element_type(toolbox, dtype, code, bits):
    assert toolbox["element_type"](np.zeros(3, dtype)) == code * 65536 + bits * 256 + 1


def test_in_place_work_on_numpy_arrays(toolbox):
    source, target = np.arange(6, dtype=np.float32), np.zeros(6, np.float32)
    toolbox["scale"](source, target, 0.5)
    np.testing.assert_array_equal(target, source / 2)


BAD_ARGUMENTS = {
    "too-large-int": (lambda: 2**63, OverflowError, "argument 1"),
    "nul-in-string": (lambda: "a\0b", ValueError, "argument 1: .*NUL"),
    "nul-in-text": (lambda: "ä\0b", ValueError, "argument 1: .*NUL"),
    "strided-array": (lambda: np.zeros((4, 4))[:, ::2], ValueError, "argument 1: .*contiguous"),
    "big-endian-array": (lambda: np.zeros(3, ">f4"), TypeError, "argument 1: .*'>f'"),
    "object-array": (lambda: np.array([object()]), TypeError, "argument 1"),
    "plain-object": (object, TypeError, "argument 1: .*object cannot be passed"),
    "surrogate": (lambda: "\udc80", UnicodeEncodeError, "surrogates"),
}


@pytest.mark.parametrize("name", BAD_ARGUMENTS)
def test_bad_argument_is_named(toolbox, name):
    make, kind, text = BAD_ARGUMENTS[name]
    with pytest.raises(kind, match=text):
        toolbox["count"](0, make())


def test_read_only_array_is_refused(toolbox):
    array = np.zeros(3, np.float32)
    array.flags.writeable = False
    with pytest.raises(ValueError, match=r"argument 0: .*read-only"):
        toolbox["count"](array)


def test_keyword_arguments_are_refused(toolbox):
    with pytest.raises(TypeError, match="no keyword arguments"):
        toolbox["count"](a=1)


# ---- errors from C ----


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ("ValueError: bad axis 7", ValueError, "bad axis 7"),
        ("TypeError: no float", TypeError, "no float"),
        ("KeyError: x", KeyError, "x"),
        ("TVMError: plain", tvmrt.TVMError, "plain"),
        ("InternalError: broken", tvmrt.error.InternalError, "broken"),
        ("something else: happened", tvmrt.TVMError, "something else: happened"),
        ("SystemExit: no", tvmrt.TVMError, "SystemExit: no"),
        ("UnicodeDecodeError: odd", tvmrt.TVMError, "UnicodeDecodeError: odd"),
    ],
)
def test_error_text_names_the_exception(toolbox, text, kind, said):
    with pytest.raises(kind, match=said) as caught:
        toolbox["raise_error"](text)
    assert type(caught.value) is kind


def test_registered_error_is_raised(toolbox):
    @tvmrt.error.register_error("shop.OutOfStock")
    class OutOfStock(Exception):
        pass

    with pytest.raises(OutOfStock, match="no shoes"):
        toolbox["raise_error"]("shop.OutOfStock: no shoes")


def test_call_works_after_an_error(toolbox):
    with pytest.raises(tvmrt.TVMError):
        toolbox["raise_error"]("x")
    assert toolbox["add3"](1, 2, 3) == 6


# ---- the registry ----


@pytest.fixture
def global_name(request):
    name = f"test.{request.node.name}"
    yield name
    tvmrt.runtime.remove_global_func(name)


def test_registered_function_is_found_from_c(toolbox_path, tmp_path, global_name):
    copy = tmp_path / "copy.so"
    copy.write_bytes(toolbox_path.read_bytes())
    tvmrt.register_func(global_name, lambda a, b: a * b)
    assert tvmrt.get_global_func(global_name)(6, 7) == 42
    assert tvmrt.runtime.load_module(copy)["call_global"](global_name, 6, 7) == 42
    assert global_name in tvmrt.runtime.list_global_func_names()


def test_register_as_decorator(global_name):
    @tvmrt.register_func(global_name)
    def function(x):
        return x + 1

    assert function(1) == 2
    assert tvmrt.get_global_func(global_name)(1) == 2


def test_taken_name_needs_override(global_name):
    tvmrt.register_func(global_name, lambda: 1)
    with pytest.raises(ValueError, match="exists"):
        tvmrt.register_func(global_name, lambda: 2)
    tvmrt.register_func(global_name, lambda: 2, override=True)
    assert tvmrt.get_global_func(global_name)() == 2


def test_removed_function_is_gone_and_freed(global_name):
    class Payload:
        def __call__(self):
            return None

    payload = Payload()
    watch = weakref.ref(payload)
    tvmrt.register_func(global_name, payload)
    del payload
    tvmrt.runtime.remove_global_func(global_name)
    assert watch() is None
    assert tvmrt.get_global_func(global_name, allow_missing=True) is None


def test_missing_function_is_named():
    with pytest.raises(ValueError, match=r"no\.such\.function"):
        tvmrt.get_global_func("no.such.function")


def test_function_equality_and_repr(toolbox):
    function = toolbox["add3"]
    assert function == function  # noqa: PLR0124 - the comparison is what is tested
    assert function != toolbox["echo"]
    assert "PackedFunc" in repr(function)


def test_moved_object_is_null_afterwards(toolbox):
    shape = tvmrt.runtime.ShapeTuple([1, 2])
    got = toolbox["call"](tuple, shape._move())
    assert tuple(got) == (1, 2)
    assert shape.handle == 0


def test_string_object_is_a_string():
    text = convert(lambda: convert("abc"))()
    assert isinstance(text, str)
    assert text == "abc"
    assert isinstance(String("x"), str)


def test_only_objects_can_be_moved():
    function = tvmrt.get_global_func("runtime.GetFFIString")
    with pytest.raises(TypeError, match="only an Object can be moved"):
        function(tvmrt.runtime.ObjectRValueRef("text"))
