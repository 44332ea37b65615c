"""Test the server for boards without Python, a C program, with a Python client."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

import tvmrt
from tvmrt import libinfo, rpc
from tvmrt.error import TVMError

SOURCE = Path(__file__).parents[1] / "examples" / "server.c"


def test_a_program_in_c_serves(tmp_path):
    library = os.path.dirname(libinfo.find_lib_path()[0])
    command = ["cc", "-Wall", f"-I{libinfo.find_include_path()[0]}", str(SOURCE), f"-L{library}"]
    link = ["-ltvm_runtime", f"-Wl,-rpath,{library}", "-o", "server"]
    subprocess.run([*command, *link], check=True, cwd=tmp_path)
    command = [str(tmp_path / "server"), "key"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        try:
            port = int(program.stdout.readline().split()[1])
            with pytest.raises(TVMError, match="cannot find server that matches"):
                rpc.connect("127.0.0.1", port)
            remote = rpc.connect("127.0.0.1", port, "key")
            values = np.arange(5, dtype="int16")
            np.testing.assert_array_equal(tvmrt.nd.array(values, remote.cpu()).numpy(), values)
            remote.upload(b"x" * 10, "ten.so")
            with pytest.raises(TVMError, match=r"ten\.so"):
                remote.load_module("ten.so")
            with pytest.raises(TVMError, match="without directories"):
                remote.upload(b"x", "../ten")
            remote.close()
        finally:
            program.terminate()
