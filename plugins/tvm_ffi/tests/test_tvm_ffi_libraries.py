"""Test libraries that export tvm-ffi functions, loaded by tvmrt, with and without libtvm_ffi."""

from __future__ import annotations

import subprocess

import pytest
from bridge_case import SOURCE, compile_c, run_alone, tvm_ffi

import tvmrt

# How the library finds the function that raises an error.
WAYS = {"weak": 1, "strong": 2, "variable": 3}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ffi")
    return {
        way: compile_c(SOURCE, folder / f"{way}.so", f"-DRAISE={number}")
        for way, number in WAYS.items()
    }


def test_library_runs_and_raises(built):
    script = """
        import sys
        import numpy as np
        import tvm_ffi
        import tvmrt

        for path in sys.argv[1:]:
            module = tvmrt.runtime.load_module(path)
            a, out = tvmrt.nd.array(np.ones(4, np.float32)), tvmrt.nd.empty((4,))
            module["add"](a, np.arange(4, dtype=np.float32), out)
            print(out.numpy().tolist(), module["same"]("a longer text"))
            print([module["index_of"](v) for v in (None, 1, 2.5, "abc", b"x", a, tvmrt.cpu())])
            print(module(), module["same"]([1, ["a"]]), module["same"](a).numpy()[0])
            for arguments in (("the text",), ()):
                try:
                    module["raises"](*arguments)
                except IndexError as error:
                    print(error)
    """
    once = (
        "[1.0, 2.0, 3.0, 4.0] a longer text\n"
        "[0, 1, 3, 8, 9, 70, 6]\n"
        "1234 [1, ['a']] 1.0\n"
        "the text\n"
        "no text\n"
    )
    assert run_alone(script, *[built[way] for way in WAYS]) == once * len(WAYS)


def test_exported_function_goes_before_a_symbol_of_its_name(built):
    module = tvmrt.runtime.load_module(str(built["weak"]))
    assert module["same"](2.5) == 2.5  # the C function same(int) is not a packed function
    assert module.implements_function("same")
    assert not module.implements_function("other")


WITHOUT = """
    import sys
    import tvmrt
    for path in sys.argv[1:]:
        try:
            tvmrt.runtime.load_module(path)["same"]
        except OSError as error:
            print(error)
"""


def test_missing_libtvm_ffi_is_reported(built, tmp_path):
    """Libraries that cannot be bound are refused; others when they are called."""
    folder = tvm_ffi.libinfo.find_libtvm_ffi().rsplit("/", 1)[0]
    linked = compile_c(
        SOURCE,
        tmp_path / "linked.so",
        "-DRAISE=2",
        "-Wl,--no-as-needed",
        f"-L{folder}",
        "-ltvm_ffi",
    )
    weak, strong, variable, refused = run_alone(
        WITHOUT, built["weak"], built["strong"], built["variable"], linked
    ).splitlines()
    assert weak == variable
    assert weak.startswith("functions of tvm-ffi need libtvm_ffi.so, which this process has not")
    assert strong.startswith(f"{built['strong']} needs libtvm_ffi, which this process has not load")
    assert "TVMFFIErrorSetRaisedFromCStr" in strong
    assert refused.startswith(f"{linked} needs libtvm_ffi") and "cannot open shared ob" in refused
    for text in (weak, strong, refused):
        assert "pip install apache-tvm-ffi and import tvm_ffi" in text


def test_system_finds_libtvm_ffi(built, monkeypatch):
    """A program without Python's package needs the library only."""
    monkeypatch.setenv("LD_LIBRARY_PATH", tvm_ffi.libinfo.find_libtvm_ffi().rsplit("/", 1)[0])
    script = """
        import sys
        import tvmrt
        for path in sys.argv[1:]:
            try:
                tvmrt.runtime.load_module(path)["raises"]("text")
            except IndexError as error:
                print(error)
        assert "tvm_ffi" not in sys.modules
    """
    assert run_alone(script, *built.values()) == "text\n" * 3


def test_tvm_ffi_may_come_later(built):
    """A variable is set at the first look-up; a weak function that was missing stays missing."""
    script = """
        import sys
        import tvmrt
        modules = [tvmrt.runtime.load_module(path) for path in sys.argv[1:]]
        import tvm_ffi
        for module in modules:
            try:
                module["raises"]("text")
            except (IndexError, tvmrt.TVMError) as error:
                print(error)
        assert tvm_ffi.convert(lambda: 7)() == 7
    """
    late, found = run_alone(script, built["weak"], built["variable"]).splitlines()
    assert "failed without an error: if its library was loaded before libtvm_ffi, import" in late
    assert found == "text"


CXX = """
#include <tvm/ffi/tvm_ffi.h>
namespace ffi = tvm::ffi;

void AddOne(ffi::TensorView x, ffi::TensorView y) {
  if (x.ndim() != 1) TVM_FFI_THROW(ValueError) << "x has " << x.ndim() << " dimensions";
  for (int i = 0; i < x.size(0); i++) ((float*)y.data_ptr())[i] = ((float*)x.data_ptr())[i] + 1;
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(add_one, AddOne)
ffi::Array<int64_t> Twice(ffi::Array<int64_t> values) {
  ffi::Array<int64_t> out;
  for (int64_t value : values) out.push_back(2 * value);
  return out;
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(twice, Twice)
"""


@pytest.mark.slow
def test_library_of_the_cpp_macro(tmp_path):
    source = tmp_path / "cxx.cc"
    source.write_text(CXX, encoding="ascii")
    library = tmp_path / "cxx.so"
    flags = ["-std=c++17", "-w", "-shared", "-fPIC", f"-I{tvm_ffi.libinfo.find_include_path()}"]
    subprocess.run(["g++", *flags, str(source), "-o", str(library)], check=True)
    script = """
        import sys
        import numpy as np
        import tvm_ffi
        import tvmrt

        module = tvmrt.runtime.load_module(sys.argv[1])
        x = tvmrt.nd.array(np.ones((2, 2), np.float32))
        out = tvmrt.nd.empty((2,))
        module["add_one"](np.arange(2, dtype=np.float32), out)
        print(out.numpy().tolist(), module["twice"]([1, 4]))
        try:
            module["add_one"](x, out)
        except ValueError as error:
            print(error)
    """
    expected = "[1.0, 2.0] [2, 8]\nx has 2 dimensions\n"
    assert run_alone(script, library) == expected
