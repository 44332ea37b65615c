"""Test graphs, params and operators of every release with the firmware graph executor."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from artefacts import firmware, network, stream, toolchain
from artefacts.releases import RELEASES
from onnx import helper
from onnx_graph import model
from test_graph_json import VARIANTS, with_reshape

import tvmrt
from tvmrt import libinfo

NUMBERS = " ".join(f"{value:g}" for value in network.Z.ravel())


def firmware_archive() -> list[Path]:
    found = libinfo.find_lib_path("libtvm_firmware.a")
    return [Path(found[0]), *toolchain.backend_archive()]


@pytest.fixture(
    scope="module", params=[RELEASES[0], RELEASES[-1]], ids=lambda release: release.name
)
def program(request, tmp_path_factory) -> Path:
    """Build the application with the operators and the function table of a release."""
    folder = tmp_path_factory.mktemp("graph")
    table = folder / "table.c"
    # a table of operators only, as for the C interface
    table.write_text(firmware.table(request.param, firmware.Build("c", unpacked=True)))
    sources = [toolchain.source("firmware_graph_main.c"), toolchain.source("c_graph.c"), table]
    return toolchain.program(
        folder / "application", *sources, libraries=firmware_archive(),
        defines=[f"MINOR={request.param.first}"], flags=["-std=gnu99"],
    )  # fmt: skip


def run(program: Path, graph: dict | str, folder: Path) -> str:
    text = graph if isinstance(graph, str) else json.dumps(graph)
    (folder / "graph.json").write_text(text)
    (folder / "weights.params").write_bytes(stream.params({"unused": network.X, "w": network.W}))
    return toolchain.execute([program, folder / "graph.json", folder / "weights.params"]).strip()


@pytest.mark.parametrize("change", VARIANTS, ids=lambda change: change.__name__)
def test_variants_of_the_text_give_the_same_numbers(program, change, tmp_path):
    graph = network.graph()
    change(graph)
    assert run(program, json.dumps(graph, indent=2), tmp_path) == NUMBERS


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: release.name)
def test_graphs_of_the_releases(program, release, tmp_path):
    assert run(program, network.graph_text(release), tmp_path) == NUMBERS


def test_nop_is_no_call(program, tmp_path):
    graph = with_reshape()
    graph["heads"].reverse()
    assert run(program, graph, tmp_path) == NUMBERS


@pytest.mark.parametrize("type", ["float16", "int32", "float32x2"])
def test_a_parameter_of_another_type_is_a_code(program, type, tmp_path):
    graph = network.graph()
    graph["attrs"]["dltype"][1][1] = type
    assert run(program, graph, tmp_path) == "code 0x1005"


def test_unknown_function_returns_an_error_code(program, tmp_path):
    graph = network.graph()
    graph["nodes"][2]["attrs"]["func_name"] += "_1"
    assert run(program, graph, tmp_path) == "code 0x0100"


@pytest.mark.parametrize("count", ["0", "3", "22", "two", ""])
def test_operators_get_as_many_tensors_as_they_say(program, count, tmp_path):
    graph = network.graph()
    graph["nodes"][2]["attrs"]["num_inputs"] = count
    assert run(program, graph, tmp_path) == "code 0x1003"


# ---- networks compiled ahead of time, by their executor ----


@pytest.mark.parametrize(
    "release",
    [release for release in RELEASES if release.first >= 12],
    ids=lambda release: release.name,
)
@pytest.mark.parametrize("pools", ["none", "internal"])
def test_networks_compiled_ahead_run_by_their_executor(release, pools, tmp_path):
    """Since 0.12 the run function is in the table."""
    build = firmware.Build("packed", pools=pools)
    sources = []
    for name, text in firmware.sources(release, build).items():
        if name.endswith(".c"):
            sources.append(tmp_path / Path(name).name)
            sources[-1].write_text(text)
    application = toolchain.program(
        tmp_path / "application", toolchain.source("firmware_aot_main.c"), *sources,
        libraries=firmware_archive(), flags=["-std=gnu99"],
    )  # fmt: skip
    assert toolchain.execute([application]).strip() == NUMBERS


def test_tvmrt_aot_code_runs_by_the_executor(tmp_path):
    """The archive contains the network's function table on request."""
    nodes = [
        helper.make_node("Add", ["x", "w"], ["y"]),
        helper.make_node("Mul", ["y", "two"], ["z"]),
    ]
    constants = {"w": network.W, "two": np.full((2, 3), 2, np.float32)}
    graph = model(nodes, {"x": network.X}, ["z"], constants)
    tvmrt.compile(graph, target="cortex-m4").export(tmp_path / "net")
    main = toolchain.source("firmware_aot_main.c")
    application = toolchain.program(
        tmp_path / "application", main, *sorted((tmp_path / "net").glob("*.c")),
        libraries=[*firmware_archive(), "-lm"], flags=["-std=gnu99", f"-I{tmp_path / 'net'}"],
    )  # fmt: skip
    assert toolchain.execute([application]).strip() == NUMBERS
