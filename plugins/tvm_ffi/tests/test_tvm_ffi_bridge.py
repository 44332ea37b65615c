"""Test the bridge to apache-tvm-ffi: functions, errors, threads, misuse."""

from __future__ import annotations

import ctypes
import importlib.util
import sys
import threading

import pytest
from bridge_case import both_sides, bridge, compile_c, from_ffi, packed, to_ffi, tvm_ffi

import tvmrt

# ---- functions ----


def test_functions_as_arguments_and_results(toolbox):
    apply = to_ffi(lambda f, *args: f(*args))
    assert apply(lambda a, b: a - b, 5, 3) == 2
    assert apply(bridge.to_tvm_ffi(toolbox["add3"]), 1, 2, 3) == 6
    make_adder = from_ffi(lambda a: tvm_ffi.convert(lambda b: a + b))
    assert make_adder(3)(4) == 7
    assert to_ffi(lambda a: packed(lambda b: a * b))(3)(4) == 12


def test_function_round_trip_is_identity(toolbox):
    add3 = toolbox["add3"]
    assert bridge.from_tvm_ffi(bridge.to_tvm_ffi(add3)) == add3
    function = tvm_ffi.convert(lambda: 1)
    assert bridge.to_tvm_ffi(bridge.from_tvm_ffi(function)).same_as(function)
    assert to_ffi(lambda f: f == add3)(bridge.to_tvm_ffi(add3)) == 1
    assert from_ffi(lambda f: f)(add3) == add3


def test_nested_calls_across_both_boundaries():
    def classic(depth):
        return 0 if depth == 0 else 1 + other(depth - 1)

    def modern(depth):
        return 0 if depth == 0 else 1 + back(depth - 1)

    other, back = bridge.from_tvm_ffi(tvm_ffi.convert(modern)), to_ffi(classic)
    assert back(60) == 60
    assert other(61) == 61


# ---- errors ----

KINDS = [ValueError, TypeError, IndexError, MemoryError, OSError, tvmrt.TVMError]
KINDS += [NotImplementedError, tvmrt.error.CompileError]


@both_sides
@pytest.mark.parametrize("kind", KINDS)
def test_exception_keeps_its_kind_and_message(side, kind):
    def function(value):
        if value:
            return value
        raise kind("axis: 7 of 4")

    crossed = side(function)
    with pytest.raises(kind, match=r"^axis: 7 of 4$") as caught:
        crossed(0)
    assert type(caught.value) is kind
    assert crossed(5) == 5, "after the error"


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("ValueError: bad axis", ValueError, "bad axis"),
        ("net.so: no such file", tvmrt.TVMError, "net.so: no such file"),
        ("conv1: bad stride", tvmrt.TVMError, "conv1: bad stride"),
        ("Error", tvmrt.TVMError, "Error"),
        ("", tvmrt.TVMError, ""),
        ("ValueError: " + "x" * 9000, ValueError, "x" * 9000),
    ],
    ids=["kind", "file", "layer", "no-colon", "empty", "long"],
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
    with pytest.raises(OutOfStockError, match=r"^no shoes$"):  # both directions
        bridge.to_tvm_ffi(toolbox["raise_error"])("shop.OutOfStockError: no shoes")


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
    def fails(value):
        raise ValueError(f"no {value}")

    assert toolbox["call_on_thread"](from_ffi(lambda x: x + 1)) == 21
    with pytest.raises(ValueError, match="no 20"):
        toolbox["call_on_thread"](from_ffi(fails))


# ---- misuse, and missing parts ----


@pytest.mark.parametrize("value", [3, "text", None, len], ids=["int", "str", "none", "callable"])
def test_only_functions_modules_and_tensors_convert(value):
    for convert in (bridge.to_tvm_ffi, bridge.from_tvm_ffi):
        with pytest.raises(TypeError, match=f"not a {type(value).__name__}"):
            convert(value)


@pytest.mark.parametrize("arguments", [("text",), (), (ctypes.c_void_p(), None)], ids=len)
@pytest.mark.parametrize("name", ["from_function", "from_safe_call"])
def test_invalid_addresses_are_refused(name, arguments):
    with pytest.raises(TypeError, match=f"tvmrt.tvm_ffi.{name} takes the address of a"):
        tvmrt.get_global_func(f"tvmrt.tvm_ffi.{name}")(*arguments)


def test_missing_package_is_reported(monkeypatch):
    monkeypatch.setitem(sys.modules, "tvm_ffi", None)
    spec = importlib.util.spec_from_file_location("tvmrt.contrib.again", bridge.__file__)
    with pytest.raises(ImportError, match=r"needs the package apache-tvm-ffi: pip install"):
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


@pytest.mark.parametrize(
    ("version", "text"),
    [
        ((9, 8, 7), r"other\.so is version 9\.8\.7 of tvm-ffi.*install 0\.1"),
        ((0, 1, 0), "has no function TVMFFIFunctionCreate: it is not libtvm_ffi 0.1"),
        (None, r"cannot be loaded: .*other\.so"),
    ],
    ids=["newer", "incomplete", "missing"],
)
def test_other_library_is_refused(tmp_path, toolbox, version, text):
    library = tmp_path / "other.so"
    if version is not None:
        numbers = " ".join(f"v[{i}] = {part};" for i, part in enumerate(version))
        source = tmp_path / "other.c"
        source.write_text(f"void TVMFFIGetVersion(unsigned* v) {{ {numbers} }}\n", "ascii")
        compile_c(source, library)
    with pytest.raises(ImportError, match=text):
        bridge._load(library)
    assert bridge.to_tvm_ffi(toolbox["add3"])(1, 2, 3) == 6, "the first library stays in use"
