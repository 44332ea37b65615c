"""Kernels compared with plain C on random layers, one program per instruction set (tests/checkasm).

The error text contains the command that repeats a failing layer; TVMRT_CHECKASM_SEED selects other
layers and inputs.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pytest
from boards import BOARDS, link_image, run_image

from tvmrt.compiler import processor
from tvmrt.compiler.codegen.target import LEVELS, Target, get_target, native_family
from tvmrt.compiler.codegen.window.tiles_i8 import FORMATS, tile_options
from tvmrt.compiler.export.toolchain import OPTIMISE
from tvmrt.toolchains import zig

ROOT = Path(__file__).resolve().parents[3]
CHECKS = ROOT / "tests" / "checkasm"
SEED = os.environ.get("TVMRT_CHECKASM_SEED", "1")
HARNESS = ("checkasm", "reference", "check_layers")
WARNINGS = "-Wall -Wextra -Werror -Wno-unused-function -Wno-array-bounds".split()
COMMON = ["-D_DEFAULT_SOURCE", f"-I{ROOT / 'include'}", f"-I{CHECKS}"]
UNDEFINED = "-fsanitize=undefined -fno-sanitize-recover=all".split()
AMX_MODEL = ["-include", str(Path(__file__).with_name("amx_model.h"))]

# CPU flags that an x86-64 level requires in addition to those of the previous level
X86_WORDS = {
    "v2": "sse4_2", "v3": "avx2 fma", "v4": "avx512f avx512bw avx512cd avx512dq avx512vl",
    "v4vnni": "avx512_vnni", "v4vbmi": "avx512vbmi", "v4bf16": "avx512_bf16", "v4amx": "",
    "v3vnni": "avx_vnni",
}  # fmt: skip
QEMU = {
    "aarch64-linux": ("aarch64-linux-gnu", "qemu-aarch64 -cpu max"),
    "armv7-linux": ("arm-linux-gnueabihf", "qemu-arm"),
    "riscv64-linux": ("riscv64-linux-gnu", "qemu-riscv64 -cpu rv64,v=true,vlen=128,elen=64"),
}


@dataclass(frozen=True)
class Program:
    """Commands of the checks of one instruction set; ``part`` is a part of all layers."""

    level: str
    flags: tuple[str, ...] = OPTIMISE
    cc: str = "gcc"
    part: float = 0.5
    link: tuple[str, ...] = ()

    @property
    def target(self) -> Target | None:
        """Return the ISA level; None for plain C and boards."""
        family, _, name = self.level.partition(":")
        return next((each for each in LEVELS.get(family, ()) if each.name == name), None)

    @property
    def tools(self) -> tuple[str, list[str]]:
        """Return the compiler and the emulator command, if one is needed."""
        family, _, name = self.level.partition(":")
        is_own = family == native_family() and name == LEVELS[family][0].name
        if family not in QEMU or is_own:
            return self.cc, []
        triple, emulator = QEMU[family]
        return f"{triple}-gcc", [*emulator.split(), "-L", f"/usr/{triple}"]

    @property
    def missing(self) -> str:
        """Name the tools and instructions that this machine lacks; empty if there are none."""
        family, _, name = self.level.partition(":")
        compiler, emulator = self.tools
        lacks = [tool for tool in (compiler, *emulator[:1]) if shutil.which(tool) is None]
        if family == "x86-64":
            below = [*list(X86_WORDS)[: list(X86_WORDS).index(name)], name]
            below = ["v2", "v3", "v3vnni"] if name == "v3vnni" else below
            words = {word for each in below for word in X86_WORDS[each].split()}
            lacks += sorted(words - set(processor.flags()))
        return ", ".join(lacks)

    def build(self, folder: Path, harness: Path) -> list[str]:
        """Return the command that runs the program, after building it in a folder."""
        generate(self.level, folder, self.part)
        cc, runner = self.tools
        flags = [*self.flags, *(self.target.flags if self.target else ())]
        if self.level.endswith("amx") and "amx_int8" not in processor.flags():
            flags += AMX_MODEL
        objects = build_harness(harness / cc, cc)
        for source in sorted(folder.glob("layers*.c")):
            objects.append(source.with_suffix(".o"))
            call([cc, "-std=c99", *WARNINGS, *COMMON, *flags, "-c", source, "-o", objects[-1]])
        call([cc, *objects, *self.link, "-lm", "-o", folder / "checkasm"])
        return [*runner, str(folder / "checkasm"), "--data", str(folder / "layers.bin")]


def call(command: list[object]) -> None:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-6000:]


def generate(level: str, folder: Path, part: float, seed: str = SEED) -> None:
    call([sys.executable, CHECKS / "generate.py", level, folder, "--seed", seed, "--part", part])


def build_harness(folder: Path, cc: str) -> list[Path]:
    """Compile the objects without kernels, once per compiler."""
    objects = [folder / f"{name}.o" for name in HARNESS]
    if not folder.exists():
        folder.mkdir(parents=True)
        flags = ["-std=c11", "-D_GNU_SOURCE", "-O2", "-ffp-contract=off", "-Wall", "-Wextra"]
        for name, made in zip(HARNESS, objects):
            call([cc, *flags, *COMMON, "-Werror", "-c", CHECKS / f"{name}.c", "-o", made])
    return objects


@pytest.fixture(scope="session")
def harness(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("harness")


def check(program: Program, folder: Path, harness: Path) -> None:
    if program.missing:
        pytest.skip(f"{program.missing} is not here")
    command = [*program.build(folder, harness), "--seed", SEED]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (
        f"{shlex.join(command)}\n{done.stdout[-4000:]}{done.stderr[-2000:]}"
    )
    assert re.search(r"^[1-9]\d* checks, 0 failures", done.stdout, re.M), done.stdout


QUICK = ("-O1", "-ffp-contract=fast")
EVERYDAY = {
    **({"neon": Program("aarch64-linux:neon", QUICK)} if processor.machine() == "aarch64" else {}),
    "avx2": Program("x86-64:v3", QUICK, part=0.1),
    "avx512": Program("x86-64:v4bf16", QUICK, part=0.2),
    "plain": Program("plain", QUICK, part=0.1),
    "boards": Program("board:host", (*QUICK, *UNDEFINED), part=1.0, link=("-fsanitize=undefined",)),
}


@pytest.mark.skipif(sys.platform != "linux", reason="memory has guards on Linux alone")
@pytest.mark.parametrize("name", EVERYDAY)
def test_host_kernels_match_plain_c(name, tmp_path, harness):
    check(EVERYDAY[name], tmp_path, harness)
    target = EVERYDAY[name].target
    if target is not None:  # the compiler chooses any of these for one pixel
        text = (tmp_path / "layers.c").read_text()
        drawn = {int(n) for n in re.findall(r"tvmrt_tile_i8_(\d+)x1_", text)}
        assert {nr for nr, _ in tile_options(FORMATS[target.int8], 64, 1)} <= drawn


SANITISED = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
ALL = {
    **{f"{family}:{level.name}": Program(f"{family}:{level.name}")
       for family in ("x86-64", *QEMU) for level in LEVELS[family]},
    "plain": Program("plain", ("-O2",)),
    "avx2-clang": Program("x86-64:v3", cc="clang", part=0.3),
    "avx512-clang": Program("x86-64:v4vnni", cc="clang", part=0.3),
    "sanitised": Program("x86-64:v4vnni", SANITISED, part=0.3, link=SANITISED),
    "boards": Program("board:host", (*QUICK, *UNDEFINED), part=3, link=("-fsanitize=undefined",)),
    "boards-without-fpu": Program("board:host-nofpu", ("-O2",), part=2),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory has guards on Linux alone")
@pytest.mark.parametrize("name", ALL)
def test_kernels_of_each_isa_match_plain_c(name, tmp_path, harness):
    check(ALL[name], tmp_path, harness)


@pytest.mark.slow
@pytest.mark.parametrize("target", BOARDS)
def test_board_kernels_match_plain_c(target, tmp_path):
    board = BOARDS[target]
    generate(f"board:{target}", tmp_path, 0.75)
    sources = [*sorted(tmp_path.glob("layers*.c")), *(CHECKS / f"{name}.c" for name in HARNESS)]
    image = tmp_path / "image.elf"
    link_image(board, sources, [], image, [ROOT / "include", CHECKS], ["-DCK_BARE"])
    try:
        printed = run_image(board, image, tmp_path)
    except subprocess.CalledProcessError as error:
        pytest.fail(error.stdout[-4000:])
    assert re.search(r"^[1-9]\d* checks, 0 failures", printed, re.M), printed


WASI = """
import { readFileSync } from "node:fs";
import { WASI } from "node:wasi";
const wasi = new WASI({
  version: "preview1", args: ["checkasm", "--seed", process.argv[3]], preopens: { "/": "." },
});
const module = await WebAssembly.compile(readFileSync(process.argv[2]));
const imports = wasi.getImportObject(), functions = imports.wasi_snapshot_preview1;
// Node 20 ends with a segmentation fault if large modules call its functions directly
for (const [name, f] of Object.entries(functions)) functions[name] = (...given) => f(...given);
wasi.start(await WebAssembly.instantiate(module, imports));
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
@pytest.mark.parametrize("level", ["-O1", "-O3"])
def test_webassembly_kernels_match_plain_c(level, tmp_path):
    pytest.importorskip("ziglang")
    generate("wasm32", tmp_path, 0.5)
    (tmp_path / "run.mjs").write_text(WASI)
    sources = [tmp_path / "layers.c", *(CHECKS / f"{name}.c" for name in HARNESS)]
    flags = [*OPTIMISE, level, *get_target("wasm32").flags, *COMMON, "-DCK_BARE", "-std=c11"]
    compiler = [*zig("wasm32-wasi"), *WARNINGS, "-Wno-unused-variable"]
    call([*compiler, *flags, *sources, "-o", tmp_path / "checkasm.wasm"])
    node = ["node", "--no-warnings", "run.mjs", "checkasm.wasm", SEED]
    done = subprocess.run(node, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout[-4000:]}{done.stderr[-2000:]}"
    assert re.search(r"^[1-9]\d* checks, 0 failures", done.stdout, re.M), done.stdout


