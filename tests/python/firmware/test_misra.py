"""cppcheck's MISRA add-on finds only deviations that docs/explanation/misra.md explains."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tvmrt

sys.path.insert(0, str(Path(__file__).parents[2] / "bench" / "firmware"))
import own_networks

ROOT = Path(__file__).parents[3]
MESSAGE = re.compile(r"^(.*): (\w+): .*\[([\w.-]+)\]$", re.MULTILINE)


def explained() -> set[str]:
    """Return the rules in the page's table."""
    page = (ROOT / "docs" / "explanation" / "misra.md").read_text()
    cells = re.findall(r"^\| ([\d., ]+) \|", page, re.MULTILINE)
    rules = {rule for cell in cells for rule in cell.split(", ")}
    assert "18.4" in rules, "the page's table was not understood"
    return rules


def check(network, folder: Path) -> None:
    if shutil.which("cppcheck") is None:
        pytest.skip("cppcheck is not installed")
    tvmrt.compile(
        network, target="cortex-m4", interface_api="c", unpacked_api=True, module_name="net"
    ).export_sources(folder)
    sources = [path for path in sorted(folder.glob("*.c")) if "weights" not in path.name]
    done = subprocess.run(
        ["cppcheck", "--addon=misra", "--std=c99", "--quiet", "--enable=style",
         "--platform=unix32", "-D__GNUC__=12", "-DTVMRT_FREESTANDING=1",
         f"-I{ROOT / 'include'}", *map(str, sources)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if "misra.py not found" in done.stderr or "Did not find addon" in done.stderr:
        pytest.skip("cppcheck has no MISRA add-on here")
    found = MESSAGE.findall(done.stderr)
    assert found, done.stderr or "no output of cppcheck"
    errors = [f"{place}: {message}" for place, severity, message in found if severity == "error"]
    assert not errors
    known = explained()
    new = [f"{place}: {message}" for place, _, message in found
           if message.startswith("misra-c2012-") and message[12:] not in known]  # fmt: skip
    assert not new, "rules that docs/explanation/misra.md does not explain: " + "; ".join(new)


@pytest.mark.slow
def test_digits_network_has_no_unexplained_misra_deviation(digits, tmp_path):
    check(digits, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["kws_f32", "kws_int8", "ic_int8"])
def test_larger_networks_have_no_unexplained_misra_deviation(name, tmp_path):
    if name.endswith("int8"):
        pytest.importorskip("onnxruntime")
    check(own_networks.build(name), tmp_path)
