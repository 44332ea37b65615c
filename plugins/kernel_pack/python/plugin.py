"""Description of the plug-in of the kernel pack."""

from tvmrt.plugin import Plugin

PLUGIN = Plugin(
    name="kernel_pack",
    summary="kernels in the package, with which networks run without a C compiler",
    targets={"kernel-pack": "tvmrt.plugins.kernel_pack.pack:target"},
    exporters={".tvmrt": "tvmrt.plugins.kernel_pack.network_file:NetworkFile"},
    hooks={
        "kernel pack": "tvmrt.plugins.kernel_pack.pack",
        "build kernel-pack": "tvmrt.plugins.kernel_pack.link:build_library",
        "link .tvmrt": "tvmrt.plugins.kernel_pack.network_file:link_file",
        "reproducible kernel-pack": "tvmrt.plugins.kernel_pack.pack:fixed_target",
    },
)
