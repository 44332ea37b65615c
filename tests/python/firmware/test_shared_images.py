"""Networks compiled together: one workspace, no name clashes, equal weights stored once."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import boards
import numpy as np
import pytest
from archives import unpack
from firmware_call import Memory, Network, build_shared
from firmware_program import DIGITS, build, program_text, run

import tvmrt

F32, INT8 = DIGITS / "digits_f32.onnx", DIGITS / "digits_int8.onnx"
PLAIN = {"target": "cortex-m4", "interface_api": "c", "unpacked_api": True}
INTERFACES = [
    pytest.param(PLAIN, id="c"),
    pytest.param({"target": "cortex-m4", "unpacked_api": True}, id="packed-unpacked"),
    pytest.param({"target": "cortex-m4"}, id="packed-packed"),
]


def networks(image, folder, pools=None):
    image.export(folder)
    shared = build_shared(folder)
    return [Network(library, shared, pools) for library in image.libraries.values()]


def check(found, images, golden, paths):
    for image, *expected in zip(images[:4], *(golden(path) for path in paths)):
        for network, row in zip(found, expected):
            (probabilities,) = network.run({"image": image}).values()
            np.testing.assert_allclose(probabilities[0], row, rtol=2e-4, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("options", INTERFACES)
def test_networks_take_turns_in_one_workspace(images, golden, tmp_path, options):
    image = tvmrt.compile_together({"a": F32, "b": INT8}, **options)
    alone = [tvmrt.compile(path, **options).summary.arena_bytes for path in (F32, INT8)]
    assert image.arena_bytes == max(alone)
    check(networks(image, tmp_path / "out"), images, golden, (F32, INT8))
    text = (tmp_path / "out" / "tvmgen_image_memory.h").read_text()
    assert f"tvmgen_image_workspace[{max(alone)}]" in text


def test_concurrent_networks_do_not_share_memory(images, golden, tmp_path):
    options = {**PLAIN, "pools": {"sram": 1 << 20}, "workspace_io": False}
    image = tvmrt.compile_together({"a": F32, "b": INT8}, concurrent=True, **options)
    alone = [tvmrt.compile(path, **options).summary.arena_bytes for path in (F32, INT8)]
    assert image.arena_bytes == sum(alone)
    first, second = (library.summary.plan for library in image.libraries.values())
    assert max(r.offset + r.size for r in first) <= min(r.offset for r in second)
    memory = {"sram": Memory(image.arena_bytes)}
    check(networks(image, tmp_path / "out", memory), images, golden, (F32, INT8))


def test_groups_of_networks_take_turns(images, golden, tmp_path):
    paths = {"a": F32, "b": INT8, "c": INT8, "d": INT8}
    options = {**PLAIN, "pools": {"sram": 1 << 20}, "place": {"conv1_*": "sram"}}
    image = tvmrt.compile_together(paths, concurrent=[["a", "b"], ["c", "d"]], **options)
    sizes = {name: library.summary.arena_bytes for name, library in image.libraries.items()}
    kept = {n: lib.summary.pools[0].kept_bytes for n, lib in image.libraries.items()}
    own = {name: sizes[name] - kept[name] for name in paths}
    expected = sum(kept.values()) + max(own["a"] + own["b"], own["c"] + own["d"])
    assert image.arena_bytes == expected
    found = networks(image, tmp_path / "out", {"sram": Memory(image.arena_bytes)})
    for network in found:
        assert network.function("load")(*network.pools()) == 0
    check(found, images, golden, list(paths.values()))


def test_one_network_runs_while_another_is_in_the_middle(images, golden, tmp_path):
    pools = {"sram": 1 << 20}
    image = tvmrt.compile_together({"a": F32, "b": INT8}, concurrent=True, pools=pools, **PLAIN)
    memory = {"sram": Memory(image.arena_bytes)}
    first, second = networks(image, tmp_path / "out", memory)
    result = np.zeros((1, 10), np.float32)
    picture = np.ascontiguousarray(images[0])
    state = np.zeros(256, np.uint8)
    structs = [np.array([x.ctypes.data], np.uint64) for x in (picture, result)]
    arguments = [x.ctypes.data_as(np.ctypeslib.ctypes.c_void_p) for x in (state, *structs)]
    assert first.function("step_begin")(*arguments, *first.pools()) == 0
    while first.function("step")(arguments[0], 1) == 1:
        check([second], images[:1], golden, (INT8,))
    np.testing.assert_allclose(result[0], golden(F32)[0], rtol=2e-4, atol=1e-6)


def test_caller_provided_pools_have_the_largest_network_size(images, golden, tmp_path):
    pools = {"dtcm": 700, "sram": 1 << 20}
    image = tvmrt.compile_together({"a": F32, "b": INT8}, pools=pools, **PLAIN)
    sizes = {pool.name: pool.used_bytes for pool in image.pools}
    each = [{p.name: p.used_bytes for p in lib.summary.pools} for lib in image.libraries.values()]
    assert sizes == {name: max(row[name] for row in each) for name in pools}
    memory = {name: Memory(nbytes) for name, nbytes in sizes.items()}
    check(networks(image, tmp_path / "out", memory), images, golden, (F32, INT8))
    header = (tmp_path / "out" / "tvmgen_image.h").read_text()
    for name, nbytes in sizes.items():
        assert f"#define TVMGEN_IMAGE_{name.upper()}_WORKSPACE_POOL_SIZE {nbytes}\n" in header


@pytest.mark.slow
@pytest.mark.parametrize("concurrent", [False, True])
def test_copied_weights_outlive_the_other_networks(images, golden, tmp_path, concurrent):
    options = {**PLAIN, "pools": {"sram": 1 << 20}, "place": {"conv1*": "sram"}}
    image = tvmrt.compile_together({"a": F32, "b": INT8}, concurrent=concurrent, **options)
    memory = {"sram": Memory(image.arena_bytes)}
    found = networks(image, tmp_path / "out", memory)
    for network in found:
        assert network.function("load")(*network.pools()) == 0
    check(found, images, golden, (F32, INT8))
    check(found, images, golden, (F32, INT8))


def test_equal_weights_are_stored_once(images, golden, tmp_path):
    image = tvmrt.compile_together({"a": F32, "b": F32, "c": INT8}, **PLAIN)
    alone = {path: tvmrt.compile(path, **PLAIN).sources.weight_buffers for path in (F32, INT8)}
    contents = {(str(b.dtype), b.data.tobytes()) for rows in alone.values() for b in rows}
    assert image.weights_bytes == sum(len(data) for _, data in contents)
    found = networks(image, tmp_path / "out")
    check(found, images, golden, (F32, F32, INT8))
    assert "const float" not in (tmp_path / "out" / "tvmgen_b_weights.c").read_text()


def test_the_archive_has_a_module_a_network_and_makes_one_library(images, golden, tmp_path):
    options = {**PLAIN, "target": "host", "runtime": "crt", "executor": "aot"}
    image = tvmrt.compile_together({"a": F32, "b": INT8}, image_name="both", **options)
    image.export(tmp_path / "both.tar")
    unpack(tmp_path / "both.tar", tmp_path / "net")
    metadata = json.loads((tmp_path / "net/metadata.json").read_text())
    assert list(metadata["modules"]) == ["a", "b"]
    subprocess.run(["make", "-s", "CC=cc", "AR=ar"], cwd=tmp_path / "net", check=True)
    (tmp_path / "main.c").write_text(program_text(["a", "b"], "c"))
    library = tmp_path / "net" / "libboth.a"
    includes = [tmp_path / "net/codegen/host/include", tmp_path / "net/runtime/include"]
    found = run(build(tmp_path, [tmp_path / "main.c", library], includes), images, 20)
    expected = np.hstack([golden(path) for path in (F32, INT8)])
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=1e-6)


def test_an_image_runs_on_a_board(images, golden, tmp_path):
    board = boards.BOARDS["cortex-m4"]
    tvmrt.compile_together({"a": F32, "b": INT8}, **PLAIN).export(tmp_path / "image.tar")
    library = boards.build_library(tmp_path / "image.tar", board, tmp_path / "net")
    text = program_text(["a", "b"], "c", files=("images.bin", "results.bin"))
    (tmp_path / "main.c").write_text(text)
    includes = [tmp_path / "net/codegen/host/include", tmp_path / "net/runtime/include"]
    image = tmp_path / "image.elf"
    boards.link_image(board, [tmp_path / "main.c"], [library], image, includes)
    images[:5].tofile(tmp_path / "images.bin")
    boards.run_image(board, image, tmp_path)
    found = np.fromfile(tmp_path / "results.bin", np.float32).reshape(5, 20)
    expected = np.hstack([golden(path)[:5] for path in (F32, INT8)])
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=1e-6)


REFUSED = [
    pytest.param({"a": F32, "A": INT8}, {}, "have the same C name", id="case"),
    pytest.param({"image": F32}, {}, "image and the image have the same C name", id="image"),
    pytest.param({}, {}, "no network to compile", id="none"),
    pytest.param({"a": F32}, {"image_name": "a b"}, "is not a C identifier", id="name"),
    pytest.param({"a": F32, "b": INT8}, {"concurrent": [["a", "x"]]}, "unknown network x",
                 id="group"),
    pytest.param({"a": F32, "b": INT8}, {"concurrent": [["a"], ["a", "b"]]}, "a is in two groups",
                 id="groups"),
    pytest.param({"a": F32}, {"target": "host"}, 'compiling networks together needs runtime="crt"',
                 id="hosted"),
    pytest.param({"a": F32}, {"executor": "graph", "runtime": "crt"}, 'executor="aot"',
                 id="graph"),
    pytest.param(
        {"a": F32, "b": INT8}, {"pools": {"sram": 4600}, "concurrent": True, **PLAIN},
        r"pool sram of 4600 bytes is \d+ bytes too small for the network", id="too-small",
    ),
]  # fmt: skip


@pytest.mark.parametrize("models, options, match", REFUSED)
def test_impossible_images_are_refused_with_the_reason(models, options, match):
    options = {"target": "cortex-m4", **options}
    with pytest.raises(ValueError, match=match):
        tvmrt.compile_together(models, **options)


def test_no_shared_library_is_made_of_an_image(tmp_path):
    image = tvmrt.compile_together({"a": F32}, **PLAIN)
    with pytest.raises(ValueError, match=r"export to a folder or \.tar"):
        image.export(tmp_path / "both.so")


def text_bytes(board: boards.Board, sources: list[Path], net: Path) -> int:
    """Return code and table bytes of C files with the options of an archive's Makefile."""
    total = 0
    for source in sources:
        result = net / f"{source.stem}.text.o"
        includes = [f"-I{net / part}" for part in ("codegen/host/include", "runtime/include")]
        subprocess.run(
            [board.compiler, *board.flags, "--specs=picolibc.specs", "-Os", "-std=c99", *includes,
             "-c", str(source), "-o", str(result)], check=True,
        )  # fmt: skip
        command = [f"{board.tool}-size", str(result)]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        total += int(text.splitlines()[1].split()[0])
    return total


