"""Test the device ethos-u: vela's command streams in firmware, called through a mock driver."""

from __future__ import annotations

import ctypes
import importlib.util
import shutil

import numpy as np
import onnx
import pytest
from boards import BOARDS, link_image, program_text, run_image
from ethos_u_case import HERE, Device, answers_header, places_in, record
from firmware_call import Network, build_shared
from onnx_case import network

import tvmrt
from tvmrt.plugins.ethos_u import vela
from tvmrt.plugins.ethos_u.device import try_options

ort = pytest.importorskip("onnxruntime")
pytest.importorskip("ai_edge_litert")
needs_vela = pytest.mark.skipif(
    importlib.util.find_spec("ethosu") is None, reason="vela (ethos-u-vela) is not installed"
)
FIRMWARE = {"runtime": "crt", "executor": "aot", "interface_api": "c"}
HOST = {**FIRMWARE, "target": "host", "pools": {"sram": 1 << 16}}


def build(library, folder):
    """Compile the network together with the mock driver, whose header the network's file
    includes."""
    library.export(folder)
    shutil.copy(HERE / "ethos_u_driver.c", folder)
    # the file's own TVMAPISetLastError(), not that of the runtime in this process
    return build_shared(folder, [f"-I{HERE}", "-DKEEP_ERROR", "-Wl,-Bsymbolic"])


def layers(both: bool = True) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """Return two convolutions with a sigmoid between them, which stays on the CPU; or only the
    first."""
    rng = np.random.default_rng(5)
    one = {name: np.float32(v) for name, v in
           {"xs": 1 / 16, "cs": 1 / 4, "ss": 1 / 256, "ys": 1 / 64}.items()}  # fmt: skip
    zeros = {name: np.int8(v) for name, v in {"xz": 3, "cz": -20, "sz": -128, "yz": 7}.items()}
    held = {
        **one, **zeros, "wz": np.zeros(8, np.int8), "vz": np.zeros(5, np.int8),
        "ws": np.linspace(0.01, 0.04, 8, dtype=np.float32), "vs": np.full(5, 0.02, np.float32),
        "w": rng.integers(-90, 90, (8, 3, 3, 3)).astype(np.int8),
        "v": rng.integers(-90, 90, (5, 8, 2, 2)).astype(np.int8),
    }  # fmt: skip
    nodes = [
        ("DequantizeLinear", ["x", "xs", "xz"], "xd", {}),
        ("DequantizeLinear", ["w", "ws", "wz"], "wd", {"axis": 0}),
        ("Conv", ["xd", "wd"], "c", {"pads": [1, 1, 1, 1]}),
        ("QuantizeLinear", ["c", "cs", "cz"], "cq", {}),
        ("DequantizeLinear", ["cq", "cs", "cz"], "cd", {}),
        ("Sigmoid", ["cd"], "s", {}),
        ("QuantizeLinear", ["s", "ss", "sz"], "sq", {}),
        ("DequantizeLinear", ["sq", "ss", "sz"], "sd", {}),
        ("DequantizeLinear", ["v", "vs", "vz"], "vd", {"axis": 0}),
        ("Conv", ["sd", "vd"], "d", {"strides": [2, 1]}),
        ("QuantizeLinear", ["d", "ys", "yz"], "y", {}),
    ]
    feeds = {"x": rng.integers(-128, 128, (1, 3, 6, 7)).astype(np.int8)}
    if not both:
        return network(nodes[:4], feeds, held, {"cq": "int8"}), feeds
    return network(nodes, feeds, held, {"y": "int8"}), feeds


def golden_of(model, feeds):
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, feeds)[0]


class Built:
    """Network built as a library for this machine, with its simulated device."""

    def __init__(self, model, folder, fallback=False, like=None, **settings):
        """Build a network. ``like`` is another one of the same regions, whose vela results are
        reused."""
        try_options(vela.arguments(settings, True))
        folder.mkdir()
        with pytest.MonkeyPatch.context() as patch:
            seen = record(patch)
            self.library = tvmrt.compile(
                model, devices=["ethos-u"], require_device=["ethos-u"],
                device_options={"ethos-u": settings}, device_fallback=fallback, **HOST,
            )  # fmt: skip
        self.models, self.places = (like.models, like.places) if like else ({}, {})
        for number, (file, arguments) in enumerate([] if like else dict.fromkeys(seen)):
            origin = places_in(file, arguments, folder / f"raw{number}")
            self.places |= origin
            self.models |= dict.fromkeys(origin, file)
        self.shared = build(self.library, folder / "net")
        self.device = Device(self.shared, self.models, self.places)
        self.network = Network(self.library, self.shared)

    def flag(self, name):
        return ctypes.c_int.in_dll(self.shared, f"ethosu_{name}")

    def run(self, feeds):
        """Return the one output; the calls of the device are in ``device.calls``."""
        self.device.calls.clear()
        (found,) = self.network.run(feeds).values()
        assert self.device.problems == []
        return found


@pytest.fixture(scope="module")
def two_regions(tmp_path_factory):
    model, feeds = layers()
    return Built(model, tmp_path_factory.mktemp("ethos_u") / "two"), feeds, golden_of(model, feeds)


