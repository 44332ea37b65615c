"""Test libraries that export tvm-ffi functions, loaded by tvmrt in a process without tvm-ffi."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import tvmrt

# How the library finds the function that raises an error.
WAYS = {"weak": 1, "strong": 2, "variable": 3}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ffi")
    source = Path(__file__).with_name("ffi_library.c")
    made = {way: (f"-DRAISE={number}",) for way, number in WAYS.items()}
    made |= {"silent": ("-DRAISE=4",), "unknown": ("-DRAISE=2", "-DUNKNOWN")}
    for name, flags in made.items():
        command = ["cc", "-O1", "-Wall", "-shared", "-fPIC", *flags, str(source)]
        subprocess.run([*command, "-o", str(folder / f"{name}.so")], check=True)
    return {name: folder / f"{name}.so" for name in made}


def run_alone(script: str, *arguments: object) -> str:
    """Run a script in its own process, without tvm_ffi imported, and return its output."""
    command = [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_library_runs_and_raises_without_tvm_ffi(built):
    script = """
        import sys
        import numpy as np
        import tvmrt

        for path in sys.argv[1:]:
            module = tvmrt.runtime.load_module(path)
            a, out = tvmrt.nd.array(np.ones(4, np.float32)), tvmrt.nd.empty((4,))
            module["add"](a, np.arange(4, dtype=np.float32), out)
            print(out.numpy().tolist(), module["same"]("a longer text"), module["short_text"]())
            print([module["index_of"](v) for v in (None, 1, 2.5, "abc", b"x", a, tvmrt.cpu())])
            print(module(), module["same"]([1, {"a": 2}]), module["same"](a).numpy()[0])
            for arguments in (("the text",), ()):
                try:
                    module["raises"](*arguments)
                except IndexError as error:
                    print(error)
        assert "tvm_ffi" not in sys.modules
    """
    once = (
        "[1.0, 2.0, 3.0, 4.0] a longer text seven\n"
        "[0, 1, 3, 8, 9, 70, 6]\n"
        "1234 [1, {'a': 2}] 1.0\n"
        "the text\n"
        "no text\n"
    )
    assert run_alone(script, *[built[way] for way in WAYS]) == once * len(WAYS)


def test_library_that_raises_nothing_is_an_error(built):
    module = tvmrt.runtime.load_module(str(built["silent"]))
    with pytest.raises(tvmrt.TVMError, match="failed without an error"):
        module["raises"]()


def test_exported_function_goes_before_a_symbol_of_its_name(built):
    module = tvmrt.runtime.load_module(str(built["weak"]))
    assert module["same"](2.5) == 2.5  # the C function same(int) is not a packed function
    assert module.implements_function("same")
    assert not module.implements_function("other")


def test_library_that_needs_more_of_tvm_ffi_is_refused(built):
    script = """
        import sys
        import tvmrt
        try:
            tvmrt.runtime.load_module(sys.argv[1])
        except OSError as error:
            print(error)
    """
    said = run_alone(script, built["unknown"])
    assert "needs the library of tvm-ffi, for TVMFFIObjectCreateOpaque: install" in said


def test_tvm_ffi_may_come_later(built):
    """Functions bound before tvm-ffi is imported raise errors where tvm-ffi looks for them."""
    pytest.importorskip("tvm_ffi")
    script = """
        import sys
        import tvmrt
        modules = [tvmrt.runtime.load_module(path) for path in sys.argv[1:]]
        import tvm_ffi
        for call in [tvm_ffi.load_module(path).raises for path in sys.argv[1:]] + [
            module["raises"] for module in modules
        ]:
            try:
                call("text")
            except IndexError as error:
                print(error)
        assert tvm_ffi.convert(lambda: 7)() == 7
    """
    assert run_alone(script, built["weak"], built["strong"]) == "no text\n" * 2 + "text\n" * 2


CXX = """
#include <tvm/ffi/tvm_ffi.h>
namespace ffi = tvm::ffi;

void AddOne(ffi::TensorView x, ffi::TensorView y) {
  if (x.ndim() != 1) TVM_FFI_THROW(ValueError) << "x has " << x.ndim() << " dimensions";
  for (int i = 0; i < x.size(0); i++) ((float*)y.data_ptr())[i] = ((float*)x.data_ptr())[i] + 1;
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(add_one, AddOne)
int64_t Apply(ffi::Function f, int64_t x) { return f(x).cast<int64_t>() + 1; }
TVM_FFI_DLL_EXPORT_TYPED_FUNC(apply, Apply)
ffi::Array<int64_t> Twice(ffi::Map<ffi::String, int64_t> map) {
  ffi::Array<int64_t> out;
  for (auto item : map) out.push_back(2 * item.second);
  return out;
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(twice, Twice)
"""


@pytest.mark.slow
def test_library_of_the_cpp_macro(tmp_path):
    tvm_ffi = pytest.importorskip("tvm_ffi")
    source = tmp_path / "cxx.cc"
    source.write_text(CXX, encoding="ascii")
    library = tmp_path / "cxx.so"
    flags = ["-std=c++17", "-w", "-shared", "-fPIC", f"-I{tvm_ffi.libinfo.find_include_path()}"]
    subprocess.run(["g++", *flags, str(source), "-o", str(library)], check=True)
    script = """
        import sys
        import numpy as np
        import tvmrt

        def bad(x):
            raise KeyError("k")

        module = tvmrt.runtime.load_module(sys.argv[1])
        x = tvmrt.nd.array(np.ones((2, 2), np.float32))
        out = tvmrt.nd.empty((2,))
        module["add_one"](np.arange(2, dtype=np.float32), out)
        print(out.numpy().tolist(), module["apply"](lambda x: 10 * x, 7))
        print(module["twice"]({"a": 1, "b": 4}))
        for call in (lambda: module["add_one"](x, out), lambda: module["apply"](bad, 1)):
            try:
                call()
            except (ValueError, KeyError) as error:
                print(type(error).__name__, error)
    """
    expected = "[1.0, 2.0] 71\n[2, 8]\nValueError x has 2 dimensions\nKeyError 'k'\n"
    assert run_alone(script, library) == expected
