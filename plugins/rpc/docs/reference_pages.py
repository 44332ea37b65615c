"""Entries of the rpc plug-in on the Python API page."""

# rows of a section: the public name, the file that defines it, and its name there
ENTRIES = {
    "Other machines": [
        ("tvmrt.rpc.connect", "rpc/client.py", "connect"),
        ("tvmrt.rpc.RPCSession", "rpc/client.py", "RPCSession"),
        ("tvmrt.rpc.LocalSession", "rpc/client.py", "LocalSession"),
        ("tvmrt.rpc.Server", "rpc/server.py", "Server"),
        ("tvmrt.rpc.connect_tracker", "rpc/client.py", "connect_tracker"),
        ("tvmrt.rpc.TrackerSession", "rpc/client.py", "TrackerSession"),
        ("tvmrt.rpc.Tracker", "rpc/tracker.py", "Tracker"),
    ],
}