# ---- completeness ----

KERNELS = ROOT / "include" / "tvm" / "runtime" / "kernels"
# headers without such tiles or layers, and the tests that cover them
ELSEWHERE = {
    "custom.h": "tests/python/custom",
    "cpu_dispatch.h": "tests/python/levels",
    "cpu_requirements.h": "tests/python/levels",
    "trace.h": "tests/python/runtime",
    "pack_f32.h": "test_pack_once.py",
    "pack_i8.h": "test_pack_once.py",
    "pack_once.h": "test_pack_once.py",
    "depth_first_f32.h": "tests/python/codegen",
    "depth_first_scale_f32.h": "tests/python/codegen",
    "depth_first_pool_f32.h": "tests/python/codegen",
    "board/row_fusion.h": "tests/python/firmware",
    "board/forest.h": "plugins",
    "board/dequantize_i8.h": "tests/python/firmware",
    "board/residual_add_i8.h": "test_fixed_point_add_i8.py",
    "board/channel_groups_i8.h": "tests/python/firmware",
    "board/matmul_i8.h": "tests/python/firmware",
    "board/softmax_i8.h": "tests/python/firmware",
    "board/weights_in_ram.h": "tests/python/firmware",
    "board/conv_i16.h": "plugins",
    "board/conv_i16_mve.h": "plugins",
    "board/requantize_i16.h": "plugins",
    "tile/widen_narrow_i8.h": "test_fused_requant_add.py",
}


