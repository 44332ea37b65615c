"""Quantised programs of PyTorch: integer kernels for all layers, equal to torch node by node."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
from torch_networks import NETWORKS, quantized_program

import tvmrt
from tvmrt.cli import main
from tvmrt.error import TvmrtWarning

torch = pytest.importorskip("torch")
STEPS = re.compile(r"(\d+) values of its quantised .* first at node (quantize_per_tensor\w*) \(")
LARGEST_SHARE = 1e-3  # of quantised values that may be a step away
DRAWS = 6
CASES = [(name, kind, False) for kind in ("x86", "xnnpack") for name in NETWORKS]
RAM = {"DsCnn": 14_000, "ResNet8": 37_000}  # bytes of tensors on a Cortex-M4


def quantized_values(program) -> int:
    nodes = program.graph_module.graph.nodes
    made = [n for n in nodes if "quantize_per_tensor" in str(n.target) and n.name[0] == "q"]
    return sum(n.meta["val"].numel() for n in made)


def check_layers(library) -> None:
    """Check that all products are of integers."""
    rows = library.summary.operators
    products = {each.op for each in rows if each.macs}
    assert products <= {"qconv", "qmatmul"}, products
    assert products


@pytest.mark.slow
@pytest.mark.parametrize(
    ("network", "kind", "in_training"),
    [*CASES, ("DsCnn", "arm", False), ("DsCnn", "arm", True), ("KeywordTcn", "x86", True)],
)
def test_values_are_those_of_torch_or_the_first_other_node_is_named(network, kind, in_training):
    program = quantized_program(network, kind, in_training)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        library = tvmrt.compile(program)
    check_layers(library)
    notes = [str(each.message) for each in caught if issubclass(each.category, TvmrtWarning)]
    print(network, kind, *notes or ["all bits equal"])
    for note in notes:
        count = int(STEPS.search(note)[1])
        assert 0 < count < LARGEST_SHARE * DRAWS * quantized_values(program)


@pytest.mark.slow
@pytest.mark.parametrize("network", RAM)
def test_boards_have_integer_kernels_and_little_memory(network, tmp_path):
    path = tmp_path / "net.pt2"
    torch.export.save(quantized_program(network, "x86"), path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TvmrtWarning)
        library = tvmrt.compile(path, target="cortex-m4", trusted=True)
    check_layers(library)
    used = library.summary.arena_bytes
    print(f"{network}: {used} bytes of RAM, {library.summary.weights_bytes} bytes of weights")
    assert used <= RAM[network]


class _Shifted:
    """``torch.onnx.export`` with another zero point in the second activation."""

    def __init__(self, export) -> None:
        self.export = export

    def __call__(self, *arguments, **options):
        exported = self.export(*arguments, **options)
        network = exported.model_proto
        node = [each for each in network.graph.node if each.op_type == "QuantizeLinear"][1]
        zero = next(each for each in network.graph.initializer if each.name == node.input[2])
        number = np.frombuffer(zero.raw_data, np.uint8)[0]
        network.graph.initializer.add(
            name="other_zero", data_type=zero.data_type, raw_data=bytes([int(number) + 2])
        )
        node.input[2] = "other_zero"
        self.model_proto, self.name = network, node.output[0]
        return self


class _Line(torch.nn.Module):
    shape = (2, 4)

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU())
        self.last = torch.nn.Linear(8, 3)

    def forward(self, x):
        return self.last(self.layers(x))


@pytest.fixture(scope="module")
def program():
    NETWORKS["Line"] = _Line
    try:
        return quantized_program("Line", "x86")
    finally:
        del NETWORKS["Line"]


@pytest.mark.slow
def test_a_difference_of_two_steps_is_an_error_with_the_node(program, monkeypatch):
    shifted = _Shifted(torch.onnx.export)
    monkeypatch.setattr(torch.onnx, "export", shifted)
    with pytest.raises(ValueError, match=r"other results than the original: for x = ") as caught:
        tvmrt.load(program, cache=False)
    assert f" node {shifted.name} has " in str(caught.value)


@pytest.mark.slow
def test_errors_of_quantised_programs(program, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    torch.export.save(program, "net.pt2")
    with open("net.pt2", "rb") as file:
        content = file.read()
    for size in (0, 100, len(content) - 100):
        (tmp_path / "cut.pt2").write_bytes(content[:size])
        with pytest.raises(
            ValueError, match=r"cut.pt2 is not a complete exported .*; write it again"
        ):
            tvmrt.load("cut.pt2", trusted=True)
    torch.save(_Line().state_dict(), "net.pth")
    assert main(["compile", "net.pth", "--trusted", "-o", "net.so"]) == 2
    error = capsys.readouterr().err
    assert "net.pth is not TorchScript (" in error and "weights, load them into the mod" in error
    with pytest.raises(ValueError, match=r"give the program that torch\.export\.export\(\) makes"):
        tvmrt.load(program.module(), shapes={"x": (2, 4)})
