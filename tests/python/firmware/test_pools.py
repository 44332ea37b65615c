"""Memory pools: placement, caller-provided pools, copied weights, overflow."""

from __future__ import annotations

import ctypes
import re
import subprocess

import numpy as np
import pytest
from conditional_network import conditional_network
from firmware_call import Memory, Network, build_shared, call_packed, pointers, tensor
from firmware_program import DIGITS
from onnx import helper
from onnx_graph import model

import tvmrt

PLAIN = {"interface_api": "c", "unpacked_api": True}
INTERFACES = [
    pytest.param(PLAIN, id="c"),
    pytest.param({"unpacked_api": True}, id="packed-unpacked"),
    pytest.param({}, id="packed-packed"),
]
TWO = {"dtcm": 700, "sram": 1 << 20}
NOT_LOADED, MISPLACED, MISMATCH, TOO_SMALL, INVALID = 0x1103, 0x1100, 0x1102, 0x1101, 0x0803


@pytest.fixture(scope="module")
def digits():
    """One digits network: passing memory does not depend on the kernels."""
    return DIGITS / "digits_int8.onnx"


def compile_network(network, name="net", **options):
    return tvmrt.compile(
        network, target="cortex-m4", runtime="crt", executor="aot", module_name=name, **options
    )


def build(network, folder, **options):
    library = compile_network(network, **options)
    library.export(folder)
    return Network(library, build_shared(folder))


def check_digits(network, images, golden, path, count=5):
    for image, expected in zip(images[:count], golden(path)):
        (found,) = network.run({"image": image}).values()
        np.testing.assert_allclose(found[0], expected, rtol=2e-4, atol=1e-6)


@pytest.mark.parametrize("options", INTERFACES)
def test_caller_provided_pools_of_every_interface(digits, images, golden, tmp_path, options):
    network = build(digits, tmp_path / "out", pools=TWO, **options)
    assert {name: m.nbytes > 0 for name, m in network.memories.items()} == {
        "dtcm": True, "sram": True,
    }  # fmt: skip
    assert network.memories["dtcm"].nbytes <= 700
    check_digits(network, images, golden, digits)


@pytest.mark.parametrize("options", INTERFACES)
def test_image_pools_are_in_their_sections(digits, images, golden, tmp_path, options):
    pools = {"dtcm": (700, ".bss.dtcm"), "sram": 1 << 20}
    network = build(digits, tmp_path / "out", pools=pools, **options)
    assert list(network.memories) == ["sram"]
    check_digits(network, images, golden, digits)
    command = [
        "cc",
        "-std=c99",
        "-c",
        "-I",
        *tvmrt.libinfo.find_include_path(),
        "tvmgen_net_lib0.c",
    ]
    subprocess.run(command, cwd=tmp_path / "out", check=True)
    objdump = ["objdump", "-h", "tvmgen_net_lib0.o"]
    text = subprocess.run(
        objdump, cwd=tmp_path / "out", capture_output=True, text=True, check=True
    ).stdout
    size = next(p.used_bytes for p in network.summary.pools if p.name == "dtcm")
    assert re.search(rf"\.bss\.dtcm +{size:08x} ", text)


def test_the_first_pool_is_preferred(digits):
    one = compile_network(digits, pools={"fast": 1 << 20, "slow": 1 << 20}, **PLAIN).summary
    assert [p.used_bytes > 0 for p in one.pools] == [True, False]
    other = compile_network(digits, pools={"slow": 1 << 20, "fast": 1 << 20}, **PLAIN).summary
    assert [p.name for p in other.pools if p.used_bytes] == ["slow"]
    assert one.arena_bytes == other.arena_bytes


@pytest.mark.slow
@pytest.mark.parametrize(
    "pools",
    [
        pytest.param({"sram": 1 << 20}, id="lent"),
        pytest.param(TWO, id="two"),
        pytest.param({"sram": (1 << 20, ".bss.sram")}, id="own"),
        pytest.param(None, id="none"),
    ],
)
def test_inputs_and_outputs_are_in_the_pools(digits, images, golden, tmp_path, pools):
    network = build(digits, tmp_path / "out", pools=pools, workspace_io=True, **PLAIN)
    map_inputs, map_outputs = network.function("map_inputs"), network.function("map_outputs")
    map_inputs.restype = map_outputs.restype = ctypes.c_void_p  # the struct of one pointer
    given = network.pools()
    source, sink = map_inputs(*given), map_outputs(*given)
    for image, expected in zip(images[:5], golden(digits)):
        ctypes.memmove(source, np.ascontiguousarray(image).ctypes.data, image.nbytes)
        assert network.function("run")(*given) == 0
        found = np.frombuffer(ctypes.string_at(sink, 40), np.float32)
        np.testing.assert_allclose(found, expected, rtol=2e-4, atol=1e-6)
        assert all(memory.is_sound() for memory in network.memories.values())
    if given:
        assert map_inputs(None) is None
        assert map_outputs(None) is None


