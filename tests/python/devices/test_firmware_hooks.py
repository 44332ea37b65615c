"""Firmware devices with hooks that the board defines: their order, pointer and failures."""

from __future__ import annotations

import subprocess

import numpy as np
import pytest
from sample_devices import SampleDevice
from test_regions import FEEDS, diamond, golden, no_products

import tvmrt
from tvmrt.error import UnsupportedError


class HookedDevice(SampleDevice):
    hooks = True


BOARD = """
#include <stdio.h>
#include <string.h>
#include "tvmgen_default.h"

static char log_[200];
static const char *failing = "";

static int32_t note(void *context, const char *what) {
  if (*(int *)context != 42) return 7;
  strcat(log_, what);
  return strcmp(failing, what) == 0 ? 1 : 0;
}

int32_t TVMDeviceMyNpuActivate(void *context) { return note(context, "A"); }
int32_t TVMDeviceMyNpuOpen(void *context) { return note(context, "o"); }
int32_t TVMDeviceMyNpuClose(void *context) { return note(context, "c"); }
int32_t TVMDeviceMyNpuDeactivate(void *context) { return note(context, "D"); }

int main(int argc, char **argv) {
  static float a[20], b[20], c[20], w[20], t[20];
  int mark = 42, code;
  struct tvmgen_default_inputs inputs = {a, b, c};
  struct tvmgen_default_outputs outputs = {w, t};
  struct tvmgen_default_devices devices = {&mark};
  if (argc > 2) failing = argv[2];
  if (fread(a, 80, 1, stdin) + fread(b, 80, 1, stdin) + fread(c, 80, 1, stdin) != 3) return 1;
  if (argv[1][0] == 'r') {
    code = tvmgen_default_run(&inputs, &outputs, &devices);
  } else {
    struct tvmgen_default_step_state state;
    code = tvmgen_default_step_begin(&state, &inputs, &outputs, &devices);
    if (code == 0) while ((code = tvmgen_default_step(&state, 1)) == 1) continue;
  }
  fprintf(stderr, "%s %d", log_, code);
  if (tvmgen_default_run(&inputs, &outputs, NULL) == 0) return 2;
  return fwrite(w, 80, 1, stdout) + fwrite(t, 80, 1, stdout) == 2 ? 0 : 3;
}
"""


def options(**more):
    return {"target": "host", "runtime": "crt", "executor": "aot", **more}


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("board")
    device = HookedDevice("my_npu", takes=no_products)
    tvmrt.compile(
        diamond(), devices=[device], **options(interface_api="c", unpacked_api=True)
    ).export(folder / "net")
    (folder / "board.c").write_text(BOARD)
    include = tvmrt.libinfo.find_include_path()[0]
    backend = tvmrt.libinfo.find_lib_path("libtvm_backend.a")[0]
    sources = [folder / "board.c", *sorted((folder / "net").glob("*.c"))]
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", f"-I{include}", f"-I{folder / 'net'}"]
    command = ["cc", "-O1", *flags, *sources, backend, "-lm", "-o", folder / "program"]
    subprocess.run(command, check=True)
    return folder / "program"


def run(program, *arguments):
    data = b"".join(FEEDS[name].tobytes() for name in "abc")
    done = subprocess.run([program, *arguments], input=data, capture_output=True, check=True)
    return done.stderr.decode(), np.frombuffer(done.stdout, np.float32).reshape(2, 4, 5)


@pytest.mark.parametrize("how", ["run", "step"])
def test_hooks_are_called_around_the_run_and_each_region(program, how):
    log, found = run(program, how)
    assert log == "AococD 0"
    np.testing.assert_allclose(found, golden(), rtol=1e-5)


@pytest.mark.parametrize("how", ["run", "step"])
@pytest.mark.parametrize(
    ("failing", "log"), [("A", "A -1"), ("o", "Ao -1"), ("c", "Aoc -1"), ("D", "AococD -1")]
)
def test_failing_hook_ends_the_run(program, how, failing, log):
    assert run(program, how, failing)[0] == log


def test_device_without_hooks_has_no_struct(tmp_path):
    chosen = options(interface_api="c", unpacked_api=True)
    library = tvmrt.compile(diamond(), devices=[SampleDevice()], **chosen)
    assert "_devices" not in library.sources.files["tvmgen_default.h"]


def test_hooks_need_the_interface_of_structs():
    with pytest.raises(UnsupportedError, match=r"device my_npu has hooks.*interface_api=.c"):
        tvmrt.compile(diamond(), devices=[HookedDevice("my_npu")], **options())


def test_hosts_have_no_hooks(tmp_path):
    library = tvmrt.compile(diamond(), devices=[HookedDevice("my_npu")])
    assert library.summary.regions
    assert not any("TVMDevice" in text for text in library.sources.files.values())
