"""ISA level v4amx, emulated: few processors and no emulator support it.

A processor with AMX runs it. On others, the C is compiled with a model of the AMX registers instead
of the intrinsics, and CPU detection reports AMX. Compiled with its own flags, the objects contain
the instructions.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import bf16_network
import numpy as np
import onnxruntime
import pytest
from dispatch_runs import check, load
from onnx import helper

import tvmrt
from tvmrt.compiler import processor
from tvmrt.compiler.codegen import cpu_dispatch, target

AMX = "amx_bf16" in processor.flags()
pytestmark = pytest.mark.skipif(
    "avx512_bf16" not in processor.flags(), reason="no AVX512_BF16 here"
)
by_a_model = pytest.mark.skipif(AMX, reason="this processor has AMX")
MODEL = Path(__file__).parents[1] / "kernels" / "amx_model.h"
NAMES = ["v2", "v4bf16", "v4amx"]

# Header included before all C: CPU detection reports one more level, and the kernel, which lacks
# these registers, is asked for them only if a variable is set.
FAKE = f"""
#ifndef __ASSEMBLER__
#include <tvm/runtime/kernels/cpu_dispatch.h>
static inline void fake_ask(tvmrt_processor* out) {{
  tvmrt_detect_processor(out);
  out->levels[out->count++] = "v4amx";
}}
static inline void fake_permit(tvmrt_processor* processor) {{
  if (getenv("AMX_IS_ASKED_FOR")) tvmrt_request_amx_permission(processor);
}}
#define tvmrt_detect_processor fake_ask
#define tvmrt_request_amx_permission fake_permit
#include "{MODEL}"
#endif
"""


@pytest.fixture(scope="module")
def network():
    """Matrix products of small integers, exact in any summation order; no tile is full."""
    rng = np.random.default_rng(3)
    few = lambda *shape: rng.integers(-8, 9, shape).astype(np.float32)  # noqa: E731
    feeds = {"a": few(2, 37, 75), "b": few(2, 75, 21), "image": few(1, 7, 9, 43), "c": few(37, 48)}
    initializers = {
        "weights": few(75, 50),
        "kernel": few(50, 7, 3, 3),
        "bias": few(50),
        "w": few(48, 50),
    }
    nodes = [
        helper.make_node("MatMul", ["a", "weights"], ["constant"]),
        helper.make_node("MatMul", ["a", "b"], ["computed"]),
        helper.make_node("MatMul", ["c", "w"], ["in_equal_parts"]),
        helper.make_node("Conv", ["image", "kernel", "bias"], ["convolved"], pads=[1] * 4),
    ]
    outputs = [node.output[0] for node in nodes]
    made = bf16_network.model_of(
        nodes, initializers, {n: x.shape for n, x in feeds.items()}, outputs
    )
    right = onnxruntime.InferenceSession(made.SerializeToString()).run(outputs, feeds)
    return made, feeds, right


def compiled(network, path: Path) -> Path:
    options = {"executor": "aot", "target": "x86-64", "levels": NAMES, "precision": "bf16"}
    tvmrt.compile(network[0], **options).export_library(path)
    return path


@pytest.fixture(scope="module")
def modelled(network, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("amx")
    (folder / "fake.h").write_text(FAKE)
    own = target.X86_LEVELS[-1]
    plain = replace(own, flags=tuple(flag for flag in own.flags if "amx" not in flag))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(target.LEVELS, "x86-64", (*target.X86_LEVELS[:-1], plain))
        patch.setitem(cpu_dispatch._DEFINED, "v4amx", "__AVX512BF16__")
        patch.setenv("TVMRT_CFLAGS", f"-O1 -include {folder / 'fake.h'}")
        return compiled(network, folder / "net.so")


@pytest.mark.skipif(not AMX, reason="this processor has no AMX")
def test_amx_processor_gives_equal_sums(network, tmp_path):
    module = tvmrt.runtime.load_module(compiled(network, tmp_path / "net.so"))
    assert module.level == "v4amx"
    check(module, network)


@pytest.mark.skipif(not AMX, reason="this processor has no AMX")
def test_default_target_uses_amx_if_available(network, monkeypatch):
    monkeypatch.delenv(target.DEFAULT_VARIABLE, raising=False)
    library = tvmrt.compile(network[0], tvmrt.Request(precision="bf16").for_here())
    assert [level.name for level in library.target.levels] == ["v4amx"]
    outputs = tvmrt.load(network[0], precision="bf16", cache=False)(**network[1])
    for found, wanted in zip(outputs, network[2]):
        np.testing.assert_array_equal(found, wanted)


@by_a_model
@pytest.mark.parametrize("level", NAMES)
def test_all_levels_give_equal_sums_from_shared_weights(
    level, modelled, network, monkeypatch, tmp_path
):
    monkeypatch.setenv("TVMRT_LEVEL", "" if level == "v4amx" else level)
    module = load(modelled, tmp_path / "net.so")
    assert module.level == level
    check(module, network)


@by_a_model
def test_next_level_is_used_if_the_os_denies_amx(modelled, network, monkeypatch, tmp_path):
    monkeypatch.setenv("AMX_IS_ASKED_FOR", "1")
    module = load(modelled, tmp_path / "net.so")
    assert module.level == "v4bf16"
    check(module, network)
    monkeypatch.setenv("TVMRT_LEVEL", "v4amx")
    with pytest.raises(tvmrt.error.TVMError, match="demands v4amx, which the processor lacks: "):
        load(modelled, tmp_path / "forced.so")


def test_only_bf16_libraries_contain_amx():
    names = [[level.name for level in target.get_target("x86-64", bf16=b).levels] for b in (0, 1)]
    assert names == [names[1][:-2], [*names[0], "v4bf16", "v4amx"]]


@pytest.mark.parametrize(
    ("bf16", "levels", "named", "chosen"),
    [
        (True, (), "", ("x86-64", ("v4amx",))),
        (False, (), "", ("here", ())),
        (True, ("v3",), "", ("x86-64", ("v3",))),
        (True, (), "host", ("host", ())),
    ],
    ids=["bfloat16", "floats", "explicit levels", "explicit target"],
)
def test_native_target_uses_amx_if_available(bf16, levels, named, chosen, monkeypatch):
    monkeypatch.setenv(target.DEFAULT_VARIABLE, named)
    monkeypatch.setattr(
        target.processor,
        "flags",
        lambda: frozenset({*target._AMX, "cx16", "popcnt", "sse4_2"}),
    )
    assert target.local_target(levels, bf16) == chosen
    monkeypatch.setattr(target.processor, "flags", lambda: frozenset({"cx16", "popcnt", "sse4_2"}))
    assert target.local_target(levels, bf16)[1] == levels


@by_a_model
@pytest.mark.skipif(shutil.which("objdump") is None, reason="objdump is not installed")
def test_amx_flags_emit_amx_and_others_fall_back(network, monkeypatch, tmp_path):
    monkeypatch.setenv("TVMRT_CFLAGS", "-O1")
    path = compiled(network, tmp_path / "net.so")
    command = ["objdump", "-d", "--no-show-raw-insn", str(path)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = {name: len(re.findall(rf"\b{name}\b", text)) for name in ("tdpbf16ps", "tileloadd")}
    assert min(found.values()) > 8
    assert re.search(r"\bldtilecfg\b", text) and re.search(r"\btilerelease\b", text)
    module = tvmrt.runtime.load_module(path)
    assert module.level == "v4bf16"
    check(module, network)