def sources(folder: Path) -> Iterator[Path]:
    """Return the generated files of all programs."""
    levels = [f"{family}:{level.name}" for family in ("x86-64", *QEMU) for level in LEVELS[family]]
    levels += ["wasm32", "board:host", "board:cortex-m55", "board:rv32imac_zve32x"]
    for level, seed in product(levels, "12"):  # some tiles are drawn seldom
        made = folder / f"{level.replace(':', '-')}-{seed}"
        generate(level, made, 1, seed)
        yield from sorted(made.glob("layers*.c"))


@pytest.mark.slow
def test_every_kernel_is_in_some_program(tmp_path):
    """Every kernel header, and every macro used by generated code only, is checked."""
    headers = {path: path.read_text() for path in sorted(KERNELS.rglob("*.h"))}
    tiles = {p: t for p, t in headers.items() if p.parent.name != "op" and "scalar" not in p.parts}
    code = re.sub(r"/\*.*?\*/", "", "\n".join(tiles.values()), flags=re.S)
    defined = set(re.findall(r"#define (TVMRT_DEFINE_\w+)\(", code))
    called = Counter(re.findall(r"(?<!#define )\b(TVMRT_DEFINE_\w+)", code))
    for_others = {name for name in defined if not called[name]}
    assert len(for_others) > 15
    generated = "\n".join(path.read_text() for path in sources(tmp_path))
    assert sorted(name for name in for_others if f"{name}(" not in generated) == []
    reached = set(re.findall(r"#include <tvm/runtime/kernels/([\w/.]+)>", generated))
    for name in ("check_rows.h", "check_functions.h"):
        reached |= set(re.findall(r"kernels/([\w/.]+)>", (CHECKS / name).read_text()))
    while True:  # and the headers that they include
        more = {
            str((KERNELS / name).parent.joinpath(other).resolve().relative_to(KERNELS))
            for name in reached
            for other in re.findall(r'#include "([\w/.]+)"', headers[KERNELS / name])
        }
        if more <= reached:
            break
        reached |= more
    names = {str(path.relative_to(KERNELS)) for path in tiles}
    assert sorted(names - reached - set(ELSEWHERE)) == []
