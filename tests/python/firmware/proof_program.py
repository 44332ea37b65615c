"""C program that checks the memory figures of a network with caller-provided pools.

Every pool has exactly the stated bytes between canaries. First come calls that must be refused,
with all memory filled by a pattern that must stay; then the network runs, and the canaries are
checked. The exit status is the number of the failed check.
"""

from __future__ import annotations

GUARD = 64

TEXT = """\
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <tvm/runtime/crt/error_codes.h>
#include <tvmgen_%(name)s.h>

enum { GUARD = %(guard)d, PATTERN = 0xA5 };
%(stack)s
%(arrays)s
static struct tvmgen_%(name)s_inputs inputs = {%(inputs)s};
static struct tvmgen_%(name)s_outputs outputs = {%(outputs)s};
static struct tvmgen_%(name)s_workspace_pools pools = {%(pools)s};
static const struct tvmgen_%(name)s_sizes sizes = {%(sizes)s};

static int untouched(const uint8_t *at, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) {
    if (at[i] != PATTERN) return 0;
  }
  return 1;
}

static int nothing_written(void) {
  return %(all_untouched)s;
}

static int32_t run(const struct tvmgen_%(name)s_sizes *given) {
  return tvmgen_%(name)s_run_checked(&inputs, &outputs, &pools, given);
}

static int refused(void) {
  struct tvmgen_%(name)s_sizes other;
  if (run(NULL) != kTvmErrorFunctionCallInvalidArg || !nothing_written()) return 10;
%(refusals)s
  return 0;
}

int main(void) {
  int code;
  FILE *in = fopen("inputs.bin", "rb"), *out = fopen("outputs.bin", "wb");
  FILE *costs = fopen("costs.bin", "wb");
  uint32_t stack = 0;
  if (in == NULL || out == NULL || costs == NULL) return 1;
%(fills)s
%(fetches)s
  code = refused();
  if (code != 0) return code;
%(paint)s
  code = run(&sizes);
%(used)s
  if (code != 0) return 2;
%(guards)s
%(stores)s
  if (fwrite(&stack, sizeof(stack), 1, costs) != 1) return 3;
  return fclose(out) == 0 && fclose(costs) == 0 ? 0 : 4;
}
"""


def program_text(library, stack: str = "") -> str:
    """Return the program; ``stack`` is C of paint_stack() and stack_used() to measure the stack."""
    name, summary = library.module_name, library.summary
    pools = sorted((p for p in summary.pools if p.is_external), key=lambda p: p.name)
    tensors = [(f"in{i}", t) for i, t in enumerate(summary.inputs)]
    results = [(f"out{i}", t) for i, t in enumerate(summary.outputs)]
    arrays = [
        f"static uint8_t {n}[{max(t.nbytes, 1)}] __attribute__((aligned(16)));"
        for n, t in [*tensors, *results]
    ]
    arrays += [
        f"static uint8_t {p.name}[GUARD + {p.used_bytes} + GUARD] __attribute__((aligned(16)));"
        for p in pools
    ]
    filled = [*(n for n, _ in results), *(p.name for p in pools)]
    sizes = [str(t.nbytes) for _, t in [*tensors, *results]]
    sizes += [str(p.used_bytes) for p in pools]
    return TEXT % {
        "name": name,
        "guard": GUARD,
        "stack": stack,
        "arrays": "\n".join(arrays),
        "inputs": ", ".join(n for n, _ in tensors) or "NULL",
        "outputs": ", ".join(n for n, _ in results) or "NULL",
        "pools": ", ".join(f"{p.name} + GUARD" for p in pools),
        "sizes": ", ".join(sizes),
        "all_untouched": " && ".join(f"untouched({n}, sizeof({n}))" for n in filled),
        "refusals": _refusals(library, pools),
        "fills": "\n".join(f"  memset({n}, PATTERN, sizeof({n}));" for n in filled),
        "fetches": "\n".join(
            f"  if (fread({n}, 1, {t.nbytes}, in) != {t.nbytes}) return 5;" for n, t in tensors
        ),
        "paint": "  paint_stack();" if stack else "",
        "used": "  stack = stack_used();" if stack else "",
        "guards": "\n".join(
            f"  if (!untouched({p.name}, GUARD)) return 6;\n"
            f"  if (!untouched({p.name} + sizeof({p.name}) - GUARD, GUARD)) return 7;"
            for p in pools
        ),
        "stores": "\n".join(
            f"  if (fwrite({n}, 1, {t.nbytes}, out) != {t.nbytes}) return 8;" for n, t in results
        ),
    }


def _refusals(library, pools) -> str:
    """Return a check per line: the error, its code, and that nothing was written."""
    from tvmrt.compiler.codegen.firmware.tensor_names import input_tensors, output_tensors

    members = [(t.member, -1) for t in input_tensors(library.program) if t.type.nbytes]
    members += [(t.member, 1) for t in input_tensors(library.program)]
    members += [(t.member, -1) for t in output_tensors(library.program) if t.type.nbytes]
    rows = [(f"other.{m} += {d};" if d > 0 else f"other.{m} -= 1;", "", "NetworkTensorMismatch")
            for m, d in members]  # fmt: skip
    for pool in (p for p in pools if p.used_bytes):
        whole = f"pools.{pool.name} = {pool.name} + GUARD;"
        rows += [
            (f"other.{pool.name}_workspace_pool -= 1;", "", "NetworkPoolTooSmall"),
            (f"pools.{pool.name} = NULL;", whole, "NetworkPoolMisplaced"),
            (f"pools.{pool.name} = {pool.name} + GUARD + 1;", whole, "NetworkPoolMisplaced"),
            (f"pools.{pool.name} = {pool.name} + GUARD + 8;", whole, "NetworkPoolMisplaced"),
        ]
    lines = []
    for i, (wrong, mend, code) in enumerate(rows):
        lines += [
            "  other = sizes;",
            f"  {wrong}",
            f"  if (run(&other) != kTvmError{code} || !nothing_written()) return {20 + i % 200};",
        ]
        lines += [f"  {mend}"] if mend else []
    return "\n".join(lines)
