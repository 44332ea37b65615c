"""Remote calls: run and measure networks on another machine.

Names and wire format are compatible with ``tvm.rpc`` 0.8 to 0.18, so either side may be TVM.
"""

from .board import BoardSession, connect_board
from .client import LocalSession, RPCSession, TrackerSession, connect, connect_tracker
from .server import Server
from .tracker import Tracker

__all__ = [
    "BoardSession",
    "LocalSession",
    "RPCSession",
    "Server",
    "Tracker",
    "TrackerSession",
    "connect",
    "connect_board",
    "connect_tracker",
]
