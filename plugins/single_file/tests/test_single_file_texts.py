"""Test how C texts are joined, split into items and reduced to what a network needs."""

from __future__ import annotations

from tvmrt.plugins.single_file.conditions import Macros
from tvmrt.plugins.single_file.items import items_of, macros_of
from tvmrt.plugins.single_file.preprocess import Preprocessor
from tvmrt.plugins.single_file.reachable import needed

CONDITIONS = {
    "OWN_A": 0,
    "!OWN_A": 1,
    "defined(OWN_ONE) && OWN_ONE": 1,
    "OWN_ONE + 2 == 3": 1,
    "OWN_ONE == 2 || OWN_A": 0,
    "__GNUC__": None,
    "__GNUC__ && OWN_A": 0,
    "__GNUC__ && OWN_ONE": None,
    "OWN_ONE || __GNUC__": 1,
    "OWN_A || defined __GNUC__": None,
    "!(__GNUC__ >= 12)": None,
    "__has_attribute(cold) && OWN_A": 0,
    "ABSENT || (defined(ABSENT) && (ABSENT & 2))": 0,
    "0x10 > 0xFul": 1,
    "OWN_ONE * 2 == 2": None,  # operators that the evaluator lacks are left to the compiler
}


def test_conditions_are_true_false_or_left_to_the_compiler():
    macros = Macros(("OWN_",), ("ABSENT",))
    macros.define("OWN_ONE", "1", certain=True)
    assert {each: macros.evaluate(each) for each in CONDITIONS} == CONDITIONS
    macros.define("OWN_ONE", None, certain=False)
    assert macros.evaluate("OWN_ONE") is None


def test_includes_are_joined_once_and_known_branches_are_chosen():
    headers = {
        "a/b.h": '#ifndef OWN_B\n#define OWN_B 1\n#include "c.h"\nint b;\n#endif\n',
        "a/c.h": "int c; /* #if 0 */\n",
    }
    joined = Preprocessor(headers, ("OWN_",), ("__SIMD__",))
    joined.add(
        "#include <math.h>\n#include <a/b.h>\n#include <a/b.h>\n"
        "#if OWN_B\nint yes;\n#else\nint no;\n#endif\n"
        "#ifdef __SIMD__\n#include <simd.h>\n#elif defined(__GNUC__)\nint gnu;\n"
        "#else\nint any;\n#endif\n"
    )
    lines = [line for line in joined.text.splitlines() if line]
    assert lines == [
        "#define OWN_B 1", "int c; /* #if 0 */", "int b;", "int yes;",
        "#if defined(__GNUC__)", "int gnu;", "#else", "int any;", "#endif",
    ]  # fmt: skip
    assert list(joined.system) == ["math.h"]


TEXT = """\
#define TWICE(type) static type type##_twice(type x) { return x + x; }
TWICE(int)
TWICE(float)

/* A pair; with a ";" in its comment. */
typedef struct {
  int a, b[2];
} pair;

#define VECTOR(type, lanes) type __attribute__((vector_size(sizeof(type) * (lanes)), aligned(4)))
#define VECTORS(n) \\
  typedef VECTOR(int, n) ints##n; \\
  static ints##n ints##n##_zero(void) { return (ints##n){0}; }
VECTORS(4)
VECTORS(8)

static struct { int n; } counter;

static const struct {
  struct { int n; } inner;
} rows[] = {{{2}}, {{3}}};

enum { RED = 1, GREEN };

#if defined(__GNUC__)
static int square(int x) { return x * x; }
#else
static int square(int x) { return GREEN * x; }
#endif

#ifdef __cplusplus
static int unused(void) { return '}' + sizeof("{"); }
#endif

int (*hook)(int);

#if defined(__GNUC__)
static inline
#else
static
#endif
int odd(int x) { return x & 1; }

const int table[2] TVMGEN_RODATA = {1, 2};

int run(const pair *p) {
  const int zero = ints8_zero()[0];
  const int more = table[odd(0)] + rows[1].inner.n; /* unused() */
  return zero + int_twice(p->a) + square(p->b[0]) + counter.n + more;
}
"""


def test_items_have_their_names_and_only_needed_ones_are_kept():
    macros = macros_of(TEXT)
    items = items_of(TEXT, macros)
    kept = needed(items, macros, ["run"])
    assert not any(each.conditions for each in items if each.names & {"odd", "table", "run"})
    names = [sorted(each.names) for i, each in enumerate(items) if i in kept and each.names]
    assert names == [
        ["TWICE"], ["int_twice"], ["pair"], ["VECTOR"], ["VECTORS"], ["ints8", "ints8_zero"],
        ["counter"], ["rows"], ["GREEN", "RED"], ["square"], ["square"],
        ["odd"], ["table"], ["run"],
    ]  # fmt: skip
    text = "\n".join(each.text for i, each in enumerate(items) if i in kept)
    assert text.count("#if defined") == text.count("#else") == text.count("#endif") == 2
    assert "/* A pair" in text and "/* unused() */" in text
    assert not any(word in text for word in ("float", "hook", "__cplusplus"))