def test_networks_share_the_code_of_their_kernels(tmp_path):
    board = boards.BOARDS["cortex-m4"]
    image = tvmrt.compile_together({"a": INT8, "b": INT8}, **PLAIN)
    image.export(tmp_path / "image.tar")
    unpack(tmp_path / "image.tar", tmp_path / "net")
    sources = tmp_path / "net/codegen/host/src"
    assert not list(sources.glob("*_lib1.c"))
    shared = text_bytes(board, [sources / image.operators], tmp_path / "net")
    alone = tvmrt.compile(INT8, module_name="a", **PLAIN).sources.files["tvmgen_a_lib1.c"]
    (sources / "alone.c").write_text(alone)
    assert shared <= 0.65 * 2 * text_bytes(board, [sources / "alone.c"], tmp_path / "net")


def test_one_network_keeps_its_own_file_of_operators():
    image = tvmrt.compile_together({"a": F32, "b": INT8}, **PLAIN)
    assert image.operators == "tvmgen_image_operators.c"
    alone = tvmrt.compile_together({"a": F32}, **PLAIN)
    assert alone.operators is None and "tvmgen_a_lib1.c" in alone.libraries["a"].sources.files


def test_layers_that_are_alike_are_one_struct():
    """Two networks of the same file share every layer struct."""
    image = tvmrt.compile_together({"a": INT8, "b": INT8}, **PLAIN)
    alone = tvmrt.compile(INT8, **PLAIN)
    structs = [
        sum(text.count("static const tvmrt_micro_conv_i8 ") for text in files.values())
        for files in ({"operators": image.files[image.operators]}, alone.sources.files)
    ]
    assert structs[0] == structs[1] > 1
