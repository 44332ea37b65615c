"""Test remote calls from Windows, emulated by Wine."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from windows import program_of

from tvmrt import rpc


@pytest.mark.slow
def test_clients_there_reach_servers_here(built, wine):
    program = program_of(built, Path(__file__).parent / "remote_client.c")
    server = rpc.Server(key="key", silent=True)
    try:
        said = wine(program, "127.0.0.1", str(server.port), "key")
        assert said == "the session has ten.txt,\n"
        refused = wine(program, "127.0.0.1", str(server.port), "other", code=1)
        assert "cannot find server that matches key=other" in refused
    finally:
        server.terminate()
    unused_port = wine(program, "127.0.0.1", str(server.port), "key", code=1)
    assert re.search(r"cannot connect to 127\.0\.0\.1:\d+: \w", unused_port)
