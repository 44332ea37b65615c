"""Shell completion of option values, called as bash calls it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("line", "offered", "not_offered"),
    [
        ("compile --target cortex-m", {"cortex-m4", "cortex-m0plus"}, "native"),
        ("compile --target x86", {"x86-64"}, "riscv32"),
        ("compile --board stm", {"stm32f4"}, "rp2040"),
        ("verify --device ", {"cpu", "ccompiler"}, "nothing"),
        ("compile --device ccompiler,cp", {"ccompiler,cpu"}, "cpu"),
        ("compile --levels v2,v", {"v2,v3", "v2,v4"}, "v2,v2"),
        ("compile --executor ", {"graph", "aot"}, "native"),
        ("repl", {"replay"}, "compile"),
    ],
)
def test_completion_offers_matching_values(line, offered, not_offered):
    words = f"tvmrt {line}"
    environment = {
        **os.environ, "_TVMRT_COMPLETE": "bash_complete", "COMP_WORDS": words,
        "COMP_CWORD": str(words.count(" ")),
    }  # fmt: skip
    program = "from tvmrt.cli.app import group; group.main(prog_name='tvmrt')"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    found = {answer.partition(",")[2] for answer in done.stdout.split()}
    assert offered <= found, done.stdout + done.stderr
    assert not_offered not in found
