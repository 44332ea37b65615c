"""``tvmrt device new``: the files of a new device, complete and tested."""

from __future__ import annotations

import re
from pathlib import Path

C_SOURCE = """\
/* @NAME@: a device that computes `relu` in float32. tvm/runtime/device.h describes all members. */
#include <stdlib.h>
#include <tvm/runtime/device.h>

TVMRT_DEVICE_PLUGIN(@NAME@)
#define FAIL(why) (TVMPackedFuncSetLastError(why), -1)

/* Describe what the compiler may assign to the device. */
static int describe(tvmrt_device* device, tvmrt_device_description* out) {
  static const char* const ops[] = {"relu", NULL};
  (void)device;
  out->ops = ops;
  return 0;
}

/* Offset of a tensor in the region's memory: after the previous tensors. */
static size_t place(const tvmrt_region* region, int32_t tensor) {
  size_t bytes = 0;
  for (int32_t i = 0; i < tensor; ++i) bytes += (region->tensors[i].num_bytes + 63) / 64 * 64;
  return bytes;
}

static int pre_run(tvmrt_device* device, tvmrt_region* region, const char* options) {
  (void)device, (void)options;
  free(region->device_graph); /* may be left from other shapes */
  region->device_graph = malloc(place(region, region->num_tensors) + 1);
  return region->device_graph != NULL ? 0 : FAIL("out of memory");
}

static float* data(const tvmrt_region* region, int32_t tensor) {
  float* border = tvmrt_region_data(region, tensor); /* an input, an output or a constant */
  return border != NULL ? border : (float*)((char*)region->device_graph + place(region, tensor));
}

static int run(tvmrt_device* device, tvmrt_region* region) {
  (void)device;
  for (int32_t n = 0; n < region->num_nodes; ++n) {
    const tvmrt_region_node* node = &region->nodes[n];
    if (strcmp(node->op, "relu") != 0) return FAIL("the device supports only relu");
    const float* x = data(region, node->inputs[0]);
    float* y = data(region, node->outputs[0]);
    const int64_t size = tvmrt_region_size(region, node->outputs[0]);
    for (int64_t i = 0; i < size; ++i) y[i] = x[i] < 0 ? 0 : x[i]; /* NaN stays */
  }
  return 0;
}

static int release_graph(tvmrt_device* device, void* device_graph) {
  (void)device;
  free(device_graph);
  return 0;
}

static const tvmrt_device_interface interface = {
    .pre_run = pre_run, .run = run, .release_graph = release_graph};
static const tvmrt_device_allocator allocator = {.describe = describe};
static const tvmrt_device device = {.struct_bytes = sizeof(device), .name = "@NAME@",
                                    .interface = &interface, .allocator = &allocator};
int register_@NAME@_device(void) { return tvmrt_device_register(&device); }
int unregister_@NAME@_device(void) { return tvmrt_device_unregister("@NAME@"); }
"""

MESON = """\
# In the source tree: this folder below plugins/ is all that the build needs.
plugin_sources = files('@NAME@.c')
plugin_is_device = true
"""

C_README = """\
# @NAME@

Computes `relu` in float32, with memory of its own for what lies inside a region.

Out of the source tree it becomes a plug-in:

```sh
cc -O2 -shared -fPIC $(tvmrt config --cflags) @NAME@.c -o libtvmrt_device_@NAME@.so
tvmrt device test ./libtvmrt_device_@NAME@.so
```

A program loads it by `tvmrt.load_device_plugin(path)` or `tvmrt_device_load_plugin(path)`; or the
runtime finds it by itself in a folder that the variable `TVMRT_DEVICE_PATH` names. In the source
tree, move this folder to `plugins/@NAME@`; nothing else is to be changed.
"""

C_TEST = '''\
"""The device passes the conformance tests as a plug-in."""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
TVMRT = [sys.executable, "-m", "tvmrt"]


def test_conformance(tmp_path):
    plugin = tmp_path / "libtvmrt_device_@NAME@.so"
    flags = subprocess.check_output([*TVMRT, "config", "--cflags"], text=True).split()
    command = ["cc", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", *flags]
    subprocess.run([*command, HERE / "@NAME@.c", "-o", plugin], check=True)
    subprocess.run([*TVMRT, "device", "test", plugin], check=True)
'''

PYTHON_SOURCE = '''\
"""@NAME@: a device that computes `relu` in Python. Import this module where networks are compiled
for it, and where they are loaded."""

import numpy as np

from tvmrt.compiler import devices


@devices.register
class @CLASS@(devices.PythonDevice):
    """Give compute() what your hardware does."""

    name = "@NAME@"

    def supports(self, node):
        if node.op != "relu":
            return f"@NAME@ does not support {node.op}"
        if node.output.dtype.name != "float32":
            return f"@NAME@ computes in float32, not in {node.output.dtype}"
        return None

    def compute(self, node, inputs):
        return np.maximum(inputs[0], 0)
'''

PYTHON_TEST = '''\
"""The device passes the conformance tests."""

import subprocess
import sys
from pathlib import Path


def test_conformance():
    module = Path(__file__).parent / "@NAME@.py"
    subprocess.run([sys.executable, "-m", "tvmrt", "device", "test", module], check=True)
'''

PYTHON_README = """\
# @NAME@

Computes `relu` in float32, both halves in Python.

```sh
tvmrt device test @NAME@.py
```

A package offers it to `tvmrt compile --device @NAME@` by an entry point in its `pyproject.toml`:

```toml
[project.entry-points."tvmrt.devices"]
@NAME@ = "@NAME@:@CLASS@"
```
"""


def write_skeleton(name: str, folder: Path, python: bool = False) -> list[Path]:
    """Write a new device to ``folder/name``, which must not exist.

    Raises
    ------
    ValueError
        If the name is not a letter, then letters, digits and ``_``.
    OSError
        If the folder exists or cannot be written.
    """
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
        raise ValueError(f"device name {name!r} is not a letter, then letters, digits and '_'")
    if python:
        files = {
            f"{name}.py": PYTHON_SOURCE,
            f"test_{name}.py": PYTHON_TEST,
            "README.md": PYTHON_README,
        }
    else:
        files = {
            f"{name}.c": C_SOURCE,
            "meson.build": MESON,
            f"test_{name}.py": C_TEST,
            "README.md": C_README,
        }
    target = folder / name
    target.mkdir(parents=True)
    title = "".join(part.capitalize() for part in name.split("_"))
    for file, text in files.items():
        (target / file).write_text(text.replace("@NAME@", name).replace("@CLASS@", title))
    return [target / file for file in files]
