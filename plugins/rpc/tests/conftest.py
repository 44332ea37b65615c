"""Servers and sessions for tests of remote calls."""

from __future__ import annotations

import pytest
import rpc_case

from tvmrt import rpc


@pytest.fixture(scope="module")
def server():
    """Start a server, which serves one client after the other."""
    started = rpc_case.start_server()
    yield started
    started.terminate()


@pytest.fixture
def session(server):
    """Open a session with the server."""
    made = rpc.connect("127.0.0.1", server.port, rpc_case.KEY)
    yield made
    made.close()
