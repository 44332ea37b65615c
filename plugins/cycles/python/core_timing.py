"""Cycles per instruction kind of each core, for memory without wait states.

A kind that is missing in a core's row takes one cycle. If the manufacturer publishes a table, the
row follows it (``published``). Other rows are derived from published descriptions of the pipeline,
as ``source`` says. All numbers were written from memory, without the manuals at hand, and none was
validated on silicon; ``--scale`` corrects the result by a measurement.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tvmrt import plugin

from .disassembly import KINDS


@dataclass(frozen=True)
class Core:
    """Cycle model of one core.

    ``costs`` has the cycles by instruction kind (``disassembly.kind_of``); for RISC-V vectors, per
    register of a group. ``per_register`` is added per register of a multiple load or store,
    ``taken_branch`` for a taken conditional branch. ``worst_costs`` and ``worst_taken_branch`` are
    the largest values of costs that depend on operands or on the pipeline; ``worst_costs`` is None
    if the cycles of a core depend on earlier instructions or on its caches. ``dual_issue``: two
    independent neighbours are issued together. ``overlap``: consecutive vector instructions for
    different units take one cycle instead of two.
    """

    name: str
    source: str
    published: bool
    costs: Mapping[str, float] = field(default_factory=dict)
    per_register: float = 1
    taken_branch: float = 1
    worst_costs: Mapping[str, float] | None = None
    worst_taken_branch: float = 0
    dual_issue: bool = False
    overlap: bool = False


_M0 = {
    "load": 2, "load_next": 2, "store": 2, "multiple": 1, "pop_pc": 4, "call": 4, "jump": 3,
}  # fmt: skip
_M0PLUS = {**_M0, "pop_pc": 3, "call": 3, "jump": 2}
_M3 = {
    "load": 2, "load_next": 1, "load_double": 3, "multiple": 1, "pop_pc": 3, "call": 3, "jump": 3,
    "table": 4, "mla": 2, "mull": 4, "mlal": 5, "div": 6,
}  # fmt: skip
# refills of the pipeline take 3 cycles at most
_M3_WORST = {
    "call": 4, "jump": 4, "pop_pc": 4, "table": 5, "mull": 5, "mlal": 7, "div": 12,
}  # fmt: skip
_M4_WORST = {**_M3_WORST, "mull": 1, "mlal": 1}
_FLOATS = {
    "float_load": 2, "float_store": 2, "float_mac": 3, "float_div": 14, "float_sqrt": 14,
    "float_move_two": 2,
}  # fmt: skip
_M4 = {**_M3, "mull": 1, "mlal": 1, **_FLOATS}
_M33 = {**_M4, "mla": 1, "call": 2, "jump": 2, "pop_pc": 2}
_M7 = {
    "load_double": 1, "multiple": 1, "pop_pc": 3, "call": 2, "jump": 1, "table": 3, "div": 6,
    "float_mac": 1, "float_div": 14, "float_sqrt": 14,
}  # fmt: skip
_VECTOR = {"vector": 2, "vector_load": 2, "vector_store": 2, "vector_gather": 4}
_M55 = {
    **_M33, "load": 1, "load_double": 2, "float_load": 1, "float_store": 1, "float_mac": 1,
    **_VECTOR,
}  # fmt: skip
_M85 = {**_M7, **_VECTOR}
_RISCV = {
    "load": 2, "load_next": 2, "call": 2, "jump": 2, "div": 18, "float_load": 2, "float_div": 16,
    "float_sqrt": 16,
}  # fmt: skip

# fmt: off
CORES = {core.name: core for core in (
    Core("cortex-m0", "Cortex-M0 Technical Reference Manual (ARM DDI 0432), table of "
         "instructions; multiplier of one cycle", True, _M0, taken_branch=2,
         worst_costs={}, worst_taken_branch=2),
    Core("cortex-m0plus", "Cortex-M0+ Technical Reference Manual (ARM DDI 0484), table of "
         "instructions; multiplier of one cycle", True, _M0PLUS, worst_costs={},
         worst_taken_branch=1),
    Core("cortex-m3", "Cortex-M3 Technical Reference Manual (ARM DDI 0337), table of "
         "instructions; divisions 6 of 2 to 12, long products 4 of 3 to 5, refills of the pipeline "
         "2 of 1 to 3", True, _M3, taken_branch=2, worst_costs=_M3_WORST, worst_taken_branch=3),
    Core("cortex-m4", "Cortex-M4 Technical Reference Manual (ARM DDI 0439), tables of "
         "instructions and of the FPU; divisions 6 of 2 to 12, refills of the pipeline 2 of 1 to "
         "3", True, _M4, taken_branch=2, worst_costs=_M4_WORST, worst_taken_branch=3),
    Core("cortex-m23", "as Cortex-M0+, with a divider of 17 cycles", False,
         {**_M0PLUS, "div": 17}),
    Core("cortex-m33", "as Cortex-M4, with MLA of one cycle and a pipeline that is one stage "
         "shorter to refill", False, _M33),
    Core("cortex-m7", "two instructions a cycle where neighbours do not need each other and are "
         "for different units; predicted branches", False, _M7, taken_branch=0, dual_issue=True),
    Core("cortex-m55", "as Cortex-M33, loads of one cycle; vectors in two beats that overlap with "
         "those for another unit; ends of low-overhead loops free", False, _M55, overlap=True),
    Core("cortex-m85", "scalar instructions as Cortex-M7, vectors as Cortex-M55", False, _M85,
         taken_branch=0, dual_issue=True, overlap=True),
    Core("riscv32", "a core in order with one load port, as in microcontrollers of four stages",
         False, _RISCV, per_register=0, taken_branch=2, worst_costs={"div": 34},
         worst_taken_branch=2),
    Core("rv32imac_zve32x", "as riscv32; vectors of 128 bits go through units of 64, two cycles "
         "for each register of a group, eight where its elements lie apart", False,
         {**_RISCV, **_VECTOR, "vector_gather": 8}, per_register=0, taken_branch=2),
)}
# fmt: on

# Targets that use another target's core, with more or fewer instructions.
CORE_ALIASES = {
    "cortex-m4f": "cortex-m4", "cortex-m4-nofp": "cortex-m4", "rv32imac": "riscv32",
    "rv32imafc": "riscv32",
}  # fmt: skip


def core_of(target: str) -> Core:
    """Return the cycle model of a board's target; ValueError if there is none."""
    added = plugin.find("targets", target)
    base = target if added is None else added.base
    core = CORES.get(CORE_ALIASES.get(base, base))
    if core is None:
        raise ValueError(
            f"{target} has no published table of cycles, so time and energy cannot be estimated; "
            f"'tvmrt compile --target {target}' reports RAM, flash and stack"
        )
    if added is None:
        return core
    unknown = ", ".join(sorted(set(added.costs) - set(KINDS)))
    if unknown:
        raise ValueError(
            f"the target {target} has costs of {unknown}; the kinds of instructions are "
            f"{', '.join(KINDS)}"
        )
    costs = {**core.costs, **added.costs}
    return replace(core, name=target, source=f"as {core.name}, but for {dict(added.costs)}",
                   published=False, costs=costs, worst_costs=None)  # fmt: skip
