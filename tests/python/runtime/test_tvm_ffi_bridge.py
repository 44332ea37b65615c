"""The bridge to apache-tvm-ffi: values, tensors, errors, lifetimes, threads and addresses."""

from __future__ import annotations

import ctypes
import gc
import importlib
import importlib.util
import shutil
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import libraries
import numpy as np
import pytest

import tvmrt
from tvmrt import libinfo
from tvmrt.runtime import _core, _library

tvm_ffi = pytest.importorskip("tvm_ffi", reason="apache-tvm-ffi is not installed")

bridge = importlib.import_module("tvmrt.contrib.tvm_ffi")
_tvm_ffi_bridge = bridge._tvm_ffi_bridge

VIEW, ARRAY = 7, 13  # type codes of tensors in the classic ABI


def compile_c(source: Path, output: Path, *flags: str) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    command = [compiler, "-std=gnu99", "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-pthread"]
    subprocess.run([*command, *flags, source, "-o", output], check=True)
    return output


def ffi_include_flags() -> list[str]:
    root = tvm_ffi.libinfo
    folders = {root.find_include_path(), root.find_dlpack_include_path()}
    return [f"-I{folder}" for folder in [*folders, *libinfo.find_include_path()]]


@pytest.fixture(scope="module")
def calls_path(tmp_path_factory):
    return compile_c(
        libraries.DATA / "tvm_ffi_calls.c",
        tmp_path_factory.mktemp("calls") / "calls.so",
        *ffi_include_flags(),
    )


@pytest.fixture(scope="module")
def calls(calls_path):
    """data/tvm_ffi_calls.c; the GIL stays held while its functions run."""
    ctypes.CDLL(tvm_ffi.libinfo.find_libtvm_ffi(), ctypes.RTLD_GLOBAL)
    library = ctypes.PyDLL(str(calls_path))
    for name in ("run_safe_call", "run_packed_call"):
        getattr(library, name).restype = ctypes.c_int64
        getattr(library, name).argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    return library


def symbol(library: ctypes.CDLL, name: str) -> int:
    return ctypes.cast(getattr(library, name), ctypes.c_void_p).value


def packed(callable_):
    return tvmrt.runtime.convert_to_tvm_func(callable_)


def to_ffi(callable_) -> tvm_ffi.Function:
    """A Python callable behind the classic ABI, called through tvm-ffi."""
    return bridge.to_tvm_ffi(packed(callable_))


def from_ffi(callable_) -> tvmrt.runtime.PackedFunc:
    """A Python callable behind tvm-ffi, called through the classic ABI."""
    return bridge.from_tvm_ffi(tvm_ffi.convert(callable_))


def aligned(shape, dtype=np.float32, offset=0):
    """An array whose memory starts `offset` bytes after a multiple of 64."""
    dtype = np.dtype(dtype)
    size = int(np.prod(shape)) * dtype.itemsize
    memory = np.zeros(size + 128, np.uint8)
    start = -memory.ctypes.data % 64 + offset
    return memory[start : start + size].view(dtype).reshape(shape)


def call_packed(callable_):
    """Call a TVMCPackedFunc without arguments; its result's bits and type code."""
    call = bridge.packed_call(callable_)
    value, code = ctypes.c_int64(), ctypes.c_int(4)
    kind = ctypes.PYFUNCTYPE(
        ctypes.c_int, *[ctypes.c_void_p] * 2, ctypes.c_int, *[ctypes.c_void_p] * 3
    )
    rc = kind(call.address)(
        None, None, 0, ctypes.addressof(value), ctypes.addressof(code), call.handle
    )
    assert rc == 0, "failed"
    return value.value, code.value


def address_of(tensor: tvm_ffi.Tensor) -> int:
    return np.from_dlpack(tensor).ctypes.data


def string_object(text):
    """A classic String that Python does not turn into a str."""
    handle, code = call_packed(lambda: text)
    assert code == 8
    return _core.adopt(_core.Object, handle)


