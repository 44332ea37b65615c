"""ONNX operators on boards compile without a warning at any optimisation level.

Each operator is built once, for a target and optimisation level derived from its name, mostly -O3,
which warns most. With ``TVMRT_EVERY_LEVEL``, each operator with each combination of element types
is built in all ways.
"""

from __future__ import annotations

import os
import random
import subprocess
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import crt_suite
import programs
import pytest
from batched import with_needed_values
from compilers import Build
from many_networks import CPLUSPLUS, STRICT

import tvmrt
from tvmrt.libinfo import find_include_path

TARGETS = ("cortex-m4", "riscv32")
WAYS = ("-O0", "-Os", "-O2", "-O3", "C++")
SHARES = (1, 1, 1, 6, 1)  # weights of the random choice
EVERY = "TVMRT_EVERY_LEVEL"
FEWEST = 70  # operators supported on boards, per target


@cache
def cases_by_operator() -> dict[tuple[str, str], list[Any]]:
    """Return cases of one node, one for each combination of element types."""
    found: dict[tuple[str, str], dict[tuple[int, ...], Any]] = defaultdict(dict)
    for case in crt_suite.node_cases():
        graph = case.model.graph
        if len(graph.node) == 1:
            values = (*graph.input, *graph.output)
            types = tuple(each.type.tensor_type.elem_type for each in values)
            found[graph.node[0].domain, graph.node[0].op_type].setdefault(types, case)
    return {name: list(rows.values()) for name, rows in found.items()}


def library_of(case: Any, target: str, name: str) -> Any:
    """Return the network of a case for a board, or None if boards do not support it."""
    given = {tensor.name for tensor in case.model.graph.initializer}
    inputs = [info.name for info in case.model.graph.input if info.name not in given]
    try:
        arrays = crt_suite._arrays(case.data_sets[0][0])
        feeds = dict(zip(inputs, arrays))
        shapes = {key: array.shape for key, array in feeds.items()}
        options = {"module_name": name, "target": target, "interface_api": "c", "shapes": shapes}
        return with_needed_values(
            lambda values: tvmrt.compile(case.model, values=values, **options), feeds
        )[0]
    except (tvmrt.TVMError, crt_suite.NotHere):
        return None


def warnings_of(target: str, way: str, libraries: list[Any], folder: Path) -> str:
    """Return the compiler's warnings about the networks' C code."""
    build = Build("gcc", "-O2" if way == "C++" else way, "plain", target)
    dialect = [*CPLUSPLUS, "-fsyntax-only"] if way == "C++" else [*STRICT, "-S"]
    files = []
    for library in libraries:
        sources = library.write_sources(folder)
        files += [each for each in sources if not programs.is_optional(each, library)]
    includes = [f"-I{path}" for path in find_include_path()]
    command = [*build.flags(), *dialect, *includes, *(path.name for path in files)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else f"{target} {way}: {done.stderr[:2000]}"


def need(target: str) -> None:
    missing = Build("gcc", "-O2", "plain", target).missing_tool()
    if missing:
        pytest.skip(f"{missing} is not installed")


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_every_operator_once(target, tmp_path):
    need(target)
    drawn, built = defaultdict(list), 0
    for (domain, operator), cases in cases_by_operator().items():
        source = random.Random(f"{domain}.{operator}")
        if source.choice(TARGETS) == target:
            library = library_of(source.choice(cases), target, f"n{built}")
            built += library is not None
            drawn[source.choices(WAYS, SHARES)[0]].append(library)
    assert built > FEWEST
    for way, libraries in drawn.items():
        folder = tmp_path / way
        folder.mkdir()
        assert warnings_of(target, way, [each for each in libraries if each], folder) == ""


@pytest.mark.slow
@pytest.mark.skipif(EVERY not in os.environ, reason=f"{EVERY} is not set")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("target", TARGETS)
def test_every_operator_of_every_type(target, way, tmp_path):
    need(target)
    cases = [case for cases in cases_by_operator().values() for case in cases]
    libraries = [library_of(case, target, f"n{i}") for i, case in enumerate(cases)]
    built = [each for each in libraries if each]
    assert len(built) > 500
    assert warnings_of(target, way, built, tmp_path) == ""
