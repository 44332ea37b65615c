"""Memory of a firmware network: RAM by pool, flash, stack, and the share of each operator.

Memory plans come from the metadata of the Model Library Format; code and stack sizes come from the
target's C compiler, if it is installed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tvmrt.cli import console
from tvmrt.cli.call_graph import Depth
from tvmrt.cli.footprint import Footprint, FunctionCost, measure
from tvmrt.cli.table import Table
from tvmrt.compiler.codegen.target import Target
from tvmrt.compiler.symbols import PACKED_SUFFIX, prefix_of
from tvmrt.error import CompileError

MAX_NAMES = 6  # maximum number of functions with unknown stack in one line


@dataclass
class FunctionSize:
    """C function; its stack is null if it has no bound."""

    name: str
    code_bytes: int
    frame_bytes: int
    stack_bytes: int | None


@dataclass
class StackDepth:
    """``bytes``: null if no bound is known. ``path``: Call path."""

    bytes: int | None
    path: list[str]


@dataclass
class FootprintSummary:
    """Code, constants and stack on the target, by its C compiler.

    ``run_code_bytes``: Code used by a run, by network. ``code_bytes``: Code including entry points
    that a run does not use. ``constant_bytes``: Constants other than weights. ``stack``: Deepest
    call path, by network. ``stack_not_counted``: External functions whose stack is not counted.
    ``left_out``: C files that were not measured, and the reason.
    """

    compiler: str
    run_code_bytes: dict[str, int]
    code_bytes: int
    constant_bytes: int
    run_constant_bytes: int
    data_bytes: int
    bss_bytes: int
    stack: dict[str, StackDepth]
    stack_not_counted: list[str]
    left_out: dict[str, str]
    functions: list[FunctionSize]


@dataclass
class Measured:
    """Measurements by the C compiler; without one, ``reason`` is the error."""

    footprint: Footprint | None
    reason: str = ""

    def function(self, symbol: str) -> FunctionCost | None:
        """Return the costs of a function; None if unknown."""
        return None if self.footprint is None else self.footprint.functions.get(symbol)

    def entries(self, module: Mapping[str, Any]) -> list[FunctionCost]:
        """Return the entry points: run, or the packed function of each operator."""
        prefix = prefix_of(module.get("model_name", ""))
        run = self.function(f"{prefix}_run")
        rows = module["memory"]["functions"].get("operator_functions", [])
        packed = (self.function(f"{row['function_name']}{PACKED_SUFFIX}") for row in rows)
        return [run] if run is not None else [cost for cost in packed if cost is not None]

    def code_bytes(self, modules: Mapping[str, Any]) -> int:
        """Return the bytes of code that the entry points of all modules use."""
        if self.footprint is None:
            return 0
        names = {cost.name for module in modules.values() for cost in self.entries(module)}
        return self.footprint.code_of(*names)

    def stack(self, module: Mapping[str, Any]) -> Depth | None:
        """Return the maximum stack depth of the entry points."""
        depths = [cost.stack for cost in self.entries(module)]
        unbounded = [depth for depth in depths if depth.nbytes is None]
        return next(iter(unbounded), max(depths, key=lambda d: d.nbytes or 0, default=None))


def measure_footprint(
    sources: Sequence[Path], includes: Sequence[Path], target: Target, cc: str | None = None
) -> Measured:
    """Measure C files except for weights, whose sizes are known."""
    code = [path for path in sources if not path.name.endswith("_weights.c")]
    try:
        return Measured(measure(code, includes, target, cc))
    except CompileError as problem:
        return Measured(None, str(problem))


def stack_text(depth: Depth | None, outside: Sequence[str] = ()) -> str:
    """Format a stack depth with its path: ``840 B: tvmgen_net_run > ...``"""
    if depth is None:
        return "-"
    size = "no bound" if depth.nbytes is None else console.format_bytes(depth.nbytes)
    text = f"{size}: {' > '.join(depth.path)}"
    others = [*outside[:MAX_NAMES], *(["others"] if len(outside) > MAX_NAMES else [])]
    return f"{text}; plus the stack of {', '.join(others)}" if others else text


def summary_pairs(metadata: Mapping[str, Any], result: Measured) -> dict[str, str]:
    """Return the summary lines of a compilation from its metadata and measurements."""
    modules = metadata["modules"]
    pairs = memory_pairs(metadata)
    if result.footprint is None:
        pairs["code, stack"] = f"not measured: {result.reason}"
        return pairs
    found = result.footprint
    size = console.format_bytes
    pairs["code"] = (
        f"{size(result.code_bytes(modules))} to run and {size(found.run_constant_bytes)} of "
        f"constants; {size(found.code_bytes + found.constant_bytes)} with all entries; "
        f"by {found.compiler}"
    )
    flash = result.code_bytes(modules) + found.run_constant_bytes + _weights_bytes(metadata)
    others = any(len(module["memory"].get("row_plans", ())) > 1 for module in modules.values())
    pairs["flash"] = f"{size(flash)} without the C library" + others * (
        "; another plan has the same weights, and its code is measured when it is compiled"
    )
    for name, module in modules.items():
        of = f" of {name}" if len(modules) > 1 else ""
        pairs[f"stack{of}"] = stack_text(result.stack(module), found.outside)
    return {**pairs, **unmeasured_pairs(found)}


def _weights_bytes(metadata: Mapping[str, Any]) -> int:
    """Return the bytes of all weights, those that networks of an image share once."""
    mains = [m["memory"]["functions"]["main"][0] for m in metadata["modules"].values()]
    rows = mains if metadata.get("image") is None else [metadata["image"]]
    return sum(row["constants_size_bytes"] for row in rows)


def unmeasured_pairs(footprint: Footprint) -> dict[str, str]:
    """Return lines about C files that could not be measured."""
    return {f"not measured, {name}": reason for name, reason in sorted(footprint.left_out.items())}


def memory_pairs(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Return lines about RAM and weights."""
    size = console.format_bytes
    modules, image = metadata["modules"], metadata.get("image")
    pairs: dict[str, str] = {}
    for name, module in modules.items():
        of = f" of {name}" if len(modules) > 1 else ""
        memory = module["memory"]
        main = memory["functions"]["main"][0]
        for pool in memory["pools"]:
            pairs[f"RAM {pool['name']}{of}"] = _pool_text(pool)
        if "graph_executor_bytes" in memory:
            nbytes = memory["graph_executor_bytes"]
            pairs[f"RAM graph{of}"] = f"{size(nbytes)} for the executor, with all of the above"
        bound = memory["lower_bound_bytes"]
        if len(memory["pools"]) > 1:
            pairs[f"RAM{of}"] = (
                f"{size(main['workspace_size_bytes'])} in total; lower bound for a single pool "
                f"{size(bound)}"
            )
        rows = _plan_pairs(module).items()
        pairs.update({f"{key}{of}": text for key, text in rows})
        pairs[f"weights{of}"] = f"{size(main['constants_size_bytes'])} in flash"
    if image is not None:
        together = [" and ".join(group) for group in image["concurrent"]]
        how = f"{', '.join(together)} concurrently" if together else "in turns"
        pairs["RAM together"] = f"{size(image['workspace_size_bytes'])}, {how}"
        pairs["weights together"] = f"{size(image['constants_size_bytes'])}, shared if equal"
    return pairs