def test_a_network_with_its_tensors_in_the_pools_may_have_no_operator_for_them(tmp_path):
    network = model(
        [helper.make_node("Identity", ["x"], ["y"]), helper.make_node("Neg", ["x"], ["z"])],
        {"x": np.zeros((3, 5), np.float32), "unread": np.zeros(7, np.int32)}, ["y", "z"],
    )  # fmt: skip
    library = compile_network(network, workspace_io=True, **PLAIN)
    library.export(tmp_path / "out")
    build_shared(tmp_path / "out")
    rows = {row.buffer: row for row in library.summary.plan}
    assert {"x", "unread"} <= set(rows)
    assert rows["unread"].first == -1


PLACES = [
    pytest.param(PLAIN, {"dtcm": 1 << 12, "sram": 1 << 20}, id="c-lent"),
    pytest.param(PLAIN, {"dtcm": (1 << 12, ".bss.dtcm"), "sram": 1 << 20}, id="c-own"),
    pytest.param({}, {"dtcm": (1 << 12, ".bss.dtcm"), "sram": 1 << 20}, id="packed-own"),
    pytest.param(
        {"unpacked_api": True}, {"dtcm": (1 << 14, ".bss.dtcm")}, id="packed-unpacked-own"
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize("options, pools", PLACES)
def test_weights_are_copied_to_a_pool(digits, images, golden, tmp_path, options, pools):
    place = {"conv1*": "dtcm"} if len(pools) > 1 else {"conv*": "flash", "*": "dtcm"}
    network = build(digits, tmp_path / "out", pools=pools, place=place, **options)
    kept = {p.name: p.kept_bytes for p in network.summary.pools}
    assert kept["dtcm"] > 0
    image = [np.ascontiguousarray(images[0])]
    assert network.call(image, [np.zeros((1, 10), np.float32)]) == NOT_LOADED
    given = () if network.packed else network.pools()
    assert network.function("load")(*given) == 0
    check_digits(network, images, golden, digits)
    if "dtcm" in network.memories:
        network.memories["dtcm"] = Memory(network.memories["dtcm"].nbytes)
        assert network.call(image, [np.zeros((1, 10), np.float32)]) == NOT_LOADED
        assert network.function("load")(*network.pools()) == 0
        check_digits(network, images, golden, digits)
        assert network.function("load")(None) == MISPLACED
        assert network.function("load")(pointers([0, 0])) == MISPLACED


def test_weights_are_in_their_assigned_section(digits, images, golden, tmp_path):
    place = {"conv2_weights": "flash@.qspi", "conv2*": "sram"}
    options = {"pools": {"sram": 1 << 20}, "place": place, **PLAIN}
    network = build(digits, tmp_path / "out", **options)
    assert network.function("load")(*network.pools()) == 0
    check_digits(network, images, golden, digits)
    command = ["cc", "-std=c99", "-c", "-I", *tvmrt.libinfo.find_include_path()]
    subprocess.run([*command, "tvmgen_net_weights.c"], cwd=tmp_path / "out", check=True)
    text = subprocess.run(
        ["objdump", "-t", "tvmgen_net_weights.o"], cwd=tmp_path / "out", capture_output=True,
        text=True, check=True,
    ).stdout  # fmt: skip
    assert re.search(r"\.qspi\s.*tvmgen_net_w_conv2_weights", text)
    assert re.search(r"\.rodata\.tvm\s.*tvmgen_net_w_conv1_weights", text)


def test_tensor_is_in_its_assigned_pool(digits):
    library = compile_network(digits, pools=TWO, place={"pool": "sram", "dense": "sram"}, **PLAIN)
    places = {row.buffer: row.pool for row in library.summary.plan}
    assert places["pool"] == places["dense"] == "sram"
    offset = next(row.offset for row in library.summary.plan if row.buffer == "pool")
    assert f"at sram + {offset}: pool, 128 bytes" in library.print_program()
    assert "dtcm" in places.values()


def test_weights_do_not_use_tensor_pools():
    with pytest.raises(ValueError, match=r'use interface_api="c", or let the image contain'):
        compile_network(DIGITS / "digits_f32.onnx", pools=TWO, place={"conv1*": "dtcm"})


@pytest.mark.parametrize("missing", [1, 100])
def test_pool_overflow_is_reported_in_bytes(digits, missing):
    bound = compile_network(digits, **PLAIN, ram=1 << 30).summary.arena_bytes
    compile_network(digits, pools={"sram": bound}, **PLAIN, ram=1 << 30)
    with pytest.raises(ValueError) as problem:
        compile_network(digits, pools={"sram": bound - missing}, **PLAIN, ram=1 << 30)
    text = str(problem.value)
    assert f"pool sram of {bound - missing} bytes is {missing} bytes too small" in text
    assert re.search(r"the peak is at operator \w+ with \d+ bytes", text)
    compile_network(digits, pools={"dtcm": 2048, "sram": bound - missing}, **PLAIN, ram=1 << 30)


def test_reported_pool_size_is_sufficient(digits):
    pools = {"dtcm": 100, "sram": 200, "psram": 50}
    with pytest.raises(ValueError) as problem:
        compile_network(digits, pools=pools, **PLAIN)
    _, _, remedy = str(problem.value).partition("enlarge ")
    larger = {name: int(size) for name, size in re.findall(r"(\w+) to (\d+) bytes", remedy)}
    assert larger
    compile_network(digits, pools={**pools, **larger}, **PLAIN)


def packed_arguments(images):
    image, result = np.ascontiguousarray(images[0]), np.zeros((1, 10), np.float32)
    memory = Memory(1 << 20)
    tensors = [
        tensor(image.ctypes.data, image), tensor(result.ctypes.data, result),
        tensor(memory.address, np.zeros(1 << 20, np.uint8)),
    ]  # fmt: skip
    return tensors, (image, result, memory)


@pytest.fixture(scope="module")
def packed_network(tmp_path_factory):
    folder = tmp_path_factory.mktemp("packed") / "out"
    return build(DIGITS / "digits_f32.onnx", folder, pools={"sram": 1 << 20}, unpacked_api=True)


def shape_of(*extents):
    return (ctypes.c_int64 * len(extents))(*extents)


WRONG = [
    pytest.param(0, "ndim", 3, MISMATCH, id="rank"),
    pytest.param(0, "shape", shape_of(1, 1, 8, 7), MISMATCH, id="shape"),
    pytest.param(0, "bits", 64, MISMATCH, id="type"),
    pytest.param(0, "byte_offset", 4, MISMATCH, id="offset"),
    pytest.param(1, "shape", shape_of(1, 9), MISMATCH, id="output"),
    pytest.param(2, "shape", shape_of(16), TOO_SMALL, id="pool"),
    pytest.param(2, "data", None, MISPLACED, id="no-pool"),
]


@pytest.mark.parametrize("index, field, value, code", WRONG)
def test_complete_tensor_descriptors_are_checked(packed_network, images, index, field, value, code):
    tensors, kept = packed_arguments(images)
    function = packed_network.function("run_checked")
    assert call_packed(function, tensors) == 0
    before = kept[1].copy()
    setattr(tensors[index], field, value)
    assert call_packed(function, tensors) == code
    assert (kept[1] == before).all()


def test_missing_packed_arguments_are_refused(packed_network):
    run = packed_network.function("run_checked")
    assert run(None, (ctypes.c_int * 3)(7, 7, 7), 3, None, None, None) == INVALID
    assert run((ctypes.c_void_p * 3)(), None, 3, None, None, None) == INVALID


def test_tensors_with_gaps_are_refused(packed_network, images):
    tensors, _kept = packed_arguments(images)
    function = packed_network.function("run_checked")
    strides = shape_of(64, 64, 8, 1)
    tensors[0].strides = ctypes.addressof(strides)
    assert call_packed(function, tensors) == 0
    strides[2] = 9
    assert call_packed(function, tensors) == MISMATCH


@pytest.mark.parametrize("pools", [None, {"dtcm": 32, "sram": 1 << 12}], ids=["own", "two"])
@pytest.mark.parametrize("options", INTERFACES)
def test_operators_under_a_condition_run_by_every_interface(tmp_path, options, pools):
    runtime = pytest.importorskip("onnxruntime")
    onnx_model = conditional_network()
    session = runtime.InferenceSession(onnx_model.SerializeToString())
    network = build(onnx_model, tmp_path / "out", pools=pools, **options)
    for row in ([1, 2, 3, 4], [-1, -2, -3, -4]):
        x = np.array([row], np.float32)
        np.testing.assert_allclose(network.run({"x": x})["y"], session.run(None, {"x": x})[0], 1e-5)