@needs_vela
@pytest.mark.parametrize("name", [
    "kws_dscnn_int8", pytest.param("resnet8_int8", marks=pytest.mark.slow),
])  # fmt: skip
def test_int8_network_is_one_command_stream(models_dir, tmp_path, name):
    stored = np.load(models_dir / f"{name}.npz")
    feeds = {key: stored[key] for key in stored.files if not key.startswith("out:")}
    (golden,) = (stored[key] for key in stored.files if key.startswith("out:"))
    built = Built(models_dir / f"{name}.onnx", tmp_path / "net")
    assert np.ptp(golden.astype(int)) > 200
    np.testing.assert_array_equal(built.run(feeds), golden)
    (call,) = built.device.calls
    assert call.commands[:4] == b"COP1"
    where = built.places[call.commands]  # as vela itself reports it
    assert call.sizes[:2] == [where.weights_bytes, where.scratch_bytes]
    assert [base % 16 for base in call.bases] == [0, 0, 0]
    pool = built.network.memories["sram"]
    assert pool.address <= call.bases[1] <= pool.address + pool.nbytes - call.sizes[1]
    (row,) = built.library.summary.regions
    assert "vela estimates" in row.note and f"weights {where.weights_bytes} B" in row.note


@needs_vela
def test_boundary_tensors_have_the_device_layout(two_regions):
    """The network's tensors are NCHW; the CPU computes a table between the regions."""
    built, feeds, golden = two_regions
    assert [row.operators for row in built.library.summary.regions] == [["qconv"], ["qconv"]]
    found = built.run(feeds)
    assert np.ptp(golden.astype(int)) > 100
    assert np.abs(found.astype(int) - golden).max() <= 1  # onnxruntime's products round in floats
    first, second = built.device.calls
    assert [x.shape for x in (*first.inputs, *second.outputs)] == [(1, 6, 7, 3), (1, 3, 6, 5)]
    np.testing.assert_array_equal(first.inputs[0], feeds["x"].transpose(0, 2, 3, 1))
    np.testing.assert_array_equal(second.outputs[0].transpose(0, 3, 1, 2), found)


@needs_vela
@pytest.mark.parametrize(
    ("name", "sentence"),
    [("busy", b"no driver is free"), ("failing", b"ethosu_invoke() failed; the commands are for")],
)
def test_failing_driver_ends_the_run_and_is_released(two_regions, name, sentence):
    built, feeds, golden = two_regions
    given, results = [feeds["x"]], [np.zeros(golden.shape, np.int8)]
    built.flag(name).value = 1
    try:
        assert built.network.call(given, results) == -1
    finally:
        built.flag(name).value = 0
    assert sentence in ctypes.c_char_p.in_dll(built.shared, "ethosu_error").value
    assert built.network.call(given, results) == 0


@needs_vela
def test_cpu_fallback_without_a_free_driver(two_regions, tmp_path):
    like, feeds, golden = two_regions
    built = Built(layers()[0], tmp_path / "both", fallback=True, like=like)
    by_device, calls = built.run(feeds), len(built.device.calls)
    built.flag("busy").value = 1
    by_cpu = built.run(feeds)
    assert (calls, len(built.device.calls)) == (2, 0)
    for found in (by_device, by_cpu):
        assert np.abs(found.astype(int) - golden).max() <= 1


@needs_vela
def test_tensors_with_own_base_addresses_are_not_copied(tmp_path):
    model, feeds = layers(both=False)
    built = Built(model, tmp_path / "own", separate_io=True, accelerator="ethos-u65-256",
                  memory_mode="Dedicated_Sram", config="Arm/vela.ini",
                  system_config="Ethos_U65_High_End")  # fmt: skip
    found = built.run(feeds)
    assert np.abs(found.astype(int) - golden_of(model, feeds)).max() <= 1
    (call,) = built.device.calls
    assert call.commands[:4] == b"COP2"
    assert len(call.bases) == 5
    text = built.library.sources.files["tvmgen_default_device_ethos_u.c"]
    assert "memcpy(" not in text


@needs_vela
@pytest.mark.slow
def test_a_board_runs_it_without_the_header_of_the_driver(two_regions, tmp_path):
    board = BOARDS["cortex-m55"]
    built, feeds, _ = two_regions
    found = built.run(feeds)
    (tmp_path / "answers.h").write_text(answers_header(built.device.calls, built.places))
    model, _ = layers()
    library = tvmrt.compile(model, devices=["ethos-u"], target="cortex-m55", interface_api="c")
    library.export(tmp_path / "net")
    (tmp_path / "main.c").write_text(program_text(board, library))
    sources = [tmp_path / "main.c", HERE / "ethos_u_driver.c", *(tmp_path / "net").glob("*.c")]
    includes = [tmp_path, tmp_path / "net", *tvmrt.libinfo.find_include_path()]
    options = ['-DANSWERS="answers.h"', "-DKEEP_ERROR"]
    image = link_image(board, sources, [], tmp_path / "image.elf", includes, options)
    (tmp_path / "inputs.bin").write_bytes(feeds["x"].tobytes())
    run_image(board, image, tmp_path)
    np.testing.assert_array_equal(
        np.fromfile(tmp_path / "outputs.bin", np.int8).reshape(found.shape), found
    )
