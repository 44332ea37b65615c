"""Files of the folder ``proof`` next to the C code of a network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvmrt.compiler.sdk.codegen import memory_pool_symbol
from tvmrt.compiler.sdk.export import runtime_headers
from tvmrt.compiler.sdk.program import ARENA
from tvmrt.error import UnsupportedError
from tvmrt.option_syntax import option

from .contracts import print_contracts
from .drivers import entry, print_operator_drivers, print_run_driver
from .kernels import print_kernels
from .plan import make_plans
from .script import print_script

# Files of a folder that a run does not call.
_OPTIONAL = ("_checked.c", "_step.c", "_metadata.c", "_system_lib.c")


def proof_files(library: Any) -> Mapping[str, str]:
    """Return the texts of the files by path.

    Raises ValueError for a network of an image, and UnsupportedError for one whose operators the
    contracts cannot describe.
    """
    program, sources, options = library.program, library.sources, library.options
    _check(library)
    plans = make_plans(program, sources)
    names = [memory_pool_symbol(pool, sources.prefix, options) for pool in program.pools]
    texts = {k: v for k, v in sources.files.items() if not k.endswith(_OPTIONAL)}
    headers = runtime_headers(texts.values(), library.target)
    operators = sorted(name for name in texts if name.endswith(".c") and "_lib" in name)
    operators.remove(f"{sources.prefix}_lib0.c")
    weights = [f"{sources.prefix}_weights.c"] if f"{sources.prefix}_weights.c" in texts else []
    script = print_script(
        sources.prefix, library.target.name, weights,
        sorted([f"{sources.prefix}_lib0.c", *weights]), [entry(plan) for plan in plans],
    )  # fmt: skip
    return {
        **{f"proof/include/{path}": text for path, text in headers.items()},
        "proof/contracts.h": print_contracts(plans, sources, names),
        "proof/driver.c": print_run_driver(program, sources, names),
        "proof/kernels.h": print_kernels(texts[name] for name in operators),
        "proof/operators.c": print_operator_drivers(plans, sources, operators),
        "proof/run.sh": script,
    }


def _check(library: Any) -> None:
    if library.options.image is not None:
        raise ValueError(f"{option('proof')} describes one network; compile each on its own")
    if library.options.traced or library.options.call_lines is not None:
        raise ValueError(
            f"{option('proof')} describes networks without checks and records between operators; "
            "omit the options that add them"
        )
    if any(b.kind == ARENA for b in [*library.program.inputs, *library.program.outputs]):
        raise UnsupportedError(
            f"the network has inputs in its workspace, which {option('proof')} does not support; "
            f"omit {option('workspace_io')}"
        )
    sources = library.sources
    if sources.objects or any(sources.flags.values()) or sources.vendors:
        raise UnsupportedError("the network needs objects or libraries, which proof does not read")


__all__ = ["proof_files"]