def ffi_tensor(array) -> tvm_ffi.Tensor:
    return tvm_ffi.from_dlpack(array)


# ---- values, called by tvm-ffi ----

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
def test_result_object_becomes_what_it_stands_for(maker, value):
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
    """Functions written in C++, whose arguments have types."""
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


REFUSED = {
    "list": (to_ffi, lambda: [1, 2], "Array"),
    "dict": (to_ffi, lambda: {"a": 1}, "Map"),
    "nul-in-text": (to_ffi, lambda: "a\0b", "NUL"),
    "nul-in-long-text": (to_ffi, lambda: "a\0b" * 9, "NUL"),
    "strided-tensor": (to_ffi, lambda: ffi_tensor(np.zeros((4, 4), np.float32).T), "contiguous"),
    "float4": (to_ffi, lambda: tvm_ffi.dtype("float4_e2m1fn"), "type code 17"),
    "classic-list": (from_ffi, lambda: [1, 2], "Array"),
    "classic-shape": (from_ffi, lambda: tvmrt.runtime.ShapeTuple([1]), "ShapeTuple"),
    "module": (from_ffi, tvmrt.runtime.system_lib, "Module"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_argument_is_named(name):
    side, make, text = REFUSED[name]
    with pytest.raises((TypeError, ValueError), match=rf"argument 1: .*{text}"):
        side(lambda *args: None)(0, make())


@pytest.mark.parametrize("make", [lambda: [1], lambda: {}], ids=["list", "dict"])
def test_refused_result(make):
    with pytest.raises(TypeError, match="no classic counterpart"):
        from_ffi(make)()
    with pytest.raises(TypeError, match="no counterpart in tvm-ffi"):
        to_ffi(make)()


def test_module_result_is_refused():
    with pytest.raises(TypeError, match="Module"):
        to_ffi(tvmrt.runtime.system_lib)()


# ---- tensors ----


def test_tensor_shares_memory_with_classic_function(toolbox):
    array = aligned((2, 3))
    address = bridge.to_tvm_ffi(toolbox["data_address"])
    assert address(ffi_tensor(array)) == array.ctypes.data
    assert address(array) == array.ctypes.data


def test_classic_function_writes_into_tensor(toolbox):
    source, target = aligned(6), aligned(6, offset=4)
    source[:] = range(6)
    bridge.to_tvm_ffi(toolbox["scale"])(ffi_tensor(source), ffi_tensor(target), 0.5)
    np.testing.assert_array_equal(target, source / 2)


# numpy before 2.1 takes every tensor in by DLPack as read-only
needs_writable_dlpack = pytest.mark.skipif(
    not np.from_dlpack(tvmrt.nd.empty((1,))).flags.writeable,
    reason="this numpy makes every imported array read-only",
)


@needs_writable_dlpack
@pytest.mark.parametrize("offset", [0, 4], ids=["array", "view"])
def test_tvm_ffi_function_writes_into_tensor(offset):
    memory = aligned(3, offset=offset)
    tensor = tvmrt.nd.from_dlpack(memory)

    def function(got):
        np.from_dlpack(got)[:] = [1, 2, 3]

    from_ffi(function)(tensor)
    np.testing.assert_array_equal(memory, [1, 2, 3])


def test_numpy_argument_reaches_tvm_ffi_without_a_copy():
    array, seen = np.zeros((2, 3), np.float32), []

    def function(got):
        shared = np.from_dlpack(got)
        seen.append((shared.ctypes.data, shared.shape, shared.dtype))

    from_ffi(function)(array)
    assert seen == [(array.ctypes.data, (2, 3), array.dtype)]


@pytest.mark.parametrize("shape", [(), (0,), (1,), (2, 0, 3), (1,) * 20], ids=str)
def test_odd_shapes(shape):
    seen = []
    to_ffi(lambda t: seen.append(t.shape))(ffi_tensor(np.zeros(shape, np.float32)))
    from_ffi(lambda t: seen.append(tuple(t.shape)))(tvmrt.nd.empty(shape))
    from_ffi(lambda t: seen.append(tuple(t.shape)))(np.zeros(shape, np.float32))
    assert seen == [shape] * 3


@pytest.mark.parametrize(
    ("dtype", "code", "bits"),
    [("int8", 0, 8), ("uint16", 1, 16), ("float16", 2, 16), ("float64", 2, 64), ("bool", 1, 1)],
)
@pytest.mark.parametrize("offset", [0, 8], ids=["array", "view"])
def test_element_type_on_the_classic_side(toolbox, dtype, code, bits, offset):
    element_type = bridge.to_tvm_ffi(toolbox["element_type"])
    tensor = ffi_tensor(aligned(8, dtype, offset))
    assert element_type(tensor) == code * 65536 + bits * 256 + 1


@pytest.mark.parametrize("dtype", ["int8", "uint16", "float16", "float64", "bool"])
def test_element_type_on_the_other_side(dtype):
    assert from_ffi(lambda t: np.from_dlpack(t).dtype.name)(tvmrt.nd.empty((3,), dtype)) == dtype


@pytest.mark.parametrize(
    ("classic", "other"),
    [
        ("bfloat16", "bfloat16"),
        ("e4m3_float8", "float8_e4m3fn"),
        ("e5m2_float8", "float8_e5m2"),
    ],
)
def test_elements_that_numpy_lacks_keep_their_meaning(classic, other):
    tensor = tvmrt.nd.empty((64,), classic)
    assert from_ffi(lambda t: str(t.dtype))(tensor) == other
    assert from_ffi(lambda t: t)(tensor).dtype == classic


def test_kept_argument_outlives_the_call():
    kept, array = [], aligned(3)
    array[:] = [1, 2, 3]
    tensor = ffi_tensor(array)
    to_ffi(kept.append)(tensor)
    from_ffi(kept.append)(tvmrt.nd.array(np.float32([1, 2, 3])))
    del tensor, array
    gc.collect()
    np.testing.assert_array_equal(kept[0].numpy(), [1, 2, 3])
    np.testing.assert_array_equal(np.from_dlpack(kept[1]), [1, 2, 3])


def test_unaligned_argument_ends_with_the_call():
    kept = []
    to_ffi(kept.append)(ffi_tensor(aligned(3, offset=4)))
    with pytest.raises(ValueError, match="borrowed"):
        kept[0].numpy()


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)], ids=str)
def test_lent_argument_is_empty_after_the_call(shape):
    """What a numpy array shows tvm-ffi is the caller's: it may be gone after the call."""
    kept = []
    from_ffi(kept.append)(np.zeros(shape, np.float32))
    assert 0 in tuple(kept[0].shape)
    assert np.from_dlpack(kept[0]).size == 0


