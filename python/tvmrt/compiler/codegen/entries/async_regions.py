"""Regions that an ahead-of-time network starts asynchronously and later waits for.

Each has a ticket: the handle returned by its start, or NULL if there is nothing to wait for. Steps
wait for the regions that they depend on. After the last step, or after an error, the network waits
for all others, because their tensors belong to the caller again when it returns.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvmrt.compiler.ir.program import Program, Step

from ..c.formatting import wrap
from ..dependencies import dependencies


def wait_lines(program: Program) -> dict[int, list[str]]:
    """Return by step the C lines that wait for its regions, once for each region."""
    deferred = [i for i, step in enumerate(program.steps) if step.deferred]
    waited: set[int] = set()
    lines: dict[int, list[str]] = {}
    for step, before in enumerate(dependencies(program)):
        needed = [i for i in before if i in deferred and i not in waited]
        waited.update(needed)
        indices = [deferred.index(i) for i in needed]
        lines[step] = [f"  if (wait_for(tickets, {k}) != 0) return -1;" for k in indices]
    return lines


def print_wait(steps: Sequence[Step]) -> list[str]:
    """Return C lines of the function that waits for one region."""
    names = [f'"{step.group.root.attrs["region"].symbol}__wait"' for step in steps]
    return [
        "TVM_DLL extern void *__tvm_module_ctx;",
        "",
        "/* Wait for a region that was started, unless it has been waited for. */",
        "static int32_t wait_for(void **tickets, int number) {",
        *wrap("  static const char *const names[] = ", names, ";", 1, brackets="{}"),
        "  TVMFunctionHandle wait;",
        "  TVMValue value, result;",
        "  int type_code = kTVMOpaqueHandle, result_code;",
        "  value.v_handle = tickets[number];",
        "  tickets[number] = NULL;",
        "  if (value.v_handle == NULL) return 0;",
        "  if (TVMBackendGetFuncFromEnv(__tvm_module_ctx, names[number], &wait) != 0) return -1;",
        "  return TVMFuncCall(wait, &value, &type_code, 1, &result, &result_code);",
        "}",
        "",
    ]


def print_network(
    name: str, steps: str, declared: Sequence[str], passed: Sequence[str], count: int
) -> list[str]:
    """Return C lines of the function that calls the steps with ``count`` tickets."""
    return [
        *wrap(f"static int32_t {name}", declared or ["void"], " {"),
        f"  void *tickets[{count}] = {{NULL}};",
        *wrap(f"int32_t rc = {steps}", [*passed, "tickets"], ";", 1),
        f"  for (int i = 0; i < {count}; ++i) {{",
        "    if (wait_for(tickets, i) != 0) rc = -1;",
        "  }",
        "  return rc;",
        "}",
        "",
    ]
