"""The package in a process: import time, imported modules, fork, interpreter exit."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import time

import libraries
import numpy as np
import pytest

import tvmrt
from tvmrt.runtime.executor import GraphModule


def run(program: str, *args: object) -> str:
    """Run a program in a fresh interpreter and return what it prints."""
    command = [sys.executable, "-c", program, *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def seconds(program: str) -> float:
    """Return the processor time of a fresh interpreter."""
    child = os.posix_spawn(sys.executable, [sys.executable, "-c", program], os.environ)
    _, status, usage = os.wait4(child, 0)
    assert status == 0
    return usage.ru_utime + usage.ru_stime


@pytest.mark.slow
def test_import_is_fast_compared_with_numpy():
    """Relative to numpy's import time, since a busy machine slows down both."""
    programs = ("pass", "import numpy", "import tvmrt", "import tvmrt; tvmrt.nd; tvmrt.runtime")
    rounds = [[seconds(program) for program in programs] for _ in range(7)]
    bare, numpy, package, runtime = (min(times) for times in zip(*rounds))
    assert package - bare < 0.5 * (numpy - bare)
    assert runtime - numpy < 1.0 * (numpy - bare)


def test_runtime_imports_neither_onnx_nor_the_compiler():
    program = (
        "import sys, tvmrt, tvmrt.runtime.executor, tvmrt.contrib.graph_executor\n"
        "tvmrt.nd.empty((1,))\n"
        "print(' '.join(sys.modules))"
    )
    loaded = run(program).split()
    forbidden = {"onnx", "click", "rich", "tvmrt.compiler", "tvmrt.devices", "tvmrt.cli"}
    assert not forbidden & set(loaded)


def test_package_imports_without_the_runtime():
    program = "import sys, tvmrt; tvmrt.TVMError; print('tvmrt.runtime' in sys.modules)"
    assert run(program).strip() == "False"


def test_unknown_attribute():
    with pytest.raises(AttributeError, match="colour"):
        _ = tvmrt.colour


def test_every_public_name_is_there():
    for module in (tvmrt, tvmrt.runtime, tvmrt.nd):
        for name in module.__all__:
            if name != "compile":
                assert hasattr(module, name), (module.__name__, name)