def _plan_pairs(module: Mapping[str, Any]) -> dict[str, str]:
    """Return a line for each of the used, the fastest and the smallest memory plan, with the option
    that selects it."""
    plans = module["memory"].get("row_plans", ())
    limited = "ram" in module.get("manifest", {}).get("options", {})
    complete = limited or any(plan.get("surplus_macs") for plan in plans)
    used = "used" if complete else "default"
    smallest = "smallest" if complete else "smallest without repeated work"
    costs = [plan["instructions"] - plan.get("saved_instructions", 0) for plan in plans]
    pairs: dict[str, str] = {}
    for i, plan in enumerate(plans):
        fastest = i == costs.index(min(costs))
        roles = {used: plan.get("used"), "fastest": fastest, smallest: i == len(plans) - 1}
        names = [name for name, applies in roles.items() if applies]
        if names:
            key = names[0].split()[0]
            others = " and ".join(name for name in names if name != key)
            how = "no option" if key == "default" else f"--ram {plan['ram_bytes']}"
            text = f"{_plan_text(plan)}, the {others}" if others else _plan_text(plan)
            pairs[f"plan {key}"] = f"{text}; {how}"
    return pairs


def _plan_text(plan: Mapping[str, Any]) -> str:
    """Format a plan: ``24,960 B, about 130,000 more instructions (0.5 %)``."""
    text = f"{plan['ram_bytes']:,} B"
    if plan["chains"]:
        share = f" ({100 * plan['slowdown']:.1f} %)" if "slowdown" in plan else ""
        text += f", about {plan['instructions']:,} more instructions{share}"
    if plan.get("weights_in_ram"):
        text += f", {plan['weights_in_ram']:,} B of weights copied from flash before use"
    surplus = plan.get("surplus_macs", 0)
    return f"{text}, patch-based ({surplus:,} repeated multiply-adds)" if surplus else text


def _pool_text(pool: Mapping[str, Any]) -> str:
    size = console.format_bytes
    used, bound = pool["used_bytes"], pool["lower_bound_bytes"] + pool["kept_bytes"]
    capacity = pool["capacity_bytes"]
    text = size(used) if capacity is None else f"{size(used)} of {size(capacity)}"
    kept = f", {size(pool['kept_bytes'])} of them weights" if pool["kept_bytes"] else ""
    return f"{text}{kept}; lower bound of any placement {size(bound)}"


