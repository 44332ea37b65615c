"""Description of the wasm plug-in."""

from tvmrt.plugin import Plugin

PLUGIN = Plugin(
    name="wasm",
    summary="networks as WebAssembly for browsers, Node and WASI",
    exporters={
        ".wasm": "tvmrt.plugins.wasm.writer:Module",
        ".js": "tvmrt.plugins.wasm.writer:Script",
        "npm": "tvmrt.plugins.wasm.writer:Package",
    },
)
