"""Checks of the constants that operators define: structs of layers, tables of their kernels.

Each of these constants exists twice (``CallLines.pairs_constants``, ``TVMRT_PAIRED_TABLES``): its
sum is unknown here, as only the linker knows the addresses in it. Both copies are compared before
each call of an operator, since a changed size or address would lead out of the memory of a tensor.
"""

from __future__ import annotations

from tvmrt.compiler.sdk.codegen import Sources, is_pair, tables_in


def check_of(sources: Sources, index: int) -> str | None:
    """Return the call that compares the constants of an operator, or None if it has none."""
    name = f"{sources.prefix}_guard_constants_{index}"
    return f"{name}()" if f"{name}(void)" in sources.functions[index].text else None


def add_checks(sources: Sources) -> list[str]:
    """Add the function of :func:`check_of` to the text of each operator with constants; return the
    declarations that they need."""
    prefix = sources.prefix
    heads = [f"int32_t {prefix}_guard_differ(const void *copies, uint32_t size)"]
    for i, function in enumerate(sources.functions):
        pairs = [definition.placeholder for definition in filter(is_pair, function.definitions)]
        tables = tables_in(function.includes)
        if tables:
            function.macros["TVMRT_PAIRED_TABLES"] = "1"
        if not pairs and not tables:
            continue
        heads.append(f"int32_t {prefix}_guard_constants_{i}(void)")
        lines = [_compare(prefix, pair) for pair in pairs]
        for table in tables:  # some processors have code without it
            lines += [f"#ifdef {table}", _compare(prefix, table), "#endif"]
        body = [f"{heads[-1]} {{", "  int32_t differ = 0;", *lines, "  return differ;", "}"]
        comment = "/* Return whether constants of this operator changed. */"
        function.text = "\n".join([function.text, "", comment, *body])
    return [f"TVMGEN_LOCAL {head};" for head in heads]


def _compare(prefix: str, pair: str) -> str:
    return f"  differ |= {prefix}_guard_differ({pair}, sizeof({pair}[0]));"


DIFFER_C = """\

/* Return whether two objects of `size` bytes, the second after the first, differ. */
int32_t %(prefix)s_guard_differ(const void *copies, uint32_t size) {
  const volatile uint8_t *a = (const volatile uint8_t *)copies, *b = a + size;
  uint32_t differ = 0;
  if ((((uintptr_t)a | (uintptr_t)b) & 3) == 0) {
    for (; size >= 16; size -= 16, a += 16, b += 16) {
      const volatile guard_word *x = (const volatile guard_word *)a;
      const volatile guard_word *y = (const volatile guard_word *)b;
      differ |= (x[0] ^ y[0]) | (x[1] ^ y[1]);
      differ |= (x[2] ^ y[2]) | (x[3] ^ y[3]);
    }
  }
  for (; size > 0; --size) differ |= (uint32_t)(*a++ ^ *b++);
  return differ != 0;
}
"""
