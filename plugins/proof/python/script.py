"""The script that calls Frama-C and counts alarms."""

from __future__ import annotations

from collections.abc import Sequence

from .kernels import LEVELS

# Kernels with a choice for each element: paths are not kept apart.
_MERGED = (
    "tvmrt_micro_requantize_any", "tvmrt_micro_requantize_twice", "tvmrt_micro_residual_rows",
)  # fmt: skip

_SCRIPT = r"""#!/bin/sh
# Prove with Frama-C that the C code in the folder above has no undefined behaviour for any input.
# Usage: run.sh [run | kernels_1 | kernels_2 | kernels_3 | OPERATOR]...; without arguments all.
# FRAMAC_OPTIONS adds options of Frama-C.
# Exit code: 0 without alarms, 1 with alarms, 2 if Frama-C is missing or cannot read the code.
cd "$(dirname "$0")" || exit 2
if ! command -v frama-c >/dev/null 2>&1; then
  echo "frama-c is not installed; install it, for example Debian's package frama-c-base" >&2
  exit 2
fi
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 2' INT TERM

export OCAMLRUNPARAM="${OCAMLRUNPARAM-o=200}" # less garbage collection, more memory

# The branches of the headers for compilers without extensions and without special instructions.
macros='@macros@'
cpp="-std=c99 -undef -I. -Iinclude -I.. -include __fc_builtin.h $macros"
# All loops are unrolled. Paths are kept apart, but not where each element of a result has two.
eva="-eva-precision 0 -eva-min-loop-unroll 1000000 -eva-slevel 300 -eva-plevel 100000"

parse() { # parse NAME FILE...: the syntax tree in $work/NAME.sav
  name=$1
  shift
  frama-c -cpp-extra-args="$cpp" -machdep x86_32 "$@" -save "$work/$name.sav" \
    -then -print -ocode "$work/$name.c" >"$work/$name.log" 2>&1 && return
  echo "frama-c cannot read the code:" >&2
  grep -i error "$work/$name.log" >&2
  exit 2
}

present() { # present TREE LINE FUNCTION...: those after such a line in the tree, with commas
  tree=$1 line=$2 found=
  shift 2
  for each; do
    if grep -B 1 "^[a-z].*[ *]$each(" "$work/$tree.c" | grep -q "$line"; then
      found=$found,$each
    fi
  done
  echo "${found#,}"
}

total=0 seconds=0
analyse() { # analyse LABEL TREE FUNCTION USED PROVED [OPTION]...: functions whose contracts are
  # used, and those whose contracts are proved, with commas
  label=$1 tree=$2 start=$3 used=$4 proved=$5
  shift 5
  for each in $(present "$tree" '' @merged@ | tr ',' ' '); do
    set -- "$@" -eva-slevel-function "$each:0"
  done
  if [ -n "$used" ]; then set -- "$@" -eva-use-spec "$used"; fi
  frama-c -load "$work/$tree.sav" -main "$start" -warn-special-float none \
    -eva $eva -eva-no-show-progress "$@" $FRAMAC_OPTIONS \
    -then -report-csv "$work/$label.csv" -time "$work/$label.time" >"$work/$label.log" 2>&1
  if [ $? -ne 0 ] || [ ! -s "$work/$label.csv" ]; then
    echo "frama-c failed for $label:" >&2
    tail -n 5 "$work/$label.log" >&2
    exit 2
  fi
  # Contracts of the C library's functions are taken as they are, those of the code are proved: here
  # if they are not used. What a result depends on is not proved, nor is it needed.
  # A check of the driver or a contract that is not reached is an alarm, too.
  alarms=$(awk -F'\t' -v start="$start" -v used=",$used," -v proved="$proved" '
    NR == 1 || $1 ~ /^FRAMAC_SHARE/ || $5 == "from clause" { next }
    $6 == "Valid" && $5 == "assigns clause" { reached[$4] }
    $6 ~ /^(Valid|Considered valid)$/ { next }
    index(used, "," $4 ",") && ($5 == "postcondition" || $5 == "assigns clause") { next }
    $6 !~ /^(Dead|Untried|Never tried)/ || ($5 == "user check" && $4 == start)
    END {
      OFS = FS; n = split(proved, names, ",")
      for (i = 1; i <= n; i++)
        if (!(names[i] in reached)) print "", "kernels.h", 1, "", "contract", "Untried", names[i]
    }' "$work/$label.csv" |
    tee "$work/$label.alarms" | wc -l)
  if grep -q 'NON TERMINATING FUNCTION' "$work/$label.log"; then alarms=$((alarms + 1)); fi
  spent=$(awk '{ print int($NF + 0.5) }' "$work/$label.time")
  printf '%-40s %6d alarms %6d s\n' "$label" "$alarms" "$spent"
  awk -F'\t' '{ print "  " $2 ":" $3 ": " $5 " " $6 ": " $7 }' "$work/$label.alarms"
  total=$((total + alarms)) seconds=$((seconds + spent))
}

parse run @run@ driver.c
parse operators @operators@ operators.c
# Functions with contracts.
first=$(present operators '[*]/$' @first@) second=$(present operators '[*]/$' @second@)
third=$(present operators '[*]/$' @third@) earlier=$first${second:+,$second}
contracts=$earlier${third:+,$third}
[ $# -gt 0 ] || set -- run kernels_1 kernels_2 kernels_3 @entries@
for name; do
  case $name in
    run) analyse run run main "" "" -eva-split-return full ;;
    kernels_1) analyse $name operators proof_$name "" "$first" -from-verify-assigns ;;
    kernels_2) analyse $name operators proof_$name "$first" "$second" -from-verify-assigns ;;
    kernels_3) analyse $name operators proof_$name "$earlier" "$third" -from-verify-assigns \
      -eva-ilevel 256 ;;
    *) analyse "$name" operators "proof_@prefix@_$name" "$contracts" "" ;;
  esac
done
# Statements that are taken as true in the functions of the C code that are reached.
admitted=$(cat "$work"/*.csv | awk -F'\t' '$5 == "user hypothesis" && $6 !~ /^(Dead|Unreach)/ {
  print $2 ":" $3 }' | sort -u | wc -l)
echo "total: $total alarms, $admitted admitted statements, $seconds s"
[ "$total" -eq 0 ]
"""


def print_script(
    prefix: str, target: str, operators: Sequence[str], run: Sequence[str], entries: Sequence[str]
) -> str:
    """Return the text of ``run.sh``: the files with the operators, those with the run function, and
    the functions of the drivers of operators."""
    start = f"proof_{prefix}_"
    values = {
        "macros": _macros(target),
        "prefix": prefix,
        "operators": " ".join(f"../{name}" for name in operators),
        "run": " ".join(f"../{name}" for name in run),
        "merged": " ".join(_MERGED),
        "first": " ".join(LEVELS[0]),
        "second": " ".join(LEVELS[1]),
        "third": " ".join(LEVELS[2]),
        "entries": " ".join(name.removeprefix(start) for name in entries),
    }
    text = _SCRIPT
    for key, value in values.items():
        text = text.replace(f"@{key}@", value)
    return text


def _macros(target: str) -> str:
    """Return the macros that choose the branches for a processor.

    Alignment is checked by offsets in arrays, because addresses are unknown.
    """
    defines = ["-DTVMRT_ADDRESS=Frama_C_offset"]
    if target.startswith(("riscv32", "rv32")):
        defines += ["-D__riscv", "-D__riscv_xlen=32"]
        if target.endswith("fc"):
            defines.append("-D__riscv_flen=32")
    return " ".join(defines)
