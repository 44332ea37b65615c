"""The tiles of a library of kernels: all that the compiler chooses for one ISA level.

``tests/test_tiles.py`` compares this list with the choices of the compiler.
"""

from __future__ import annotations

from itertools import product

LANES = {"v3": 8, "v4vnni": 16, "neon": 4, "dot": 4}
REGISTERS = {"v3": 16, "v4vnni": 32, "neon": 32, "dot": 32}
_I8_FORMATS = {"v3": "X86_AVX2", "v4vnni": "X86_VNNI", "neon": "NEON", "dot": "NEON_DOT"}
MACROS = {
    level: {
        "TVMRT_OPENMP_SIMD": "1",
        "TVMRT_DEPTH_FIRST_LAYERS": "8",
        "TVMRT_I8_FORMAT": f"TVMRT_I8_{name}",
    }
    for level, name in _I8_FORMATS.items()
}


def chain_count(sums: int) -> int:
    """Return TVMRT_TILE_F32_CHAINS of a tile."""
    return 1 if sums >= 8 else 2 if sums >= 4 else 4 if sums >= 2 else 8


def definitions(level: str) -> dict[str, str]:
    """Return the macro calls that define the tiles, by the names of the functions."""
    tiles = {**_float_tiles(level), **_depthwise_tiles(level), **_int8_tiles(level)}
    return {**tiles, **_recurrent_layers()}


def _recurrent_layers() -> dict[str, str]:
    """Return the recurrent layers with the activations of ONNX's defaults."""
    result = {}
    for kernel, peephole in (
        ("lstm_sigmoid_tanh_tanh", ", 0"),
        ("lstm_sigmoid_tanh_tanh_peephole", ", 1"),
        ("gru_sigmoid_tanh", ""),
        ("rnn_tanh", ""),
    ):
        kind, *words = kernel.removesuffix("_peephole").split("_")
        functions = ", ".join(f"tvmrt_{word}_f32" for word in words)
        name = f"tvmrt_{kernel}"
        result[name] = f"TVMRT_DEFINE_{kind.upper()}_F32({name}, {functions}{peephole})"
        if kind != "rnn":
            result[f"{name}_shared"] = f"TVMRT_SHARE_{kind.upper()}_F32({name})"
    return result


def _float_tiles(level: str) -> dict[str, str]:
    result, registers = {}, REGISTERS[level]
    for lanes in sorted({max(4, LANES[level] // 2), LANES[level]}):
        for vectors in range(1, 9):
            widest = min(14, (registers - 1) // vectors - 1)
            chains = {chain_count(vectors * width) for width in range(1, widest + 1)}
            for width in range(1, widest + 1):
                _add(result, "tile", lanes, vectors, width)
                for parts in chains:
                    if parts < chain_count(vectors * width):
                        _add(result, "tail", lanes, vectors, width, parts)
            for streams in (4, 2):
                if vectors > 1 and (streams + 1) * vectors < registers:
                    _add(result, "gemv", lanes, vectors, streams)
    return result


def _add(result: dict[str, str], part: str, *sizes: int) -> None:
    name = f"tvmrt_{part}_f32_{'x'.join(map(str, sizes))}"
    result[name] = f"TVMRT_DEFINE_{part.upper()}_F32({', '.join(map(str, sizes))})"


def _depthwise_tiles(level: str) -> dict[str, str]:
    result, registers = {}, REGISTERS[level]
    for lanes in sorted({LANES[level], max(4, LANES[level] // 2), 4}):
        for width in range(1, 9):
            name = f"tvmrt_depthwise_f32_{lanes}x{width}"
            result[name] = f"TVMRT_DEFINE_DEPTHWISE_ANY_F32({name}, {lanes}, {width}, {lanes})"
            for columns in (3, 5, 7):
                for stride in (1, 2):
                    if width > 1 and (width - 1) * stride + columns + width + 1 > registers:
                        continue
                    name = f"tvmrt_depthwise_f32_{lanes}k{columns}s{stride}x{width}"
                    sizes = f"{lanes}, {columns}, {stride}, {width}, {lanes}"
                    result[name] = f"TVMRT_DEFINE_DEPTHWISE_F32({name}, {sizes})"
    return result


def _int8_tiles(level: str) -> dict[str, str]:
    """Return the int8 tiles. Others are calls of the general tile, which is slow."""
    result = {}
    wide, registers = level == "v3", REGISTERS[level]
    for vectors in range(1, 9):
        for width in range(1, (16 if vectors <= 4 else 1) + 1):
            if vectors * width + (2 * vectors + 3 if wide else vectors + 1) > registers:
                break
            for kind, signed in (("u8", 0), ("s8", 1)):
                name = f"tvmrt_tile_i8_{vectors}x{width}_{kind}"
                sizes = f"{vectors}, {width}, {signed}"
                result[name] = f"TVMRT_DEFINE_TILE_I8({name}, {sizes}, 0, TVMRT_RESIDUAL_NONE)"
                added = f"{name}_add_{kind}"
                residual = f"TVMRT_RESIDUAL_{kind.upper()}"
                result[added] = f"TVMRT_DEFINE_TILE_I8({added}, {sizes}, 0, {residual})"
    blocks, widths = ((32, 16, 8), (1, 2)) if wide else ((64, 48, 32, 16, 8), (1, 2, 3, 4, 5))
    layers = ((4, "u8", 0, 1), (4, "s8", 1, 1), (3, "s8", 1, 1), (3, "u8", 0, 2))
    for layer, stride, block, width in product(layers, (1, 2), blocks, widths):
        rows, kind, signed, parts = layer
        suffix = "_wide" * (parts - 1)
        name = f"tvmrt_depthwise_i8_{rows}x3s{stride}d1_{block}x{width}_{kind}{suffix}"
        sizes = f"{rows}, 3, {stride}, 1, {width}, {block}, {parts}, {signed}"
        result[name] = f"TVMRT_DEFINE_DEPTHWISE_I8({name}, {sizes}, TVMRT_RESIDUAL_NONE)"
    return result
