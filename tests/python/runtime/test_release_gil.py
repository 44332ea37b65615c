"""PackedFunc.release_gil: calls that keep the GIL, and their effects."""

from __future__ import annotations

import ctypes
import subprocess
import threading
import time

import pytest

import tvmrt


def test_default_and_setting_belong_to_the_object(toolbox):
    one, other = toolbox["add3"], toolbox["add3"]
    assert one.release_gil
    one.release_gil = False
    assert not one.release_gil
    assert other.release_gil
    assert one(1, 2, 3) == other(1, 2, 3) == 6
    with pytest.raises(AttributeError, match="cannot be deleted"):
        del one.release_gil


def test_module_setting_applies_to_functions_fetched_later(toolbox):
    before = toolbox["add3"]
    toolbox.release_gil = False
    try:
        assert not toolbox.release_gil
        assert not toolbox["add3"].release_gil
        assert before.release_gil
    finally:
        toolbox.release_gil = True
    assert toolbox["add3"].release_gil


def test_short_functions_of_the_runtime_keep_it():
    assert not tvmrt.get_global_func("runtime.ArraySize").release_gil
    assert tvmrt.get_global_func("runtime.ModuleLoadFromFile").release_gil
    tvmrt.register_func("test.gil.ArraySize", lambda: 1, override=True)
    assert tvmrt.get_global_func("test.gil.ArraySize").release_gil


# Sleep until another thread has ticked, for a limited number of iterations.
NAP = """
#include <unistd.h>
volatile int ticks, seen, rounds;
int nap(void* a, int* b, int c, void* d, int* e, void* f) {
  const int before = ticks;
  int i;
  for (i = 0; i < rounds && ticks == before; ++i) (void)usleep(4000);
  seen = ticks - before;
  return 0;
}
"""


@pytest.mark.parametrize("release", [True, False])
def test_other_threads_run_only_where_it_is_released(tmp_path, release):
    source = tmp_path / "nap.c"
    source.write_text(NAP, encoding="ascii")
    library = tmp_path / "nap.so"
    subprocess.run(["cc", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    nap = tvmrt.runtime.load_module(str(library))["nap"]
    nap.release_gil = release
    shared = ctypes.CDLL(str(library))
    ticks, seen, rounds = (
        ctypes.c_int.in_dll(shared, name) for name in ("ticks", "seen", "rounds")
    )
    rounds.value = 5000 if release else 50
    done = threading.Event()

    def tick():
        while not done.is_set():
            ticks.value += 1
            time.sleep(0.002)

    thread = threading.Thread(target=tick)
    thread.start()
    nap()
    done.set()
    thread.join()
    assert (seen.value > 0) == release


def test_callbacks_and_their_exceptions_come_through(toolbox):
    """Python within C within Python, with the GIL kept or released in every order."""
    error = ValueError("from within")

    def fail(*_):
        raise error

    for outer in (True, False):
        for inner in (True, False):
            call = tvmrt.runtime.convert_to_tvm_func(lambda f, x: f(x))
            twice = tvmrt.runtime.convert_to_tvm_func(lambda x: 2 * x)
            broken = tvmrt.runtime.convert_to_tvm_func(fail)
            call.release_gil, twice.release_gil, broken.release_gil = outer, inner, inner
            assert call(twice, 21) == 42
            with pytest.raises(ValueError, match="from within") as caught:
                call(broken, 1)
            assert caught.value is error
            assert call(twice, 4) == 8
