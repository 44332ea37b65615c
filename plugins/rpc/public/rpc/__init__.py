"""Remote calls: run and measure on another machine what was built on this one.

The names and the bytes are those of ``tvm.rpc`` 0.8 to 0.18, so that either side may be TVM's.
"""

from .board import BoardNetwork, BoardSession, connect_board
from .client import LocalSession, RPCSession, TrackerSession, connect, connect_tracker
from .proxy import Proxy
from .server import Server
from .tracker import Tracker

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
