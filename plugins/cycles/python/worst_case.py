"""Bound of the cycles of a network whose instructions depend on its inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tvmrt.plugins.cycles import branch_facts, longest_path, loop_limits, memcheck
from tvmrt.plugins.cycles.call_graph import Program
from tvmrt.plugins.cycles.core_timing import Core
from tvmrt.plugins.cycles.disassembly import Instruction
from tvmrt.plugins.cycles.estimate import block_cycles
from tvmrt.plugins.cycles.longest_path import Bound
from tvmrt.plugins.cycles.mcu_parts import Mcu
from tvmrt.plugins.cycles.qemu_run import CountedRun, is_harness, run_command

ROOT = "count_run"


def worst_core(core: Core) -> Core:
    """Return a core whose instructions take their longest time."""
    return replace(
        core,
        costs={**core.costs, **(core.worst_costs or {})},
        taken_branch=core.worst_taken_branch or core.taken_branch,
    )


def bound(
    runs: Sequence[CountedRun], found: memcheck.Found, core: Core, part: Mcu, tool: str
) -> Bound:
    """Return the bound of a run over all inputs, by the longest paths.

    ``runs``: of the same code with several inputs; ``found``: memcheck's result; ``tool``: prefix
    of the names of the board's binary utilities.

    Raises
    ------
    UnknownFlowError
        If there is no bound; the text says why.
    CompileError
        If a tool fails.
    """
    code, image = runs[0].code, runs[0].image
    text = run_command([f"{tool}-objdump", "-dl", "--no-show-raw-insn", str(image.path)])
    facts = branch_facts.gather(runs, text)
    addresses = {(place.file, place.line) for place in found.addresses}
    worst = worst_core(core)

    def is_same(at: int, decides_about_loop: bool) -> bool:
        if loop_limits.COPIES.match(code.function_at(at)):
            return True
        line = facts.lines.get(at)
        if line is None or at in facts.differing:
            return False
        if code.block(at, 1)[0].kind == "call":
            return not branch_facts.is_reported(line, addresses)
        return found.steady.has(line, decides_about_loop)

    def cycles(block: list[Instruction]) -> float:
        waits = part.wait_states and part.wait_states * _flash_reads(block, part, image.ram)
        return block_cycles(block, worst) + waits

    program = Program(
        code,
        cycles,
        worst.taken_branch,
        branch_facts.constants(image.path.read_bytes()),
        facts.executed,
        facts.always_executed,
        facts.taken,
        facts.not_taken,
        is_same,
        loop_limits.most_rounds,
        loop_limits.most_rounds_of_call,
        is_harness,
    )
    return longest_path.bound(program, ROOT)


def _flash_reads(block: Sequence[Instruction], part: Mcu, ram: tuple[int, int]) -> int:
    """Return the largest number of flash lines that a block reads, without caches."""
    first, last = block[0].address, block[-1].address + 3
    reads = 0 if ram[0] <= first < ram[1] else last // part.line - first // part.line + 1
    for each in block:
        if "sp" in each.operands or each.text.startswith(("push", "pop", "st", "vst", "vpush")):
            continue
        if each.kind in ("load", "float_load", "load_double", "multiple", "pop_pc"):
            reads += max(each.registers, 2 if each.kind == "load_double" else 1)
    return reads
