"""Remote calls: run and measure on another machine what was built on this one.

The names and the bytes are those of ``tvm.rpc`` 0.8 to 0.18, so that either side may be TVM's.
"""

from tvmrt.rpc.board import BoardNetwork, BoardSession, connect_board
from tvmrt.rpc.client import LocalSession, RPCSession, TrackerSession, connect, connect_tracker
from tvmrt.rpc.proxy import Proxy
from tvmrt.rpc.server import Server
from tvmrt.rpc.tracker import Tracker

__all__ = [
    "BoardNetwork",
    "BoardSession",
    "LocalSession",
    "Proxy",
    "RPCSession",
    "Server",
    "Tracker",
    "TrackerSession",
    "connect",
    "connect_board",
    "connect_tracker",
]
