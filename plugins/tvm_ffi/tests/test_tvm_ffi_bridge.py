"""Test the bridge to apache-tvm-ffi: functions, errors, lifetimes, threads, misuse."""

from __future__ import annotations

import ctypes
import gc
import importlib.util
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest
from bridge_case import (
    Payload,
    aligned,
    bridge,
    compile_c,
    ffi_tensor,
    from_ffi,
    packed,
    string_object,
    strong_references,
    to_ffi,
    tvm_ffi,
)

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
@pytest.mark.parametrize("key", ["k3", "it's", "two\nlines", "", "'", 7])
def test_key_error_has_its_key(side, key):
    def function():
        raise KeyError(key)

    with pytest.raises(KeyError) as caught:
        side(function)()
    assert str(caught.value) in (str(KeyError(key)), str(KeyError(str(key))))


@pytest.mark.parametrize("side", [to_ffi, from_ffi])
@pytest.mark.parametrize("kind", [tvmrt.TVMError, tvmrt.error.CompileError])
def test_custom_exceptions_cross_the_boundary(side, kind):
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
    with pytest.raises(OutOfStockError, match=r"^no shoes$"):  # both directions
        bridge.to_tvm_ffi(toolbox["raise_error"])("shop.OutOfStockError: no shoes")


def test_error_passes_through_all_boundaries():
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
def test_referenced_function_argument_stays(side):
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
        to_ffi(len)(*[argument] * 9, object())
    assert strong_references(argument) == before


class MallInfo(ctypes.Structure):
    """struct mallinfo2 of glibc."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks".split()
    ] + [("keepcost", ctypes.c_size_t)]


def heap_bytes() -> int:
    """Return the bytes allocated on malloc()'s heap."""
    mallinfo = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if mallinfo is None:
        pytest.skip("this C library does not count its heap")
    mallinfo.restype = MallInfo
    gc.collect()
    return mallinfo().uordblks


def assert_heap_stays(once, rounds):
    """Repeat a function and check that the heap does not grow with each iteration."""
    grown = []
    for _ in range(3):
        before = heap_bytes()
        for _ in range(rounds):
            once()
        grown.append(heap_bytes() - before)
        if grown[-1] < rounds * 8:  # less than the smallest block per iteration
            return
    pytest.fail(f"{grown} bytes stay of {rounds} calls each")


def _fail_with(side, value):
    with pytest.raises(ValueError, match="no"):
        side(fail)(value)


@pytest.mark.everyday(2)
@pytest.mark.parametrize("side", [to_ffi, from_ffi])
@pytest.mark.parametrize("end", ["returns", "fails", "many"])
@pytest.mark.parametrize("name", ARGUMENTS)
def test_calls_do_not_leak_memory(side, end, name):
    make = ARGUMENTS[name]
    if side is from_ffi:  # objects that the classic side passes
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
    assert_heap_stays(once, rounds)


def test_moved_argument_is_released():
    function = from_ffi(lambda text: None)

    def once():
        function(tvmrt.runtime.ObjectRValueRef(string_object("a text on the heap")))

    for _ in range(500):  # Python fills caches of its own
        once()
    assert_heap_stays(once, 2000)


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


# ---- misuse, and missing parts ----


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
def test_makers_refuse_invalid_addresses(call):
    with pytest.raises(TypeError, match=r"takes the address|expects a .* address"):
        call()


def test_runtime_requests_to_the_bridge_are_checked():
    for name, text in (("join", "the path of libtvm_ffi"), ("address", "the name of a function")):
        for arguments in ((), (1,)):
            with pytest.raises(TypeError, match=f"tvmrt.tvm_ffi.{name} takes {text}"):
                tvmrt.get_global_func(f"tvmrt.tvm_ffi.{name}")(*arguments)


def import_afresh():
    spec = importlib.util.spec_from_file_location("tvmrt.contrib.again", bridge.__file__)
    spec.loader.exec_module(importlib.util.module_from_spec(spec))


def test_missing_package_is_reported(monkeypatch):
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
        bridge._join(library)


def test_library_without_the_functions_is_refused(tmp_path):
    source = tmp_path / "part.c"
    source.write_text(
        "void TVMFFIGetVersion(unsigned* v) { v[0] = 0; v[1] = 1; v[2] = 0; }\n", encoding="ascii"
    )
    library = compile_c(source, tmp_path / "part.so")
    with pytest.raises(ImportError, match="has no function TVMFFIFunctionCreate"):
        bridge._join(library)


def test_missing_library_is_reported(tmp_path):
    with pytest.raises(ImportError, match=r"cannot be loaded: .*nowhere\.so"):
        bridge._join(tmp_path / "nowhere.so")


def test_bridge_works_after_a_refusal(tmp_path, toolbox):
    with pytest.raises(ImportError):
        bridge._join(tmp_path / "nowhere.so")
    assert bridge.to_tvm_ffi(toolbox["add3"])(1, 2, 3) == 6


def test_package_does_not_need_tvm_ffi():
    code = "import tvmrt, tvmrt.runtime, tvmrt.contrib, sys; assert 'tvm_ffi' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
