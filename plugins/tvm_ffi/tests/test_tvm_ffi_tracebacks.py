"""Test the origin of tvm-ffi errors in tracebacks of callers of packed functions."""

from __future__ import annotations

import traceback

import pytest
from bridge_case import bridge, compile_c, from_ffi, packed

import tvmrt

# As the throwing C++ macro does.
SOURCE = """
#include <stdint.h>
#include <stddef.h>
typedef struct { const char* data; size_t size; } Bytes;
const Bytes* TVMFFIBacktrace(const char*, int, const char*, int);
int TVMFFIErrorCreate(const Bytes*, const Bytes*, const Bytes*, void**);
void TVMFFIErrorSetRaised(void*);
int TVMFFIObjectDecRef(void*);

static int lift(int weight) {
  static const Bytes kind = {"ValueError", 10}, text = {"too heavy", 9};
  void* error;
  if (weight < 10) return 0;
  TVMFFIErrorCreate(&kind, &text, TVMFFIBacktrace("crane.cc", 14, "lift(int)", 0), &error);
  TVMFFIErrorSetRaised(error);
  TVMFFIObjectDecRef(error);
  return -1;
}

int __tvm_ffi_lift(void* self, const int64_t* args, int32_t count, void* result) {
  (void)self, (void)count, (void)result;
  return lift((int)args[1]);
}
"""


def lines(error: BaseException) -> list[tuple[str, int | None, str]]:
    return [(f.filename, f.lineno, f.name) for f in traceback.extract_tb(error.__traceback__)]


@pytest.fixture(scope="module")
def lift(tmp_path_factory):
    folder = tmp_path_factory.mktemp("crane")
    (folder / "crane.c").write_text(SOURCE)
    path = compile_c(folder / "crane.c", folder / "crane.so")
    return tvmrt.runtime.load_module(str(path))["lift"]


def test_lines_of_a_library(lift):
    lift(5)
    with pytest.raises(ValueError, match=r"^too heavy$") as raised:
        lift(50)
    (here, _, caller), *inside = lines(raised.value)
    assert here == __file__ and caller == "test_lines_of_a_library"
    assert ("crane.cc", 14, "lift(int)") in inside


def test_traceback_of_python_called_through_tvm_ffi():
    def pick(key):
        return {}[key]

    def choose(key):
        return pick(key)

    with pytest.raises(KeyError, match="'k'") as raised:
        from_ffi(choose)("k")
    names = [name for _, _, name in lines(raised.value)]
    assert names == ["test_traceback_of_python_called_through_tvm_ffi", "choose", "pick"]
    assert "return {}[key]" in "".join(traceback.format_tb(raised.tb))


def test_traceback_crosses_both_sides(lift):
    """tvm-ffi calls a packed function, which calls a tvm-ffi function."""
    for _ in range(2):
        with pytest.raises(ValueError, match="too heavy") as raised:
            bridge.to_tvm_ffi(packed(lambda weight: lift(weight + 1)))(50)
        assert ("crane.cc", 14, "lift(int)") in lines(raised.value)


def test_error_has_no_traceback_of_another_error(lift):
    with pytest.raises(ValueError, match="too heavy"):
        lift(50)
    with pytest.raises(TypeError) as raised:
        tvmrt.get_global_func("runtime.ModuleLoadFromFile")(1, 2)
    assert [file for file, _, _ in lines(raised.value)] == [__file__]
