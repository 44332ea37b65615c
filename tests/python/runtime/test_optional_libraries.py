"""Rarely used parts of the runtime are separate libraries, loaded on demand."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tvmrt
from tvmrt.runtime import _library

ROOT = Path(__file__).parents[3]
RUNTIME = Path(_library.PATH)
PARTS = {"libtvmrt_named.so", "libtvmrt_regions.so", "libtvmrt_schedules.so"}
MAPPED = """
import re
def mapped():
    return sorted(set(re.findall(r"libtvmrt_\\w+\\.so", open("/proc/self/maps").read())))
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/maps")


def _mapped(program: str, *args: object) -> set[str]:
    """Return the runtime's libraries that a program has loaded when it ends."""
    command = [sys.executable, "-c", f"{MAPPED}\n{program}\nprint(*mapped())", *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


RUN = """
import sys, numpy as np, tvmrt
from tvmrt.contrib import graph_executor
from tvmrt.runtime import executor
make = executor.AotModule if sys.argv[2] == "aot" else graph_executor.GraphModule
network = make(tvmrt.runtime.load_module(sys.argv[1])["default"](tvmrt.cpu(0)))
network.set_input("x", np.ones((2, 3), np.float32))
network.run()
network.get_output(0).numpy()
"""


@pytest.mark.parametrize("executor", ["graph", "aot"])
def test_cpu_network_runs_without_optional_libraries(graph_library, aot_library, executor):
    library = graph_library if executor == "graph" else aot_library
    assert _mapped(RUN, library, executor) & PARTS == set()


@pytest.mark.parametrize(
    "needs, program",
    [
        ({"libtvmrt_regions.so"}, "assert tvmrt.get_global_func('tvmrt.device.find')('cpu')"),
        ({"libtvmrt_named.so"}, "assert len(tvmrt.get_global_func('runtime.Array')(1, 2)) == 2"),
        ({"libtvmrt_schedules.so"}, "network.module['set_scheduler']('sync'); network.run()"),
    ],
    ids=["regions", "named", "schedules"],
)
def test_each_loads_with_the_first_use(graph_library, needs, program):
    program = f"{RUN}assert not mapped(), mapped()\n{program}\n"
    assert _mapped(program, graph_library, "graph") & PARTS == needs


def test_c_program_that_registers_a_device_links_the_runtime_alone(tmp_path):
    source = tmp_path / "program.c"
    source.write_text(
        "#include <stdio.h>\n#include <tvm/runtime/device.h>\n"
        "static int run(tvmrt_device* d, tvmrt_region* r) { (void)d; (void)r; return 0; }\n"
        "int main(void) {\n"
        "  static const tvmrt_device_interface calls = {.run = run};\n"
        "  static const tvmrt_device device = {\n"
        '      .struct_bytes = sizeof(device), .name = "own", .interface = &calls};\n'
        "  tvmrt_device* found = NULL;\n"
        '  if (tvmrt_device_register(&device) != 0 || tvmrt_device_find("own", &found) != 0) {\n'
        "    puts(TVMGetLastError());\n    return 1;\n  }\n"
        '  puts(found->name);\n  return tvmrt_device_unregister("own");\n}\n'
    )
    includes = [f"-I{path}" for path in tvmrt.libinfo.find_include_path()]
    command = ["cc", *includes, source, RUNTIME, f"-Wl,-rpath,{RUNTIME.parent}", "-o", "program"]
    subprocess.run(command, check=True, cwd=tmp_path)
    done = subprocess.run([tmp_path / "program"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "own\n")


FIND_CPU = """
import ctypes, sys
runtime = ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL)
runtime.TVMGetLastError.restype = ctypes.c_char_p
def refuse(rc):
    assert rc != 0
    return runtime.TVMGetLastError().decode()
found = ctypes.c_void_p(1)
print(refuse(runtime.tvmrt_device_find(b"cpu", ctypes.byref(found))))
"""
MISSING = f"""{FIND_CPU}
assert found.value is None
print(refuse(runtime.tvmrt_scheduler_register(None)))
assert runtime.TVMFuncGetGlobal(b"runtime.Array", ctypes.byref(found)) == 0 and not found.value
assert runtime.TVMFuncGetGlobal(b"runtime.NumThreads", ctypes.byref(found)) == 0 and found.value
"""


def test_runtime_alone_names_the_library_that_it_lacks(tmp_path):
    shutil.copy(RUNTIME, tmp_path)
    command = [sys.executable, "-c", MISSING, tmp_path / RUNTIME.name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    for line, name in zip(lines, ("libtvmrt_regions", "libtvmrt_schedules")):
        assert f"lacks the library {name}; put it and plugins.txt" in line
    assert len(lines) == 2


def test_library_of_another_version_is_refused_with_both_versions(tmp_path):
    for file in (RUNTIME, RUNTIME.with_name("plugins.txt"), *map(RUNTIME.with_name, PARTS)):
        shutil.copy(file, tmp_path)
    broken = tmp_path / "libtvmrt_regions.so"
    code = broken.read_bytes()
    version = tvmrt.__version__.encode() + b"\0"
    assert code.count(version) == 1
    broken.write_bytes(code.replace(version, b"9" + version[1:]))
    command = [sys.executable, "-c", FIND_CPU, tmp_path / RUNTIME.name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (
        f"belongs to tvmrt 9{tvmrt.__version__[1:]}, this runtime is tvmrt {tvmrt.__version__}"
        in (done.stdout)
    )


def test_static_library_has_them_inside(tmp_path):
    """A program without any shared library of the runtime."""
    archive = tvmrt.libinfo.find_lib_path("libtvm_runtime.a")[0]
    source = tmp_path / "program.c"
    source.write_text(
        "#include <stdio.h>\n#include <tvm/runtime/device.h>\n"
        "int main(void) {\n"
        "  tvmrt_device* cpu = NULL;\n  TVMFunctionHandle array = NULL;\n"
        '  if (tvmrt_device_find("cpu", &cpu) != 0 || cpu == NULL) return 1;\n'
        '  if (TVMFuncGetGlobal("runtime.Array", &array) != 0 || array == NULL) return 2;\n'
        "  return tvmrt_scheduler_register(NULL) == -1 ? 0 : 3;\n}\n"
    )
    includes = [f"-I{path}" for path in tvmrt.libinfo.find_include_path()]
    libraries_of_c = ["-lm", "-ldl", "-lpthread"]
    command = ["cc", *includes, source, archive, *libraries_of_c, "-o", "program"]
    subprocess.run(command, check=True, cwd=tmp_path)
    assert subprocess.run([tmp_path / "program"], check=False).returncode == 0
