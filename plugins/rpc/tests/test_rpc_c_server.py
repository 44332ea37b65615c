"""Test the documented server of a C program with a Python client."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import numpy as np
import pytest

import tvmrt
from tvmrt import libinfo, rpc
from tvmrt.error import TVMError

PAGE = Path(__file__).parents[3] / "plugins" / "rpc" / "docs" / "rpc.md"


def test_a_program_in_c_serves(tmp_path):
    text = PAGE.read_text(encoding="utf-8")
    source = re.search(r"cat > server\.c <<'END'\n(.*?)\nEND\n", text, re.DOTALL)[1]
    (tmp_path / "server.c").write_text(source + "\n")
    library = os.path.dirname(libinfo.find_lib_path()[0])
    command = ["cc", f"-I{libinfo.find_include_path()[0]}", "server.c", f"-L{library}"]
    link = ["-ltvm_runtime", f"-Wl,-rpath,{library}", "-o", "server"]
    subprocess.run([*command, *link], check=True, cwd=tmp_path)
    command = [str(tmp_path / "server"), "key"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        port = int(program.stdout.readline().split()[1])
        with pytest.raises(TVMError, match="cannot find server that matches"):
            rpc.connect("127.0.0.1", port)
        remote = rpc.connect("127.0.0.1", port, "key")
        values = np.arange(5, dtype="int16")
        np.testing.assert_array_equal(tvmrt.nd.array(values, remote.cpu()).numpy(), values)
        remote.upload(b"x" * 10, "ten")
        assert remote.listdir() == ["ten"]
        remote.close()
        program.send_signal(signal.SIGTERM)
