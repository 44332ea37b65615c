"""Operators of a released IR version never change, because devices rely on them."""

from __future__ import annotations

import json
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

from tvmrt.compiler.ir import IR_VERSION, OPS

KEPT = Path(__file__).parent / f"operators_{IR_VERSION}.json"
COMMAND = "python tests/python/ir/test_ir_version.py"


def signature(op) -> str:
    """Describe an operator's operands and results in a few letters."""
    contract = op.contract
    lines = [*contract.operands, *contract.attributes.values(), *contract.results]
    words = [line.line for line in lines] + [rule.words for rule in contract.rules]
    return sha256("\n".join(words).encode()).hexdigest()[:12]


def test_operators_of_this_version_are_unchanged():
    kept = json.loads(KEPT.read_text(encoding="utf-8"))
    assert kept.keys() <= OPS.keys(), "an operator went"
    changed = [name for name in kept if signature(OPS[name]) != kept[name]]
    assert not changed, f"operators changed: raise IR_VERSION, then run {COMMAND}"


def test_new_operators_are_recorded():
    """Runs in a separate process: other tests add operators, as users do."""
    code = (
        "import json, tvmrt.compiler.frontend; from tvmrt.compiler.ir import OPS; "
        "print(json.dumps(sorted(OPS)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    new = set(json.loads(done.stdout)) ^ json.loads(KEPT.read_text(encoding="utf-8")).keys()
    assert not new, f"operators that {KEPT.name} lacks or has alone: run {COMMAND}"


if __name__ == "__main__":
    rows = {name: signature(op) for name, op in sorted(OPS.items())}
    KEPT.write_text(json.dumps(rows, indent=0) + "\n", encoding="utf-8")