def in_child(function):
    """Call a function in a forked child and return its exit code."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if function() else 2
        finally:
            os._exit(code)
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return "hangs"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_fork_after_use(graph_library, toolbox):
    library = tvmrt.runtime.load_module(graph_library)
    executor = GraphModule(library["default"](tvmrt.cpu(0)))
    x = np.ones((2, 3), np.float32)
    executor.run(x=x)

    def work():
        executor.run(x=x + 1)
        right = np.allclose(executor.get_output(0).numpy(), libraries.expected(x + 1)[0])
        return right and toolbox["call"](lambda a: a + 1, 1) == 2

    assert in_child(work) == 0
    executor.run(x=x)
    np.testing.assert_allclose(executor.get_output(0).numpy(), libraries.expected(x)[0])


def square_sum(module: tvmrt.runtime.Module, x: np.ndarray) -> float:
    """Run a shipped network; called in another process."""
    executor = GraphModule(module["default"](tvmrt.cpu(0)))
    executor.run(x=x)
    return float(executor.get_output(0).numpy().sum())


@pytest.mark.parametrize("method", ["spawn", "fork"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_multiprocessing_ships_modules(graph_library, method):
    library = tvmrt.runtime.load_module(graph_library)
    x = np.ones((2, 3), np.float32)
    context = multiprocessing.get_context(method)
    with context.Pool(1) as pool:
        result = pool.apply_async(square_sum, (library, x)).get(timeout=300)
    assert result == pytest.approx(libraries.expected(x)[0].sum())


def test_clean_exit_with_everything_alive(graph_library):
    program = (
        "import sys, numpy as np, tvmrt, threading\n"
        "library = tvmrt.runtime.load_module(sys.argv[1])\n"
        "ex = tvmrt.contrib.graph_executor.GraphModule(library['default'](tvmrt.cpu(0)))\n"
        "ex.run(x=np.ones((2, 3), np.float32))\n"
        "tvmrt.register_func('exit.closure', lambda: ex)\n"
        "array = np.from_dlpack(tvmrt.nd.from_dlpack(np.zeros(5)))\n"
        "cycle = [ex]; cycle.append(cycle)\n"
        "print('done')\n"
    )
    assert run(program, graph_library).strip() == "done"


# an editable installation starts a build process at each import; others start none
@pytest.mark.skipif(
    any(hasattr(finder, "_build_cmd") for finder in sys.meta_path),
    reason="an editable installation starts processes, which no subinterpreter may",
)
def test_a_subinterpreter_is_refused():
    program = (
        "import importlib, sys, tvmrt, tvmrt.runtime\n"
        "name = '_interpreters' if sys.version_info >= (3, 13) else '_xxsubinterpreters'\n"
        "interpreters = importlib.import_module(name)\n"
        "attempt = 'try: import tvmrt.runtime\\nexcept ImportError as e: print(e, flush=True)'\n"
        "for _ in range(2):\n"
        "    other = interpreters.create()\n"
        "    interpreters.run_string(other, attempt)\n"
        "    interpreters.destroy(other)\n"
        "assert type(tvmrt.nd.empty((1,))) is tvmrt.nd.NDArray\n"
        "print(tvmrt.runtime.convert_to_tvm_func(lambda x: x + 1)(1))\n"
    )
    first, second, last = run(program).splitlines()
    assert first == second and "interpreter" in first
    assert last == "2"


def test_exported_memory_is_returned_without_the_gil():
    program = (
        "import ctypes, importlib, sys, tvmrt, tvmrt.runtime\n"
        "name = '_interpreters' if sys.version_info >= (3, 13) else '_xxsubinterpreters'\n"
        "interpreters = importlib.import_module(name)\n"
        "interpreters.destroy(interpreters.create())  # Python stops to tell who has the GIL\n"
        "address_of = ctypes.pythonapi.PyCapsule_GetPointer\n"
        "address_of.restype = ctypes.c_void_p\n"
        "address_of.argtypes = [ctypes.py_object, ctypes.c_char_p]\n"
        "rename = ctypes.pythonapi.PyCapsule_SetName\n"
        "rename.argtypes = [ctypes.py_object, ctypes.c_char_p]\n"
        "used = b'used_dltensor'\n"
        "for _ in range(200):\n"
        "    capsule = tvmrt.nd.empty((1,)).to_dlpack()\n"
        "    managed = address_of(capsule, b'dltensor')\n"
        "    rename(capsule, used)\n"
        "    deleter = ctypes.c_void_p.from_address(managed + 56).value\n"
        "    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(deleter)(managed)\n"
        "print('done')\n"
    )
    assert run(program).strip() == "done"


def test_library_calls_functions_of_the_registry(toolbox_path, tmp_path):
    copy = tmp_path / "copy.so"
    copy.write_bytes(toolbox_path.read_bytes())
    module = tvmrt.runtime.load_module(copy)
    assert module["call_global"]("runtime.RuntimeEnabled", "cpu") == 1


def test_no_memory_is_lost_by_calls(toolbox):
    def use():
        toolbox["call"](lambda t: t, tvmrt.nd.empty((64, 64)))
        np.from_dlpack(tvmrt.nd.from_dlpack(np.zeros((64, 64), np.float32)))
        tvmrt.nd.array(np.zeros((64, 64), np.float32)).numpy()
        with pytest.raises(ValueError, match="x"):
            toolbox["raise_error"]("ValueError: x")

    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    for _ in range(200):
        use()
    before = resident()
    for _ in range(2000):
        use()
    assert resident() - before < 8 << 20  # one leaked tensor per iteration would be 32 MiB
