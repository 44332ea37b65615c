"""The tiles of the pack are all that the compiler chooses for its levels."""

import importlib.util
import random
import sys
from itertools import product
from pathlib import Path

import pytest

from tvmrt.compiler.codegen.geometry import Window
from tvmrt.compiler.codegen.target import get_target
from tvmrt.compiler.codegen.window import tiles_f32
from tvmrt.compiler.codegen.window.depthwise_tile_f32 import depthwise_options
from tvmrt.compiler.codegen.window.tiles_i8 import FORMATS, tile_options
from tvmrt.compiler.ir.sizes import Symbol
from tvmrt.plugins.kernel_pack import link

FOLDER = Path(__file__).parents[1]
LEVELS = {"v3": "x86-64", "v4vnni": "x86-64", "neon": "aarch64-linux", "dot": "aarch64-linux"}


def _module(name):
    sys.path.insert(0, str(FOLDER))
    try:
        spec = importlib.util.spec_from_file_location(f"kernel_pack_{name}", FOLDER / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(FOLDER))
    return module


tiles = _module("tiles")

EXPORTED = {level: frozenset(tiles.definitions(level)) for level in LEVELS}


def _machine(level):
    (machine,) = get_target(LEVELS[level], (level,)).levels
    return machine


def _linked(definitions, level):
    """Return the definitions that are left after those of the pack; an error if one is missing."""
    text = "\n".join(map(str, definitions))
    return link.with_pack_tiles(text, EXPORTED[level], set())


@pytest.mark.everyday(2)
@pytest.mark.parametrize("level", LEVELS)
def test_float_tiles(level):
    draw, count = random.Random(7), 0
    machine = _machine(level)
    for _ in range(60):
        pixels, channels = draw.choice((1, 2, 7, 14, 49, 196, 3000)), draw.randint(1, 300)
        pixels = draw.choice((pixels, draw.randint(1, 60)))
        sizes = tiles_f32.TileSizes(pixels, channels, draw.choice((3, 27, 64, 1152)), machine)
        for each in tiles_f32.available_tiles(sizes):
            for chosen in (each, each.without_single_row_tail(pixels)):
                streamed = chosen.with_weight_streams(pixels, 1 << 20, machine.registers)
                for one in (chosen, streamed):
                    assert "DEFINE" not in _linked(one.definitions(), level)
                    count += 1
    assert count > 500


@pytest.mark.everyday(2)
@pytest.mark.parametrize("level", LEVELS)
def test_float_tiles_of_open_rows(level):
    for channels, window in product((1, 5, 16, 24, 64, 200), (8, 64, 1152)):
        chosen = tiles_f32.choose_tiles(
            Symbol("n", 1, 1 << 31, "n_n").extent, channels, window, _machine(level)
        )
        assert chosen.dynamic_rows
        assert "DEFINE" not in _linked(chosen.definitions(), level)


@pytest.mark.everyday(2)
@pytest.mark.parametrize("level", LEVELS)
def test_depthwise_tiles(level):
    for columns, stride, width, channels in product(
        (1, 2, 3, 4, 5, 7, 9), (1, 2, 3), (1, 5, 28), (4, 8, 24, 64)
    ):
        sizes = (1, 9, width * stride), (1, 9, width), channels, channels, (1, columns, columns)
        window = Window(1, *sizes, stride=(1, 1, stride))
        for tile in depthwise_options(window, channels, _machine(level)):
            assert "DEFINE" not in _linked(tile.definitions(), level)


@pytest.mark.everyday(2)
@pytest.mark.parametrize("level", LEVELS)
def test_int8_tiles(level):
    fmt = FORMATS[_machine(level).int8]
    for vectors, width in product(range(1, 9), range(1, 18)):
        for (nr, mr), kind in product(tile_options(fmt, vectors, width), ("s8", "u8")):
            assert f"tvmrt_tile_i8_{nr}x{mr}_{kind}" in EXPORTED[level]
            assert f"tvmrt_tile_i8_{nr}x{mr}_{kind}_add_{kind}" in EXPORTED[level]


def test_a_tile_that_is_missing_is_an_error():
    with pytest.raises(Exception, match=r"no tile tvmrt_tile_f32_16x9x9 .*install a C compiler"):
        link.with_pack_tiles("TVMRT_DEFINE_TILE_F32(16, 9, 9)", frozenset(), set())


@pytest.mark.parametrize("text", ["1, 1", "\n    1,\n    1", " 1 , 1 "])
def test_arguments_may_be_on_several_lines(text):
    call = f"TVMRT_DEFINE_TILE_I8(\n    tvmrt_tile_i8_a, {text}, 0, 0, TVMRT_RESIDUAL_NONE)"
    linked = link.with_pack_tiles(call, frozenset({"tvmrt_tile_i8_a"}), set())
    assert linked == "extern __typeof__(*(tvmrt_tile_i8)0) tvmrt_tile_i8_a;"


def test_a_general_int8_tile_is_kept_once():
    text = "TVMRT_DEFINE_DEPTHWISE_I8(odd, 7, 9, 1, 1, 2, 32, 1, 1, TVMRT_RESIDUAL_NONE)"
    tiles = set()
    assert link.with_pack_tiles(text, frozenset(), tiles) == text
    assert link.with_pack_tiles(text, frozenset(), tiles) == ""


def test_functions_are_declared_or_exported():
    make_pack = _module("make_pack")
    text = (
        "static inline int twice(int x) {\n  return x + x; /* } */\n}\n"
        "static const int table[] = {1, 2};\n"
        "static inline tvmrt_f32x8 wide(int x) { return x; }\n"
        "#define MAKE(NAME) static inline int NAME(int x) { return twice(x); }\n"
    )
    declared, names = make_pack.declared(make_pack.blank_comments(text))
    assert names == ["twice"]
    assert "extern int twice(int x);" in declared
    assert "table[] = {1, 2}" in declared
    assert "wide" not in declared
    assert "#define MAKE(NAME) static inline int NAME(int x) { return twice(x); }" in declared
    exported = make_pack.exported(text)
    assert "TVMRT_PACK_EXPORT int twice(int x) {" in exported
    assert "static inline tvmrt_f32x8 wide" in exported