RETURNED = {
    "itself": lambda tensor: tensor,
    "part": lambda tensor: ffi_tensor(np.from_dlpack(tensor)[1:]),
}


@needs_writable_dlpack
@pytest.mark.parametrize("offset", [0, 4], ids=["aligned", "unaligned"])
@pytest.mark.parametrize("name", RETURNED)
def test_lent_argument_is_returned_as_a_copy(name, offset):
    array = aligned((17, 16), offset=offset)
    array[:] = np.arange(17 * 16).reshape(17, 16)
    result = from_ffi(RETURNED[name])(array)
    first = result.data_address - array.ctypes.data
    assert not 0 <= first < array.nbytes
    np.testing.assert_array_equal(result.numpy(), array if name == "itself" else array[1:])


def test_other_result_is_shared_beside_a_lent_argument():
    own = aligned(3)
    assert from_ffi(lambda lent: ffi_tensor(own))(aligned(3)).data_address == own.ctypes.data


def test_tensor_result_shares_memory():
    array = aligned(3)
    tensor = tvmrt.nd.from_dlpack(array)
    assert address_of(to_ffi(lambda: tensor)()) == array.ctypes.data
    assert from_ffi(lambda: ffi_tensor(array))().data_address == array.ctypes.data


def test_unaligned_result_is_copied():
    array = aligned((2, 3), offset=4)
    array[:] = [[1, 2, 3], [4, 5, 6]]
    result = from_ffi(lambda: ffi_tensor(array))()
    assert result.data_address != array.ctypes.data
    np.testing.assert_array_equal(result.numpy(), array)


