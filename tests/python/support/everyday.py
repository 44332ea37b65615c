"""Selection of the tests that ``./run test`` runs: a table with a row per test folder.

The everyday tests take five minutes on two processors and cover the most common mistakes. All
others run with ``-m 'slow or not slow'``, as in continuous integration. A test marked ``slow`` is
never everyday. The table also leaves out files that a row does not name and, of a function with
more cases than the row allows, all but a few that are spread over its parameters. These tests get
the markers ``slow`` and ``extended``: they are quick, and run if a path names them (``./run test
tests/python/ops``). The variable of ``CASES`` lowers the number of cases for all folders.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from configparser import ConfigParser
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tvmrt import plugin

TESTS = Path(__file__).resolve().parents[2]
PLUGINS = TESTS.parent / "plugins"
MANY = 1 << 30
MAX_TESTS = 4200  # in total
CASES = "TVMRT_EVERYDAY_CASES"  # the variable with a lower limit of cases of one function


@dataclass(frozen=True)
class Share:
    """Everyday tests of one folder: file names without ``test_`` and ``.py``, or all files, and the
    maximum number of cases of one function."""

    files: str = "*"
    cases: int = MANY

    def has(self, file: Path) -> bool:
        return self.files == "*" or file.stem.removeprefix("test_") in self.files.split()


# Files are left out because they compile slowly or need other tools, cases because they differ
# little. A file that its row does not list is not everyday; a folder without a row is an error.
SHARES = {
    "compat": Share(
        "aot_libraries compatibility_page damaged_params graph_json graph_libraries interface"
        " refused_graphs",
        3,
    ),
    "python/cli": Share(cases=2),
    "python/codegen": Share(cases=4),
    "python/custom": Share("custom_errors custom_kernels detection layout_inference", 4),
    "python/devices": Share("device_answers partition plugin_reload region_schema regions", 4),
    "python/dims": Share(
        "branch_ranks data_dependent_dims dynamic_shapes invalid_sizes"
        " loops_over_data_dependent_rows nearest_resize operators_on_found_sizes runtime_checks"
        " size_constraints sizes_from_inputs zero_extents",
        2,
    ),
    "python/docs": Share(cases=40),
    "python/examples": Share(),
    "python/export": Share(cases=3),
    "python/firmware": Share(
        "board_networks firmware_c firmware_files firmware_networks memory_proof metadata"
        " misra patch_inference step computed_matmul quantized_softmax",
        2,
    ),
    "python/frontend": Share(cases=20),
    "python/fuzz": Share(),
    "python/ir": Share(),
    "python/kernels": Share(cases=6),
    "python/levels": Share("amx_i8 reproducible"),
    "python/network": Share("load mistakes open_sizes", 1),
    "python/networks": Share(),
    "python/onnx_suite": Share(),
    "python/ops": Share(
        "convolution crt_builds elementwise indexing linear loops normalization"
        " pool_flags pooling quantized recurrent reduction resize dynamic_operands sequences shape"
        " sub_byte_types special_values",
        2,
    ),
    "python/planner": Share(cases=12),
    "python/platforms": Share(),
    "python/plugins": Share(),
    "python/runtime": Share(
        "abi array_call callbacks containers exchange executors optional_libraries"
        " library_names module ndarray object_repr package packed_func invalid_calls"
        " real_time",
        2,
    ),
    "python/transform": Share(cases=1),
}


def share_of(file: Path) -> Share | None:
    """Return the row of a test file; None for files outside of the test folders.

    A plug-in has its row in ``tests/everyday.ini``, section ``everyday``; the default is two cases
    of each function.
    """
    if PLUGINS in file.parents:
        config = ConfigParser()
        config.read(file.parent / "everyday.ini", encoding="utf-8")
        files = config.get("everyday", "files", fallback="*")
        return Share(files, config.getint("everyday", "cases", fallback=2))
    if TESTS not in file.parents:
        return None
    return SHARES[file.parent.relative_to(TESTS).as_posix()]


def is_left_out(path: Path) -> bool:
    """Whether a path is in the folder of an installed plug-in that is not used."""
    if PLUGINS not in path.parents:
        return False
    name = path.relative_to(PLUGINS).parts[0]
    return name in {each.name.replace("-", "_") for each in plugin.unused()}


def is_sampled(index: int, total: int, cases: int) -> bool:
    """Whether the case with this index is one of ``cases`` spread over ``total``."""
    return total <= cases or index * cases // total != (index - 1) * cases // total


def mark(items: Sequence[Any]) -> None:
    """Mark tests that are not everyday ones as ``slow``."""
    most = int(os.environ.get(CASES, MANY))
    quick = [item for item in items if item.get_closest_marker("slow") is None]
    totals = Counter(map(_function, quick))
    met: Counter[str] = Counter()
    for item in quick:
        function = _function(item)
        index = met[function]
        met[function] += 1
        first = item.get_closest_marker("everyday")
        if first is not None and index >= first.args[0]:
            item.add_marker(pytest.mark.slow)
            continue
        share = share_of(item.path)
        if share is None:
            continue
        within = first is not None or is_sampled(index, totals[function], min(share.cases, most))
        if not within or not share.has(item.path):
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.extended)


def _function(item: Any) -> str:
    return item.nodeid.partition("[")[0]