def tables(modules: Mapping[str, Any], result: Measured) -> dict[str, Table]:
    """Return tables by title: pools, flash, operators."""
    found: dict[str, Table] = {}
    for name, module in modules.items():
        memory = module.get("memory", {})
        if "pools" in memory:
            found[f"RAM of {name}, in bytes"] = _pool_table(memory["pools"])
        if len(memory.get("row_plans", ())) > 1:
            found[f"plans of {name} by rows, RAM in bytes"] = _plan_table(memory["row_plans"])
        if "functions" in memory:
            found[f"operators of {name}, in bytes"] = _operator_table(memory["functions"], result)
    if result.footprint is not None:
        found["flash, in bytes"] = _flash_table(modules, result, result.footprint)
    return found


def _plan_table(plans: Sequence[Mapping[str, Any]]) -> Table:
    columns = (
        "RAM",
        "instructions more",
        "multiply-adds twice",
        "copied weights",
        "layers computed by rows",
    )
    rows = []
    for plan in plans:
        counts = plan.get("patches") or [1] * len(plan["chains"])
        chains = [_chain_text(*chain, count) for chain, count in zip(plan["chains"], counts)]
        numbers = (
            plan["ram_bytes"],
            plan["instructions"],
            plan.get("surplus_macs", 0),
            plan.get("weights_in_ram", 0),
        )
        rows.append((*numbers, ", ".join(chains) or "-"))
    return Table(columns, rows, columns[4:])


def _chain_text(first: str, last: str, patches: int) -> str:
    how = f" in {patches} patches" if patches > 1 else ""
    return f"{first} to {last}{how}"


def _pool_table(pools: Sequence[Mapping[str, Any]]) -> Table:
    columns = ("pool", "used", "has", "at least", "gap", "weights in it", "whose")
    rows = []
    for pool in pools:
        bound = pool["lower_bound_bytes"] + pool["kept_bytes"]
        provider = "the caller's" if pool["is_external"] else pool["section"] or "the image's"
        capacity = "-" if pool["capacity_bytes"] is None else pool["capacity_bytes"]
        gap = max(0, pool["used_bytes"] - bound)
        rows.append(
            (pool["name"], pool["used_bytes"], capacity, bound, gap, pool["kept_bytes"], provider)
        )
    return Table(columns, rows, ("pool", "whose"))


def _operator_table(functions: Mapping[str, Any], result: Measured) -> Table:
    columns = ("function", "live", "scratch", "weights", "code", "frame", "stack", "nodes")
    rows = []
    for row in functions.get("operator_functions", []):
        cost = result.function(row["function_name"])
        scratch = sum(w["workspace_size_bytes"] for w in row.get("workspace", []))
        stack = "-" if cost is None or cost.stack.nbytes is None else cost.stack.nbytes
        rows.append(
            (
                row["function_name"],
                row.get("live_size_bytes", "-"),
                scratch,
                row.get("constants_size_bytes", "-"),
                "-" if cost is None else cost.code_bytes,
                "-" if cost is None else cost.frame_bytes,
                stack,
                console.shorten_all(row.get("nodes", [])),
            )
        )
    return Table(columns, rows, ("function", "nodes"))


def _flash_table(modules: Mapping[str, Any], result: Measured, footprint: Footprint) -> Table:
    symbols = {
        row["function_name"]
        for module in modules.values()
        for row in module["memory"]["functions"].get("operator_functions", [])
    }
    own = sum(c.code_bytes for name, c in footprint.functions.items() if name in symbols)
    run = result.code_bytes(modules)
    rows = [
        (f"weights of {name}", module["memory"]["functions"]["main"][0]["constants_size_bytes"])
        for name, module in modules.items()
    ]
    rows += [
        ("code of operators", own),
        ("code of kernels, and of what calls operators", run - own),
        ("constants of operators and kernels", footprint.run_constant_bytes),
        ("code of other entries, linked where called", footprint.code_bytes - run),
        (
            "constants of other entries, linked where called",
            footprint.constant_bytes - footprint.run_constant_bytes,
        ),
        ("initialised variables", footprint.data_bytes),
    ]
    return Table(("flash", "bytes"), rows, ("flash",))


def as_dict(modules: Mapping[str, Any], result: Measured) -> dict[str, Any]:
    """Return the measurements as JSON data."""
    found = result.footprint
    if found is None:
        return {"measured": False, "reason": result.reason}
    stacks = {name: result.stack(module) for name, module in modules.items()}
    summary = FootprintSummary(
        compiler=found.compiler,
        run_code_bytes={n: result.code_bytes({n: module}) for n, module in modules.items()},
        code_bytes=found.code_bytes,
        constant_bytes=found.constant_bytes,
        run_constant_bytes=found.run_constant_bytes,
        data_bytes=found.data_bytes,
        bss_bytes=found.bss_bytes,
        stack={n: StackDepth(d.nbytes, list(d.path)) for n, d in stacks.items() if d is not None},
        stack_not_counted=found.outside,
        left_out=found.left_out,
        functions=[
            FunctionSize(c.name, c.code_bytes, c.frame_bytes, c.stack.nbytes)
            for c in found.functions.values()
        ],
    )
    return {"measured": True, **asdict(summary)}
