"""Description of the rpc plug-in."""

from tvmrt.plugin import Plugin

PLUGIN = Plugin(
    name="rpc",
    summary="remote calls: networks on other machines, and on boards over a serial line",
    commands={
        "rpc": "tvmrt.plugins.rpc.command:command",
        "rpc server": "tvmrt.plugins.rpc.command:server",
        "rpc tracker": "tvmrt.plugins.rpc.command:tracker",
    },
    servers=("rpc server", "rpc tracker"),
    hooks={"serial line": "tvmrt.rpc.board_lines:open_line"},
    connections={"--rpc": "tvmrt.plugins.rpc.connection:RemoteCalls"},
)