def test_tensors_convert_by_themselves():
    array = aligned((2, 3))
    tensor = bridge.to_tvm_ffi(tvmrt.nd.from_dlpack(array))
    assert isinstance(tensor, tvm_ffi.Tensor)
    assert address_of(tensor) == array.ctypes.data
    back = bridge.from_tvm_ffi(tensor)
    assert isinstance(back, tvmrt.nd.NDArray)
    assert back.data_address == array.ctypes.data
    assert back.shape == (2, 3)


@pytest.mark.parametrize("kind", ["graph", "aot"])
def test_network_runs_from_tvm_ffi(request, kind):
    """An executor whose functions all are tvm-ffi's."""
    library = tvmrt.runtime.load_module(request.getfixturevalue(f"{kind}_library"))
    module = library["default"](tvmrt.cpu(0))
    call = {n: bridge.to_tvm_ffi(module[n]) for n in ("set_input", "run", "get_output")}
    del library, module
    x = np.float32([[1, 2, 3], [4, 5, 6]])
    call["set_input"]("x", ffi_tensor(x))
    call["run"]()
    for index, expected in enumerate(libraries.expected(x)):
        np.testing.assert_allclose(np.from_dlpack(call["get_output"](index)), expected, rtol=1e-6)


# ---- functions ----


def test_functions_as_arguments_and_results(toolbox):
    apply = to_ffi(lambda f, *args: f(*args))
    assert apply(lambda a, b: a - b, 5, 3) == 2
    assert apply(bridge.to_tvm_ffi(toolbox["add3"]), 1, 2, 3) == 6
    make_adder = from_ffi(lambda a: tvm_ffi.convert(lambda b: a + b))
    assert make_adder(3)(4) == 7
    assert to_ffi(lambda a: packed(lambda b: a * b))(3)(4) == 12


def test_function_that_returns_to_its_side_is_the_same(toolbox):
    add3 = toolbox["add3"]
    assert bridge.from_tvm_ffi(bridge.to_tvm_ffi(add3)) == add3
    function = tvm_ffi.convert(lambda: 1)
    assert bridge.to_tvm_ffi(bridge.from_tvm_ffi(function)).same_as(function)
    assert to_ffi(lambda f: f == add3)(bridge.to_tvm_ffi(add3)) == 1
    assert from_ffi(lambda f: f)(add3) == add3


def test_nested_calls_across_both_borders():
    def classic(depth):
        return 0 if depth == 0 else 1 + other(depth - 1)

    def modern(depth):
        return 0 if depth == 0 else 1 + back(depth - 1)

    other, back = bridge.from_tvm_ffi(tvm_ffi.convert(modern)), to_ffi(classic)
    assert back(60) == 60
    assert other(61) == 61


# ---- errors ----

KINDS = [ValueError, TypeError, IndexError, RuntimeError, MemoryError, NotImplementedError, OSError]


@pytest.mark.parametrize("side", [to_ffi, from_ffi])
@pytest.mark.parametrize("kind", KINDS)
def test_exception_keeps_its_kind_and_message(side, kind):
    def function():
        raise kind("axis: 7 of 4")

    with pytest.raises(kind, match="axis: 7 of 4") as caught:
        side(function)()
    assert type(caught.value) is kind


