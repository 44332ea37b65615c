"""One server for the tests of a file: each connection is its own session."""

from __future__ import annotations

import pytest
import rpc_case

from tvmrt import rpc


@pytest.fixture(scope="module", autouse=True)
def uploads(tmp_path_factory):
    """Folder for uploads, which servers leave that a signal ends."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TMPDIR", str(tmp_path_factory.mktemp("uploads")))
        yield


@pytest.fixture(scope="module")
def server(uploads):
    """Start a server that accepts several clients at a time."""
    started = rpc_case.start_server(max_sessions=4)
    yield started
    started.terminate()


@pytest.fixture
def session(server):
    """Open a session with the server."""
    return rpc.connect("127.0.0.1", server.port, rpc_case.KEY)


@pytest.fixture(params=["server", "local"])
def any_session(request):
    """Open a session with a server, and one of this process with itself."""
    if request.param == "local":
        rpc_case.register_functions()
        return rpc.LocalSession()
    return request.getfixturevalue("session")
