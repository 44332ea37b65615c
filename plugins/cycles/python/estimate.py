"""Cycles, time and energy of a run, by calls of the network's main function."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tvmrt.cli.archive import ArchiveNetwork
from tvmrt.plugins.cycles.core_timing import Core
from tvmrt.plugins.cycles.disassembly import LOADS, Instruction, can_dual_issue, with_predecessor
from tvmrt.plugins.cycles.mcu_parts import Mcu
from tvmrt.plugins.cycles.qemu_run import CallCounts, CountedRun, main_functions

MAIN = "between operators"


@dataclass
class LayerCycles:
    """Work of one call: instructions, core cycles, and wait states of the flash."""

    name: str
    nodes: list[str] = field(default_factory=list)
    instructions: int = 0
    core_cycles: float = 0
    wait_cycles: float = 0
    functions: Counter[str] = field(default_factory=Counter)

    @property
    def cycles(self) -> float:
        return self.core_cycles + self.wait_cycles


def block_cycles(block: list[Instruction], core: Core) -> float:
    """Return the cycles of a block, without the cost of a taken branch at its end."""
    total, can_pair = 0.0, True  # free: the previous instruction was not paired
    for instruction, previous in with_predecessor(block):
        cost = _issue_cycles(instruction, previous, core)
        if previous is None:
            can_pair = True
        elif core.overlap and _overlaps(previous, instruction):
            cost -= 1
        elif core.dual_issue and can_pair and cost == 1 and can_dual_issue(previous, instruction):
            can_pair = False
            continue
        else:
            can_pair = True
        total += cost
    return total


def _issue_cycles(instruction: Instruction, previous: Instruction | None, core: Core) -> float:
    kind = instruction.kind
    cost = core.costs.get(kind, 1)
    if (
        kind in ("load", "float_load")
        and previous is not None
        and previous.kind in (*LOADS, "store")
    ):
        return min(cost, core.costs.get("load_next", cost))
    if kind in ("multiple", "pop_pc"):
        return cost + core.per_register * instruction.registers
    if kind.startswith("vector"):
        return cost * max(1, instruction.registers)
    return cost


def _overlaps(first: Instruction, second: Instruction) -> bool:
    """Return whether two vector instructions of two beats use different units."""
    a, b = first.kind, second.kind
    return a.startswith("vector") and b.startswith("vector") and a != b and "gather" not in b


def estimate_layers(
    network: ArchiveNetwork, run: CountedRun, core: Core, part: Mcu, scale: float = 1
) -> list[LayerCycles]:
    """Return the operators in execution order, and the code between them last. ``scale`` is the
    measured ratio of real to modelled cycles."""
    rows = network.memory["functions"].get("operator_functions", [])
    names = {row["function_name"]: row.get("nodes", []) for row in rows}
    callees = [run.code.calls.get(call.site, "") for call in run.calls]
    # two operators with equal code share one function, which has both names
    operators = [i for i, callee in enumerate(callees) if callee in names]
    by_order = len(operators) == len(rows)
    layers: list[LayerCycles] = []
    for i, call in enumerate(run.calls):
        name = MAIN if i == 0 else callees[i] or run.code.function_at(call.site)
        if by_order and i in operators:
            name = rows[operators.index(i)]["function_name"]
        if i > 0 and name in main_functions(network):
            name = MAIN  # one main function calls the other
        layer = LayerCycles(name.removeprefix(f"{network.prefix}_"), names.get(name, []))
        layer = layers[0] if name == MAIN and layers else layer
        _add(layer, call, run, core)
        waits = call.code_jump + call.data + (0 if part.prefetch else call.code_next)
        layer.wait_cycles += waits * part.wait_states
        if not layers or layer is not layers[0]:
            layers.append(layer)
    for layer in layers:
        layer.core_cycles *= scale
        layer.wait_cycles *= scale
    return [*layers[1:], layers[0]]


def _add(layer: LayerCycles, call: CallCounts, run: CountedRun, core: Core) -> None:
    for address, count, times, jumps in call.blocks:
        block = run.code.block(address, count)
        cycles = block_cycles(block, core) * times
        if block[-1].kind == "branch":
            cycles += core.taken_branch * jumps
        layer.instructions += count * times
        layer.core_cycles += cycles
        layer.functions[run.code.function_at(address)] += round(cycles)