@pytest.mark.parametrize("side", [to_ffi, from_ffi])
@pytest.mark.parametrize("kind", [tvmrt.TVMError, tvmrt.error.CompileError])
def test_own_exceptions_cross_too(side, kind):
    def function():
        raise kind("no such layer")

    with pytest.raises(kind, match=r"^no such layer$") as caught:
        side(function)()
    assert type(caught.value) is kind


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("ValueError: bad axis", ValueError, "bad axis"),
        ("plain text", tvmrt.TVMError, "plain text"),
        ("net.so: no such file", tvmrt.TVMError, "net.so: no such file"),
        ("conv1: bad stride", tvmrt.TVMError, "conv1: bad stride"),
        ("Error", tvmrt.TVMError, "Error"),
        ("", tvmrt.TVMError, ""),
        ("x" * 9000, tvmrt.TVMError, "x" * 9000),
        ("ValueError: " + "x" * 9000, ValueError, "x" * 9000),
    ],
    ids=["kind", "plain", "file", "layer", "no-colon", "empty", "long", "long-message"],
)
def test_text_of_a_library_function(toolbox, text, kind, message):
    function = bridge.to_tvm_ffi(toolbox["raise_error"])
    with pytest.raises(kind) as caught:
        function(text)
    assert str(caught.value) == message


def test_unknown_kind_stays_in_the_text(toolbox):
    class OutOfStockError(Exception):
        pass

    tvm_ffi.register_error("shop.OutOfStockError", OutOfStockError)

    def function():
        raise OutOfStockError("no shoes")

    with pytest.raises(tvmrt.TVMError, match=r"^shop\.OutOfStockError: no shoes$"):
        from_ffi(function)()
    with pytest.raises(OutOfStockError, match=r"^no shoes$"):  # there and back
        bridge.to_tvm_ffi(toolbox["raise_error"])("shop.OutOfStockError: no shoes")


def test_error_passes_through_all_borders():
    def innermost():
        raise IndexError("17")

    inner = to_ffi(innermost)
    middle = from_ffi(lambda value: inner() + value)
    outer = to_ffi(lambda value: middle(value) + value)
    with pytest.raises(IndexError, match=r"^17$"):
        outer(1)


@pytest.mark.parametrize("side", [to_ffi, from_ffi])
def test_call_works_after_an_error(side):
    def function(value):
        if value == 0:
            raise ValueError("zero")
        return value

    crossed = side(function)
    with pytest.raises(ValueError, match="zero"):
        crossed(0)
    assert crossed(5) == 5


# ---- lifetimes ----


class Payload:
    """A callable that can be watched."""

    def __call__(self, *args):
        return len(args)


@pytest.mark.parametrize("side", [to_ffi, from_ffi])
def test_function_keeps_what_it_calls(side):
    payload = Payload()
    watch = weakref.ref(payload)
    function = side(payload)
    del payload
    gc.collect()
    assert function(1, 2) == 2
    del function
    gc.collect()
    assert watch() is None


@pytest.mark.parametrize("side", [to_ffi, from_ffi])
def test_temporary_argument_is_released_after_the_call(side):
    payload = Payload()
    watch = weakref.ref(payload)
    assert side(lambda f: f(1))(payload) == 1
    del payload
    gc.collect()
    assert watch() is None


@pytest.mark.parametrize("side", [to_ffi, from_ffi])
def test_kept_function_argument_stays(side):
    kept = []
    payload = Payload()
    watch = weakref.ref(payload)
    side(kept.append)(payload)
    del payload
    gc.collect()
    assert kept[0](1, 2, 3) == 3
    kept.clear()
    gc.collect()
    assert watch() is None


def test_unwrapped_function_is_released():
    payload = Payload()
    watch = weakref.ref(payload)
    function = packed(payload)
    again = bridge.from_tvm_ffi(bridge.to_tvm_ffi(function))
    del function, payload
    gc.collect()
    assert again() == 0
    del again
    gc.collect()
    assert watch() is None


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


def strong_references(ffi_object) -> int:
    return ctypes.c_uint32.from_address(ffi_object.__chandle__()).value


def fail(*args):
    raise ValueError("no")


