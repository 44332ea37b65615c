"""Firmware archives contain exactly the runtime files that their network can call.

The compiler and the built objects give the called functions.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from archives import unpack
from small_network import small_network

import tvmrt
from tvmrt import libinfo
from tvmrt.compiler.export.firmware_build import SERVER, SIZED_GRAPH, runtime_sources
from tvmrt.devices import CSource, Device

ROOT = Path(libinfo.find_firmware_path())
FOLDERS = [ROOT / "src_backend", *(ROOT / "src_runtime" / "firmware").iterdir()]
FLAGS = ["-std=c99", *(f"-I{folder}" for folder in libinfo.find_include_path())]
CALLS = {
    "aot": ["TVMAotExecutor_Create", "TVMAotExecutorModule_Register"],
    "graph": ["TVMGraphExecutor_Create", "TVMGraphExecutorModule_Register", "tvmrt_graph_create"],
    SERVER: ["MicroTVMRpcServerInit", "MicroTVMRpcServerLoop", "PageMemoryManagerCreate"],
    SIZED_GRAPH: [
        "tvmrt_graph_open", "tvmrt_graph_read_dims", "tvmrt_graph_check_extent",
        "tvmrt_graph_set_extent", "TVMGetLastError",
    ],
}  # fmt: skip


def output(*command, **options):
    return subprocess.run(
        [*map(str, command)], capture_output=True, text=True, check=True, **options
    ).stdout


def offered(file):
    """Return the external names that an object or archive defines."""
    rows = output("nm", "--defined-only", "--extern-only", file).splitlines()
    return {row.split()[-1] for row in rows if len(row.split()) == 3}


def needed(file):
    """Return the names that an object or archive needs. Weak names, such as that of error texts,
    are used only if they are linked."""
    rows = [row.split() for row in output("nm", "--undefined-only", file).splitlines()]
    return {row[-1] for row in rows if row[:-1] == ["U"]}


@pytest.fixture(scope="module")
def objects(tmp_path_factory):
    """Compile each file of the firmware libraries to an object."""
    folder = tmp_path_factory.mktemp("objects")
    made = {}
    for source in (file for folder in FOLDERS for file in sorted(folder.glob("*.c"))):
        made[source] = folder / f"{source.parent.name}-{source.stem}.o"
        output("cc", *FLAGS, "-c", source, "-o", made[source])
    return made


def reached(objects, roots):
    """Return the files that define these functions and, transitively, their callees."""
    home = {name: file for file, made in objects.items() for name in offered(made)}
    found, waiting = set(), [home[name] for name in roots]
    while waiting:
        file = waiting.pop()
        if file not in found:
            found.add(file)
            waiting += [home[name] for name in needed(objects[file]) if name in home]
    return found


def private_headers(sources):
    """Return the library-internal headers that these files include."""
    words = output("cc", *FLAGS, "-MM", *sources).replace("\\\n", " ").split()
    paths = {Path(word).resolve() for word in words if word.endswith(".h")}
    return {path for path in paths if path.parent in FOLDERS}


@pytest.mark.slow
@pytest.mark.parametrize("executor", CALLS)
def test_executor_files_include_their_dependencies(objects, executor):
    begun = {SIZED_GRAPH: ["graph", executor], SERVER: ["aot", executor]}.get(executor, [executor])
    sources = reached(objects, [name for key in begun for name in CALLS[key]])
    expected = {path.relative_to(ROOT).as_posix() for path in sources | private_headers(sources)}
    assert set(runtime_sources(begun)) == expected


class Gate(Device):
    """Device whose code allocates memory of the runtime."""

    name = "gate_with_memory"

    def supports(self, node):
        return None if node.op == "relu" else "only relu"

    def codegen(self, regions, context):
        body = """
#include <tvm/runtime/c_backend_api.h>
int32_t {symbol}(const float *x, float *y) {{
  float *t = TVMBackendAllocWorkspace(kDLCPU, 0, {size} * sizeof(float), kDLFloat, 32);
  if (t == NULL) {{
    TVMAPISetLastError("no memory");
    return -1;
  }}
  for (int i = 0; i < {size}; ++i) t[i] = x[i] > 0 ? x[i] : 0;
  for (int i = 0; i < {size}; ++i) y[i] = t[i];
  return TVMBackendFreeWorkspace(kDLCPU, 0, t);
}}
"""
        rows = [(r.symbol, r.outputs[0].type.size) for r in regions]
        text = "".join(body.format(symbol=name, size=size) for name, size in rows)
        return CSource("#include <stddef.h>\n" + text)


HOST = {"target": "host", "runtime": "crt", "executor": "aot", "module_name": "net"}
GRAPH = {**HOST, "executor": "graph"}
PLAIN = {**HOST, "interface_api": "c"}
NETWORKS = {
    "packed": HOST,
    "graph": GRAPH,
    "structs": PLAIN,
    "packed-operators": {**HOST, "unpacked_api": False},
    "traced": {**PLAIN, "profile": True, "record": True},
    "pools": {**PLAIN, "pools": {"a": (1 << 20, ".a")}, "place": {"*weights*": "a"}},
    "device": {**HOST, "devices": [Gate()]},
    "device-by-structs": {**PLAIN, "devices": [Gate()]},
}
# Programs call these by plain functions, without a runtime.
BARE = [NETWORKS[name] for name in ("structs", "traced", "pools")]


@pytest.mark.slow
@pytest.mark.parametrize("options", NETWORKS.values(), ids=NETWORKS)
def test_archives_have_every_needed_runtime_file(objects, tmp_path, options):
    tvmrt.compile(small_network(), **options).export(tmp_path / "net.tar")
    folder = unpack(tmp_path / "net.tar", tmp_path / "net")
    output("make", "-s", "CC=cc", "AR=ar", cwd=folder)
    archive = folder / "libnet.a"
    of_runtime = {name for made in objects.values() for name in offered(made)}
    assert not (needed(archive) - offered(archive)) & of_runtime
    assert (folder / "runtime/src_backend").exists() == (options not in BARE)
