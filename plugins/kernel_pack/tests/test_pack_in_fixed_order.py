"""``reproducible=True`` from the pack: the bits of compiled code."""

import os
from pathlib import Path

import numpy as np
import pytest
import reproducible_networks
from reproducible_networks import GROUPS

import tvmrt
from tvmrt.error import CompileError
from tvmrt.plugins.kernel_pack import pack

pytestmark = pytest.mark.skipif(bool(pack.why_missing()), reason=pack.why_missing() or "-")
MODELS = Path(os.environ.get("TVMRT_MODELS") or "/none")
SLOW = sorted({*GROUPS} - {"rows"})


def check(model, inputs):
    results = []
    for form, target in (("compiled", "native"), ("kernel-pack", "kernel-pack")):
        network = tvmrt.load(model, target=target, reproducible=True, cache=False)
        assert network.form == form
        found = network(*(inputs[each.name] for each in network.inputs))
        results.append([found] if len(network.outputs) == 1 else list(found))
    for one, other in zip(*results):
        assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize(
    "group", ["rows", *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)]
)
def test_layers_have_the_bits_of_compiled_code(group):
    check(*reproducible_networks.network(group))


@pytest.mark.slow
@pytest.mark.skipif(not MODELS.is_dir(), reason="TVMRT_MODELS names no networks")
@pytest.mark.parametrize(
    "name", ["yunet_n_320_f32", "silero_vad_16k_f32", "mobilenetv2_100_224_f32"]
)
def test_networks_have_the_bits_of_compiled_code(name):
    with np.load(MODELS / f"{name}.npz") as archive:
        inputs = {n: archive[n] for n in archive.files if not n.startswith("out:")}
    check(MODELS / f"{name}.onnx", inputs)


def test_without_its_kernels_the_error_says_what_to_do(monkeypatch):
    find = Path.is_file
    monkeypatch.setattr(Path, "is_file", lambda p: "_fixed" not in p.name and find(p))
    pack.find_pack.cache_clear()
    model, _ = reproducible_networks.network("rows")
    try:
        with pytest.raises(CompileError, match=r"no kernels .*_fixed\); install the wheel.*or a C"):
            tvmrt.load(model, reproducible=True, target="kernel-pack", cache=False)
    finally:
        pack.find_pack.cache_clear()