ARGUMENTS = {
    "none": lambda: None,
    "long-str": lambda: "a text on the heap",
    "bytes": lambda: b"ab",
    "long-bytes": lambda: b"bytes on the heap",
    "array": lambda: ffi_tensor(aligned(4)),
    "view": lambda: ffi_tensor(aligned(4, offset=4)),
    "function": lambda: tvm_ffi.convert(lambda: None),
}


@pytest.mark.parametrize("end", [lambda *args: None, fail], ids=["returns", "fails"])
@pytest.mark.parametrize("name", ["array", "view", "function"])
def test_references_of_arguments_are_given_back(name, end):
    argument, function = ARGUMENTS[name](), to_ffi(end)
    before = strong_references(argument)
    for _ in range(3):
        try:
            function(argument, argument)
        except ValueError:
            pass
    assert strong_references(argument) == before


def test_references_are_given_back_when_a_later_argument_is_refused():
    argument = ARGUMENTS["array"]()
    before = strong_references(argument)
    with pytest.raises(TypeError, match="argument 9"):
        to_ffi(len)(*[argument] * 9, [1])
    assert strong_references(argument) == before


class MallInfo(ctypes.Structure):
    """struct mallinfo2 of glibc."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks".split()
    ] + [("keepcost", ctypes.c_size_t)]


def heap_bytes() -> int:
    """Bytes that are taken of malloc()'s heap."""
    mallinfo = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if mallinfo is None:
        pytest.skip("this C library does not count its heap")
    mallinfo.restype = MallInfo
    gc.collect()
    return mallinfo().uordblks


def _fail_with(side, value):
    with pytest.raises(ValueError, match="no"):
        side(fail)(value)


@pytest.mark.parametrize("side", [to_ffi, from_ffi])
@pytest.mark.parametrize("end", ["returns", "fails", "many"])
@pytest.mark.parametrize("name", ARGUMENTS)
def test_calls_leave_nothing_on_the_heap(side, end, name):
    make = ARGUMENTS[name]
    if side is from_ffi:  # what the classic side hands over
        value = make()
        known = isinstance(value, (tvm_ffi.Tensor, tvm_ffi.Function))
        argument = bridge.from_tvm_ffi(value) if known else value
    else:
        argument = make()
    rounds = 400

    def once():
        if end == "fails":
            _fail_with(side, argument)
        elif end == "many":
            side(lambda *args: None)(*[argument] * 12)
        else:
            side(lambda x: x)(argument)

    for _ in range(50):
        once()
    before = heap_bytes()
    for _ in range(rounds):
        once()
    assert heap_bytes() - before < rounds * 8  # less than the smallest block a round


def test_moved_argument_is_released():
    function = from_ffi(lambda text: None)

    def once():
        function(tvmrt.runtime.ObjectRValueRef(string_object("a text on the heap")))

    for _ in range(500):  # Python fills caches of its own
        once()
    before = heap_bytes()
    for _ in range(2000):
        once()
    assert heap_bytes() - before < 2000 * 8


# ---- threads ----


def test_calls_from_many_threads(toolbox):
    add3 = bridge.to_tvm_ffi(toolbox["add3"])
    increment, failures = from_ffi(lambda x: x + 1), []
    apply = to_ffi(lambda f, x: f(x))

    def work(number):
        for i in range(200):
            right = (number + i + 1, i + 1, 2 * i)
            if (add3(number, i, 1), increment(i), apply(lambda x: 2 * x, i)) != right:
                failures.append((number, i))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_function_of_tvm_ffi_on_a_foreign_thread(toolbox):
    assert toolbox["call_on_thread"](from_ffi(lambda x: x + 1)) == 21


def test_exception_on_a_foreign_thread(toolbox):
    def function(value):
        raise ValueError(f"no {value}")

    with pytest.raises(ValueError, match="no 20"):
        toolbox["call_on_thread"](from_ffi(function))


# ---- by address, without Python ----


