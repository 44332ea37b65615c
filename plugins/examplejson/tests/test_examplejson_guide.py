"""Test the device examplejson with the network of "Bring your own code generator"."""

from __future__ import annotations

import numpy as np
import pytest
from sample_devices import run_library
from test_guide_devices import FEEDS, golden, guide_network

import tvmrt


def test_examplejson_writes_the_guides_text():
    library = tvmrt.compile(guide_network(), devices=["examplejson"])
    (module,) = library.sources.modules
    assert module.type_key == "examplejson"
    assert module.payload[8:].decode().splitlines() == [
        "subgraph_tvmgen_default_examplejson_main_0",
        "input 0 10 10",
        "input 1 10 10",
        "input 2 10 10",
        "input 3 10 10",
        "add 4 inputs: 0 1 shape: 10 10",
        "sub 5 inputs: 4 2 shape: 10 10",
        "mul 6 inputs: 5 3 shape: 10 10",
    ]


@pytest.fixture
def examplejson_runtime():
    tvmrt.get_global_func("tvmrt.device.find")(
        "examplejson"
    )  # loads the plug-in if it is installed
    if tvmrt.get_global_func("runtime.module.loadbinary_examplejson", allow_missing=True) is None:
        pytest.skip("this runtime is built without the module kind examplejson")


@pytest.mark.parametrize("executor", ["graph", "aot"])
@pytest.mark.parametrize("shared", [False, True], ids=["one-result", "several-subgraphs"])
@pytest.mark.usefixtures("examplejson_runtime")
def test_examplejson_computes_the_guides_network(tmp_path, executor, shared):
    library = tvmrt.compile(guide_network(shared), executor=executor, devices=["examplejson"])
    library.export(tmp_path / "net.so")
    assert len(library.summary.regions) == (2 if shared else 1)
    for found, wanted in zip(run_library(tmp_path / "net.so", executor, FEEDS), golden(shared)):
        np.testing.assert_allclose(found, wanted, rtol=1e-5)
