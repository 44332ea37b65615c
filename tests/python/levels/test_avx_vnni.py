"""ISA level v3vnni (AVX-VNNI with 256 bits), emulated because no processor is available.

The C is compiled with the AVX-512 encoding of the same instructions, and CPU detection reports
AVX-VNNI. Compiled with its own flags, the objects contain the VEX encoding.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest

import tvmrt
from tvmrt.compiler import processor
from tvmrt.compiler.codegen import cpu_dispatch, target
from tvmrt.contrib.graph_executor import GraphModule

pytestmark = pytest.mark.skipif(
    not {"avx512_vnni", "avx512vl"} <= processor.flags(), reason="this processor has no VNNI"
)

# Header included before all C: CPU detection reports one more level if the processor lacks some of
# the levels.
FAKE = """
#ifndef __ASSEMBLER__
#include <tvm/runtime/kernels/cpu_dispatch.h>
static inline void fake_ask(tvmrt_processor* out) {
  tvmrt_detect_processor(out);
  if (out->count < TVMRT_X86_LEVELS) out->levels[out->count++] = "v3vnni";
}
#define tvmrt_detect_processor fake_ask
#endif
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "names", [["v2", "v3", "v3vnni", "v4vnni"], ["v3vnni", "v3", "v2"]], ids=["packed", "own"]
)
def test_avx_vnni_matches_other_levels(names, network, monkeypatch, tmp_path):
    """Compare results for weights packed for AVX-VNNI and for AVX-512."""
    (level,) = [each for each in target.X86_LEVELS if each.name == "v3vnni"]
    others = [flag for flag in level.flags if flag != "-mavxvnni"]
    as_avx512 = replace(level, flags=(*others, "-mavx512vl", "-mavx512vnni"))
    here = tuple(as_avx512 if each is level else each for each in target.X86_LEVELS)
    monkeypatch.setitem(target.LEVELS, "x86-64", here)
    monkeypatch.setitem(cpu_dispatch._DEFINED, "v3vnni", "__AVX512VNNI__")
    (tmp_path / "fake.h").write_text(FAKE)
    monkeypatch.setenv("TVMRT_CFLAGS", f"-O1 -include {tmp_path / 'fake.h'}")
    tvmrt.compile(network[0], target="x86-64", levels=names).export_library(tmp_path / "net.so")
    monkeypatch.setenv("TVMRT_LEVEL", "v3vnni")
    module = tvmrt.runtime.load_module(tmp_path / "net.so")
    assert module.level == "v3vnni"
    runner = GraphModule(module["default"](tvmrt.cpu(0)))
    runner.run(**network[1])
    for i, (name, wanted) in enumerate(network[2].items()):
        found = runner.get_output(i).numpy()
        if wanted.dtype == np.float32:
            np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-5, err_msg=name)
        else:
            np.testing.assert_array_equal(found, wanted, err_msg=name)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("objdump") is None, reason="objdump is not installed")
def test_avx_vnni_flags_emit_vex_encoding(network, monkeypatch, tmp_path):
    monkeypatch.setenv("TVMRT_CFLAGS", "-O1")
    path = tmp_path / "net.so"
    try:
        tvmrt.compile(network[0], levels=["v3vnni"]).export_library(path)
    except tvmrt.error.CompileError as problem:
        pytest.skip(str(problem))
    command = ["objdump", "-d", "--no-show-raw-insn", str(path)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert len(re.findall(r"\{vex\} vpdpbusd", text)) > 20
    assert not re.search(r"%zmm|%k[1-7]\b|%ymm(?:1[6-9]|2\d|3[01])\b", text)
    if "avx_vnni" not in processor.flags():
        with pytest.raises(tvmrt.error.TVMError, match="has code for v3vnni, and this processor"):
            tvmrt.runtime.load_module(path)


def test_avx_vnni_is_opt_in():
    assert "v3vnni" not in [level.name for level in target.get_target("x86-64").levels]
