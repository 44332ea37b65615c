"""Compile every ``.tflite`` operator in every type for boards: no warnings from C or C++ compilers,
equal results at every optimisation level."""

from __future__ import annotations

from functools import cache

import pytest
from compilers import Build
from many_networks import STRICT, ManyNetworks, compiles_as_cplusplus
from typed_operators import typed_nets
from typed_references import accepted, check_all, inputs_of

pytest.importorskip("ai_edge_litert")

TARGETS = ("cortex-m4", "cortex-m55", "riscv32")
LEVELS = ("-O0", "-Os", "-O2", "-O3")
KINDS = {
    "floats": "float32", "int8": "quantised int8", "uint8": "quantised uint8",
    "int16": "quantised int16", "integers": "int32",
}  # fmt: skip
COUNTED = ("UNIQUE", "WHERE")  # the caller of these receives the number of results
FEW = {"int16": ["MAX_POOL_2D", "AVERAGE_POOL_2D", "SQUARED_DIFFERENCE", "RSQRT", "GATHER"]}


@cache
def every_operator() -> dict[str, list[str]]:
    return {name: accepted(kind, COUNTED) for name, kind in KINDS.items()}


def networks(operators: dict[str, list[str]], target: str, folder) -> ManyNetworks:
    """Return a network for each element type, with its operators in parallel."""
    nets = {name: typed_nets(row, KINDS[name]) for name, row in operators.items()}
    feeds = {name: [each for op in row for each in inputs_of(op, KINDS[name])]
             for name, row in operators.items()}  # fmt: skip
    return ManyNetworks(nets, feeds, target, folder, tflite_rounding="reference")


@pytest.fixture(scope="module")
def of_target(tmp_path_factory):
    """Return all networks by target, each compiled once."""
    return cache(lambda target: networks(every_operator(), target, tmp_path_factory.mktemp(target)))


def check(found: ManyNetworks, operators: dict[str, list[str]], build: Build, folder) -> None:
    for name, results in found.results(build, folder, STRICT).items():
        check_all(operators[name], KINDS[name], results)


def need(build: Build) -> None:
    if build.missing_tool():
        pytest.skip(f"{build.missing_tool()} is not installed")


def test_some_operators_of_int16_are_right_where_the_compiler_optimises(tmp_path):
    build = Build("gcc", "-O2", "plain", "cortex-m4")
    need(build)
    check(networks(FEW, "cortex-m4", tmp_path / "few"), FEW, build, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("target", TARGETS)
def test_every_operator_is_right_at_every_level(target, level, of_target, tmp_path):
    build = Build("gcc", level, "plain", target)
    need(build)
    check(of_target(target), every_operator(), build, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_every_operator_is_cplusplus(target, of_target):
    build = Build("gcc", "-O2", "plain", target)
    need(build)
    compiles_as_cplusplus(build, of_target(target).archive)
