"""A processor like a Cortex-M4, whose float multiply-adds take six cycles, and a board with it."""

from dataclasses import replace

from tvmrt.compiler.sdk.codegen import McuFamily, get_target

M4 = get_target("cortex-m4")
TOYCORE = replace(
    M4,
    name="toycore",
    like="cortex-m4",
    flags=(*M4.flags, "-DTOYCORE"),
    board=(M4.board or frozenset()) | {"toycore"},  # features that kernels may use
    costs={"float_mac": 6},  # cycles
)
TOYBOARD = McuFamily("toyboard", "TOY32", "toycore", flash=1 << 20, ram={"sram": 128 << 10})
