"""Operators with the crt runtime on hosts: every interface, several instruction sets."""

from __future__ import annotations

import platform
import shutil
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from crt_program import run_archive
from nn_case import Case, build_model, case, reference_outputs

import tvmrt

OPSET = 17
RNG = np.random.default_rng(29)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def bytes_(*shape: int, kind=np.uint8) -> np.ndarray:
    info = np.iinfo(kind)
    return RNG.integers(info.min, info.max + 1, shape).astype(kind)


def convolutions() -> Iterator[Case]:
    """Return cases of 1 to 5 channels with batches, kernel sizes, strides, pads, groups."""
    for channels in range(1, 6):
        for width in (1, 2, 3, 5):
            w, pads = floats(8, channels, 3, width), (1, width // 2, 1, width // 2)
            x = floats(1, channels, 11, 13)
            yield case(f"conv{channels}x{width}", "Conv", [x, w, floats(8)], (1, 2), pads=pads)
        more = {"strides": (2, 2), "pads": (0, 0, 1, 1)}
        w = floats(21, channels, 3, 3)
        yield case(f"stride{channels}", "Conv", [floats(1, channels, 17, 15), w], (1,), **more)
        x, w = floats(2, channels, 9, 10), floats(6, channels, 3, 3)
        yield case(f"two{channels}", "Conv", [x, w], (1,), dilations=(2, 2), pads=(2, 2, 2, 2))
        x, w = floats(1, channels, 12, 12), floats(channels, 1, 3, 3)
        yield case(f"depthwise{channels}", "Conv", [x, w], (1,), group=channels, pads=[1] * 4)
        x, w = floats(1, channels, 7, 9), floats(channels, 5, 3, 3)
        yield case(f"transposed{channels}", "ConvTranspose", [x, w], (1,), strides=(2, 2))
        x, w = floats(1, 3 * channels, 9, 20), floats(9, channels, 1, 3)
        yield case(f"groups{channels}", "Conv", [x, w], (1,), group=3)
    x, w = floats(1, 24, 8, 9), floats(16, 24, 1, 1)
    yield case("pixels", "Conv", [x, w, floats(16)], (1, 2))
    yield case("signal", "Conv", [floats(1, 3, 50), floats(5, 3, 7)], (1,), pads=(3, 3))
    yield case("volume", "Conv", [floats(1, 2, 5, 6, 7), floats(4, 2, 2, 3, 3)], (1,))


def pools() -> Iterator[Case]:
    for channels in (1, 3, 16, 70):
        x = floats(1, channels, 13, 14)
        for op in ("MaxPool", "AveragePool", "LpPool"):
            yield case(f"{op}{channels}", op, [x], kernel_shape=(3, 3), strides=(1, 2))
        yield case(f"global{channels}", "GlobalAveragePool", [x])


def products() -> Iterator[Case]:
    """Return matmuls with row tails, and single-row matmuls with weights that are not cached."""
    for rows in (1, 2, 5, 7, 9, 13, 15, 29, 57):
        yield case(f"rows{rows}", "MatMul", [floats(rows, 64), floats(64, 70)], (1,))
    yield case("gemm", "Gemm", [floats(15, 40), floats(33, 40), floats(33)], (1, 2), transB=1)
    yield case("computed", "MatMul", [floats(2, 15, 24), floats(2, 24, 20)])
    yield case("few", "MatMul", [floats(3, 3, 24), floats(3, 24, 40)])
    yield case("far", "MatMul", [floats(1, 1024), floats(1024, 640)], (1,), atol=1e-4)


def rows() -> Iterator[Case]:
    for n in (3, 8, 17, 100):
        x = floats(4, n, 7)
        yield case(f"softmax{n}", "Softmax", [x], axis=1)
        yield case(f"last{n}", "LogSoftmax", [floats(5, n)], axis=-1)
        yield case(f"norm{n}", "LayerNormalization", [floats(3, n), floats(n)], (1,))
        yield case(f"sum{n}", "ReduceSum", [x, np.array([1])], (1,), keepdims=0)
    yield case("instance", "InstanceNormalization", [floats(1, 5, 8, 9), floats(5), floats(5)])
    yield case("turned", "Transpose", [floats(3, 5, 7, 4)], perm=(0, 2, 3, 1))
    yield case("erf", "Erf", [floats(3, 37)])


def integers() -> Iterator[Case]:
    """Return exact int8 matmuls, whose scales are powers of two."""
    half, zero = np.float32(0.5), np.uint8(128)
    for channels in (1, 3, 4, 16):
        x, w = bytes_(1, channels, 9, 11), bytes_(8, channels, 3, 3, kind=np.int8)
        scaled = [x, half, zero, w, np.float32(2**-6), np.int8(0), np.float32(8), zero]
        yield case(f"bytes{channels}", "QLinearConv", scaled, range(1, 8), atol=1, rtol=0)
    x, w = bytes_(5, 40), bytes_(40, 24, kind=np.int8)
    scaled = [x, half, zero, w, np.float32(2**-6), np.int8(0), np.float32(8), zero]
    yield case("product", "QLinearMatMul", scaled, range(1, 8), atol=1, rtol=0)
    yield case("sums", "MatMulInteger", [x, w, zero], (1, 2), atol=0, rtol=0)


ALL = [*convolutions(), *pools(), *products(), *rows(), *integers()]
EVERYDAY = [c for c in ALL if c.id in ("stride3", "conv2x3", "pixels", "rows29", "softmax17")]


def check(cases: Sequence[Case], folder, target: str, interface: str, **program) -> None:
    """Compare every output of one network with all cases."""
    model, feeds = build_model(list(cases), OPSET)
    options = {"executor": "graph"} if interface == "graph" else {
        "executor": "aot", "interface_api": interface
    }  # fmt: skip
    library = tvmrt.compile(model, target=target, runtime="crt", module_name="net", **options)
    found = list(run_archive(library, feeds, folder, **program).values())
    problems = []
    for each, got in zip(cases, found, strict=True):
        (right,) = reference_outputs(each, OPSET, "onnxruntime")
        wide = np.float64 if got.dtype.kind == "f" else np.int64
        off = np.abs(got.astype(wide) - right.astype(wide))
        limit = each.atol + each.rtol * np.abs(right.astype(wide)).max()
        if got.dtype != right.dtype or not (off <= limit).all():
            problems.append(f"{each.id}: off by {off.max():.3g}, at most {limit:.3g}")
    assert not problems, "\n".join(problems)


def test_images_and_rows(tmp_path):
    check(EVERYDAY, tmp_path, "host", "c", compiler=["cc", "-std=c99", "-O0"])


INTERFACES = pytest.mark.parametrize("interface", ["c", "packed", "graph"])
X86 = ["x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"]


def runs(march: str) -> bool:
    """Whether this machine can run code for an x86-64 level."""
    try:
        flags = set(open("/proc/cpuinfo").read().partition("flags")[2].partition("\n")[0].split())
    except OSError:
        return False
    needs = {"x86-64": set(), "x86-64-v2": {"sse4_2"}, "x86-64-v3": {"avx2", "fma"},
             "x86-64-v4": {"avx512f", "avx512bw", "avx512vl", "avx512dq"}}  # fmt: skip
    return platform.machine() == "x86_64" and needs[march] <= flags


@pytest.mark.slow
@INTERFACES
@pytest.mark.parametrize("target", ["host", "native"])
def test_every_interface(target, interface, tmp_path):
    flags = ["-march=native"] if target == "native" else []
    check(ALL, tmp_path, target, interface, compiler=["cc", "-std=c99", "-O1", *flags])


@pytest.mark.slow
@pytest.mark.parametrize("march", X86)
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_code_for_any_host_on_each_level(compiler, march, tmp_path):
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    if not runs(march):
        pytest.skip(f"this machine is not {march}")
    check(ALL, tmp_path, "host", "c", compiler=[compiler, "-std=c99", "-O2", f"-march={march}"])


@pytest.mark.slow
@INTERFACES
def test_another_architecture(interface, tmp_path):
    compiler, emulator = "aarch64-linux-gnu-gcc", "qemu-aarch64"
    for tool in (compiler, emulator):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    command = [compiler, "-std=c99", "-O1", "-static"]
    check(ALL, tmp_path, "host", interface, compiler=command, emulator=[emulator])


@pytest.mark.slow
def test_no_external_memory(tmp_path):
    command = ["cc", "-std=c99", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    check(ALL, tmp_path, "host", "c", compiler=command)
