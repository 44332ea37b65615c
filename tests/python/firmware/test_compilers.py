"""Firmware by other compilers and options: built, run in QEMU, compared.

A few builds are everyday tests, more are slow tests; this runs all 1,183:

    python tests/bench/firmware/every_build.py
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from archives import unpack
from board_layers import layers
from boards import BOARDS, link_image, run_image
from boards import program_text as counting_program
from compilers import (
    COMPILERS,
    Build,
    build_image,
    includes_of,
    run_built,
    sampled_builds,
    sources_of,
)
from firmware_program import DIGITS, program_text
from varied_networks import varied_networks

import tvmrt

NETWORKS = {"small": layers(quantised=True), "real": layers(quantised=False)}
EVERY_DAY = (
    Build("clang", "-Oz", "plain", "cortex-m4"),
    Build("gcc", "-O0", "trapping", "cortex-m7"),
    Build("gcc", "-Os", "frames", "cortex-m4"),
    Build("gcc", "-O3", "lto", "riscv32"),
    Build("clang", "-O2", "protected", "cortex-m55"),
    Build("zig", "-O1", "frames", "cortex-m33"),
    Build("clang", "-Os", "plain", "rv32imac_zve32x"),
)
PICTURES = 3


def unpacked(target: str, folder: Path) -> list[Path]:
    """Return the archives of both networks for a target."""
    places = []
    folder.mkdir(parents=True, exist_ok=True)
    for name, model in NETWORKS.items():
        compiled = tvmrt.compile(model, target=target, interface_api="c", module_name=name)
        compiled.export(folder / f"{name}.tar")
        unpack(folder / f"{name}.tar", folder / name)
        places.append(folder / name)
    return places


@pytest.fixture(scope="module")
def expected(images) -> np.ndarray:
    """Return onnxruntime's results for some images, the networks' columns side by side."""
    pytest.importorskip("onnxruntime")
    return by_onnxruntime(images[:PICTURES])


def by_onnxruntime(images: np.ndarray) -> np.ndarray:
    import onnxruntime

    found = []
    for network in NETWORKS.values():
        session = onnxruntime.InferenceSession(network.SerializeToString())
        found.append(np.concatenate([session.run(None, {"image": each})[0] for each in images]))
    return np.hstack(found)


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    """Return archives by target, each compiled once."""
    made: dict[str, list[Path]] = {}

    def of(target: str) -> list[Path]:
        if target not in made:
            made[target] = unpacked(target, tmp_path_factory.mktemp(target))
        return made[target]

    return of


def results(
    build: Build, archives: list[Path], images: np.ndarray, folder: Path, *dialect: str
) -> np.ndarray:
    """Return the results of both networks for some images."""
    program = folder / "main.c"
    program.write_text(program_text(list(NETWORKS), "c", files=("images.bin", "results.bin")))
    image = build_image(build, program, archives, folder / "objects", dialect or ("-std=c99",))
    images.tofile(folder / "images.bin")
    run_built(build, image, folder)
    return np.fromfile(folder / "results.bin", np.float32).reshape(len(images), 20)


SOME = [pytest.param(build, marks=pytest.mark.slow, id=str(build)) for build in sampled_builds(12)]


@pytest.mark.everyday(1)
@pytest.mark.parametrize("build", [*(pytest.param(b, id=str(b)) for b in EVERY_DAY), *SOME])
def test_results_are_right_with_every_compiler(build, archives, images, expected, tmp_path):
    if build.missing_tool():
        pytest.skip(f"{build.missing_tool()} is not installed")
    found = results(build, archives(build.target), images[:PICTURES], tmp_path)
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["cortex-m4", "cortex-m55"])
def test_clang_needs_as_many_instructions_as_gcc(target, images, tmp_path):
    network = tvmrt.compile(DIGITS / "digits_int8.onnx", target=target, interface_api="c",
                            module_name="net")  # fmt: skip
    network.export(tmp_path / "net.tar")
    unpack(tmp_path / "net.tar", tmp_path / "net")
    program = tmp_path / "main.c"
    program.write_text(counting_program(BOARDS[target], network))
    images[0].tofile(tmp_path / "inputs.bin")
    counts = {}
    for compiler in ("gcc", "clang"):
        build = Build(compiler, "-Os", "plain", target)
        if build.missing_tool():
            pytest.skip(f"{build.missing_tool()} is not installed")
        image = build_image(build, program, [tmp_path / "net"], tmp_path / compiler)
        run_image(build.board, image, tmp_path, counted=True)
        counts[compiler] = int(np.fromfile(tmp_path / "costs.bin", np.uint32)[0])
    assert counts["clang"] <= 1.15 * counts["gcc"]


def made(archive: Path, folder: Path, *options: str) -> subprocess.CompletedProcess:
    """Return the output of the Makefile with these options, in a copy of an unpacked archive."""
    shutil.copytree(archive, folder)
    command = ["make", "-s", "-C", folder, "CC=arm-none-eabi-gcc --specs=picolibc.specs", *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "options", "sentence"),
    [
        ("cortex-m4", "CFLAGS=-O2 -ffixed-r9 -fno-omit-frame-pointer",
         "the int8 kernels are C in place of assembly"),
        ("cortex-m55", "TARGET_FLAGS=-mcpu=cortex-m55+nomve -mthumb -mfloat-abi=hard",
         "with these options there is no Helium, for which the network was compiled"),
    ],
    ids=["registers", "helium"],
)  # fmt: skip
def test_missing_compiler_options_are_reported_once(
    archives, images, expected, tmp_path, target, options, sentence
):
    board = BOARDS[target]
    if board.missing_tool():
        pytest.skip(f"{board.missing_tool()} is not installed")
    archive, folder = archives(target)[0], tmp_path / "few"
    done = made(archive, folder, options)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(sentence) == 1
    assert done.stderr.count("\n") == 1, "the compiler's own words for it are of no use to anybody"
    program = tmp_path / "main.c"
    program.write_text(program_text(["small"], "c", files=("images.bin", "results.bin")))
    includes = [folder / "codegen/host/include", folder / "runtime/include"]
    libraries = [folder / "libsmall.a"]
    image = link_image(board, [program], libraries, tmp_path / "image.elf", includes)
    images[:PICTURES].tofile(tmp_path / "images.bin")
    run_image(board, image, tmp_path)
    found = np.fromfile(tmp_path / "results.bin", np.float32).reshape(PICTURES, -1)
    np.testing.assert_allclose(found, expected[:, : found.shape[1]], rtol=2e-4, atol=1e-6)


def test_makefile_is_silent_about_built_kernels(archives, tmp_path):
    if BOARDS["cortex-m4"].missing_tool():
        pytest.skip(f"{BOARDS['cortex-m4'].missing_tool()} is not installed")
    archive = archives("cortex-m4")[0]
    assert made(archive, tmp_path / "usual").stderr == ""
    wrong = made(archive, tmp_path / "wrong", "CFLAGS=-fno-such-option")
    assert wrong.returncode != 0 and "-fno-such-option" in wrong.stderr


CPLUSPLUS = ("-x", "c++", "-std=gnu++11", "-Wall", "-Wextra", "-Werror", "-fno-exceptions")


def need_cplusplus(build: Build) -> None:
    if build.missing_tool():
        pytest.skip(f"{build.missing_tool()} is not installed")
    command = [build.board.compiler, "-print-prog-name=cc1plus"]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    if not Path(found).is_absolute():
        pytest.skip(f"{build.board.compiler} has no C++")


@pytest.mark.parametrize(
    "target", ["cortex-m4", *(pytest.param(t, marks=pytest.mark.slow) for t in ("cortex-m55",))]
)
def test_sources_are_cplusplus_as_well(target, archives, images, expected, tmp_path):
    """As in a sketch whose files all end in .cpp; the program that calls them stays C."""
    build = Build("gcc", "-Os", "plain", target)
    need_cplusplus(build)
    found = results(build, archives(target), images[:PICTURES], tmp_path, *CPLUSPLUS)
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=1e-6)


@pytest.mark.everyday(3)
@pytest.mark.parametrize("name", varied_networks())
def test_sources_of_other_operators_are_cplusplus(name, tmp_path):
    build = Build("gcc", "-O0", "plain", "cortex-m4")
    need_cplusplus(build)
    model = varied_networks()[name]
    compiled = tvmrt.compile(model, target="cortex-m4", interface_api="packed", module_name="net")
    compiled.export(tmp_path / "net.tar")
    unpack(tmp_path / "net.tar", tmp_path / "net")
    command = [*build.flags(), *CPLUSPLUS, "-fsyntax-only", *includes_of([tmp_path / "net"])]
    command += map(str, sources_of(tmp_path / "net"))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


EXTENSIONS = re.compile(r"__builtin_|__asm|__attribute__|__extension__|__typeof")
CORES = (("-mcpu=cortex-m3",), ("-mcpu=cortex-m4", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16"))


@pytest.mark.parametrize("core", CORES, ids=lambda core: core[0])
def test_other_compilers_get_no_gnu_extensions(core, archives):
    """A compiler other than GNU's reads standard C without a GNU extension."""
    build = Build("gcc", "-O2", "plain", "cortex-m4")
    if build.missing_tool():
        pytest.skip(f"{build.missing_tool()} is not installed")
    places = archives("cortex-m4")
    command = [build.board.compiler, *core, "-mthumb", "--specs=picolibc.specs", "-std=c11"]
    command += ["-pedantic-errors", "-O2", "-U__GNUC__", "-E", *includes_of(places)]
    for path in (path for place in places for path in sources_of(place)):
        text = subprocess.run(
            [*command, str(path)], capture_output=True, text=True, check=True
        ).stdout
        assert own_lines(text, places), "nothing of ours was read"
        for line in own_lines(text, places):
            assert not EXTENSIONS.search(line), f"{path.name}: {line}"


def own_lines(text: str, places: list[Path]) -> list[str]:
    """Return lines of a preprocessed file that are not from system headers."""
    lines, own = [], False
    for line in text.splitlines():
        if line.startswith("# "):
            own = any(str(place) in line for place in places)
        elif own:
            lines.append(line)
    return lines


@pytest.mark.everyday(3)
@pytest.mark.parametrize("words", [(), ("-U__GNUC__",)], ids=["gnu", "other"])
@pytest.mark.parametrize("compiler", COMPILERS)
def test_sources_are_standard_c(compiler, words, archives):
    build = Build(compiler, "-O2", "plain", "cortex-m4")
    if build.missing_tool():
        pytest.skip(f"{build.missing_tool()} is not installed")
    places = archives("cortex-m4")
    # picolibc defines INFINITY as a number that is too large for unknown compilers
    command = [*build.flags(), "-std=c11", "-pedantic-errors", "-Werror", "-Wno-overflow", *words]
    command += ["-fsyntax-only", *includes_of(places)]
    command += [str(path) for place in places for path in sources_of(place)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