def test_safe_call_of_a_classic_function(calls, toolbox):
    call = bridge.safe_call(toolbox["add3"])
    assert calls.run_safe_call(call.address, call.handle) == 60


def test_safe_call_through_a_function_of_tvm_ffi_and_back(calls, toolbox):
    """Classic C, seen by tvm-ffi, seen by the classic side, called by tvm-ffi: still no Python."""
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
        "run_safe_call": _tvm_ffi_bridge.SAFE_CALL,
        "run_packed_call": _tvm_ffi_bridge.PACKED_CALL,
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


def test_owner_of_a_packed_call_is_kept(toolbox_path):
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


# ---- misuse, and what may be missing ----


@pytest.mark.parametrize("value", [3, "text", None, len], ids=["int", "str", "none", "callable"])
def test_only_functions_and_tensors_convert(value):
    with pytest.raises(TypeError, match=f"not a {type(value).__name__}"):
        bridge.to_tvm_ffi(value)
    with pytest.raises(TypeError, match=f"not a {type(value).__name__}"):
        bridge.from_tvm_ffi(value)


@pytest.mark.parametrize(
    "call",
    [
        lambda: tvm_ffi.get_global_func("tvmrt.from_packed_func")(3),
        tvm_ffi.get_global_func("tvmrt.from_packed_func"),
        lambda: tvm_ffi.get_global_func("tvmrt.from_c_packed_func")(None, None, None),
        lambda: tvmrt.get_global_func("tvmrt.tvm_ffi.from_function")("text"),
        tvmrt.get_global_func("tvmrt.tvm_ffi.from_function"),
        lambda: tvmrt.get_global_func("tvmrt.tvm_ffi.from_safe_call")(None, None, None),
    ],
    ids=["packed-int", "packed-none", "c-packed-null", "text", "nothing", "safe-call-null"],
)
def test_makers_refuse_what_is_no_address(call):
    with pytest.raises(TypeError, match="takes the address"):
        call()


def import_afresh():
    spec = importlib.util.spec_from_file_location("tvmrt.contrib.again", bridge.__file__)
    spec.loader.exec_module(importlib.util.module_from_spec(spec))


def test_missing_package_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "tvm_ffi", None)
    with pytest.raises(ImportError, match=r"needs the package apache-tvm-ffi: pip install"):
        import_afresh()


def test_unknown_version_is_refused(tmp_path):
    source = tmp_path / "newer.c"
    source.write_text(
        "void TVMFFIGetVersion(unsigned* v) { v[0] = 9; v[1] = 8; v[2] = 7; }\n", encoding="ascii"
    )
    library = compile_c(source, tmp_path / "newer.so")
    with pytest.raises(ImportError, match=r"newer\.so is version 9\.8\.7 of tvm-ffi.*install 0\.1"):
        _tvm_ffi_bridge.open(library)


def test_library_without_the_functions_is_refused(tmp_path):
    source = tmp_path / "part.c"
    source.write_text(
        "void TVMFFIGetVersion(unsigned* v) { v[0] = 0; v[1] = 1; v[2] = 0; }\n", encoding="ascii"
    )
    library = compile_c(source, tmp_path / "part.so")
    with pytest.raises(ImportError, match="has no function TVMFFIObjectIncRef"):
        _tvm_ffi_bridge.open(library)


def test_missing_library_is_said(tmp_path):
    with pytest.raises(ImportError, match=r"cannot be loaded: .*nowhere\.so"):
        _tvm_ffi_bridge.open(tmp_path / "nowhere.so")


def test_bridge_works_after_a_refusal(tmp_path, toolbox):
    with pytest.raises(ImportError):
        _tvm_ffi_bridge.open(tmp_path / "nowhere.so")
    assert bridge.to_tvm_ffi(toolbox["add3"])(1, 2, 3) == 6


def test_package_does_not_need_tvm_ffi():
    code = "import tvmrt, tvmrt.runtime, tvmrt.contrib, sys; assert 'tvm_ffi' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
