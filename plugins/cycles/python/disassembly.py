"""Instructions of an image, classified from the output of ``objdump``."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

_FUNCTION = re.compile(r"^([0-9a-f]+) <(.+)>:$")
# objdump prints @ for instructions that it does not know, such as CSINC of Armv8.1-M.
_LINE = re.compile(r"^\s*([0-9a-f]+):\s+(\S+)\s*(.*)$")
_REGISTER = re.compile(r"\b(?:[rsdqat]\d+|x\d+|f[ast]\d+|ft\d+|fp|ip|sp|lr|pc|sl|ra|gp|tp|zero)\b")
# Element bits and register group size of RISC-V vectors.
_VECTOR_TYPE = re.compile(r"\be(\d+),m(f?\d)")
_BYTES = re.compile(r"v[ls]\w*?e(\d+)")
_SPAN = re.compile(r"\b([rsdq])(\d+)-[rsdq](\d+)")
_WIDTH = re.compile(r"\.[nw]$")
_CONDITION = "eq|ne|cs|hs|cc|lo|mi|pl|vs|vc|hi|ls|ge|lt|gt|le"
# jumps and calls that ``IT`` makes conditional; conditional branches have a kind of their own
_CONDITIONAL = re.compile(rf"(blx?|pop|ldmia|ldm|ldr|mov|add)({_CONDITION})(\.[nw])?\s")
_POINTER = re.compile(r"# ([0-9a-f]+) <")
_TARGET = re.compile(r"\b([0-9a-f]+) <")

# Kinds by the start of an ARM mnemonic, first match; vectors are recognised by their registers.
_ARM = (
    (r"(le|letp|wls|wlstp|dls|dlstp)$", "loop"),
    (r"(ldrd|strd)", "load_double"),
    (r"(ldm|stm|push|vldm|vstm|vpush|vpop|pop)", "multiple"),
    (r"vldr|vld", "float_load"),
    (r"vstr|vst", "float_store"),
    (r"ldr", "load"),
    (r"str", "store"),
    (rf"blx?({_CONDITION})?$", "call"),
    (r"(bx|b)$", "jump"),
    (r"tb[bh]", "table"),
    (rf"cb(n?)z|bx?({_CONDITION})$", "branch"),
    (rf"(mla|mls)({_CONDITION})?$", "mla"),
    (r"[us]mull", "mull"),
    (r"[us]mlal$|umaal", "mlal"),
    (r"[us]mla|sml[as]|smm|smu|mul", "mul"),
    (r"[us]div", "div"),
    (r"v(fn?m[as]|n?ml[as])", "float_mac"),
    (r"vdiv", "float_div"),
    (r"vsqrt", "float_sqrt"),
    (r"v", "float"),
)
_RISCV = (
    (r"c?\.?f[ls][wd]", "float_load"),
    (r"c?\.?l([bhw]u?|wsp)$", "load"),
    (r"c?\.?s([bhw]|wsp)$", "store"),
    (r"(jal|jalr|call)$", "call"),
    (r"(j|jr|ret|tail)$", "jump"),
    (r"b(eq|ne|lt|ge|ltu|geu|gt|le|gtu|leu|eqz|nez|ltz|gez|gtz|lez)$", "branch"),
    (r"(div|rem)u?$", "div"),
    (r"mul", "mul"),
    (r"fn?m(add|sub)", "float_mac"),
    (r"fdiv", "float_div"),
    (r"fsqrt", "float_sqrt"),
    (r"f(?!ence)", "float"),
    (r"vset", "alu"),
    (r"v[ls](s|[uo]x)\w*e\w*\d", "vector_gather"),
    (r"vl(e?\d|m)", "vector_load"),
    (r"vs(e?\d|m\.)", "vector_store"),
    (r"v", "vector"),
)
_ARM_KINDS = tuple((re.compile(pattern), kind) for pattern, kind in _ARM)
_RISCV_KINDS = tuple((re.compile(pattern), kind) for pattern, kind in _RISCV)
# All kinds; "load_next": a load after another one.
KINDS = sorted({kind for _, kind in (*_ARM, *_RISCV)} | {
    "alu", "pop_pc", "float_move_two", "load_next", "vector", "vector_load", "vector_store",
    "vector_gather",
})  # fmt: skip
LOADS = {"load", "float_load", "load_double"}
# Execution unit of an instruction kind, if there is only one such unit.
UNITS = {
    "load": "memory", "store": "memory", "load_double": "memory", "multiple": "memory",
    "float_load": "memory", "float_store": "memory", "mul": "mul", "mla": "mul", "mull": "mul",
    "mlal": "mul", "float": "float", "float_mac": "float", "branch": "jump", "jump": "jump",
    "vector_load": "memory", "vector_store": "memory", "vector": "vector",
}  # fmt: skip


@dataclass(frozen=True)
class Instruction:
    """One instruction. ``registers``: number in a multiple load or store, or in a RISC-V vector
    group; ``result``: first operand; ``operands``: all named registers; ``text``: mnemonic and
    operands; ``target``: address of a direct jump, branch or call; ``pointer``: address in a
    register that objdump computed, if any."""

    address: int
    kind: str
    registers: int = 0
    result: str = ""
    operands: frozenset[str] = frozenset()
    text: str = ""
    target: int | None = None
    pointer: int | None = None

    @property
    def is_conditional(self) -> bool:
        """Whether an ARM instruction of a block after ``IT`` is executed on a condition."""
        return _CONDITIONAL.match(self.text) is not None


@dataclass
class Disassembly:
    """Instructions of an image in order, and its functions by start address."""

    instructions: list[Instruction] = field(default_factory=list)
    indices: dict[int, int] = field(default_factory=dict)
    functions: dict[int, str] = field(default_factory=dict)
    calls: dict[int, str] = field(default_factory=dict)  # called function, by return address
    _starts: list[int] = field(default_factory=list)

    def block(self, address: int, count: int) -> list[Instruction]:
        """Return ``count`` instructions at an address; KeyError if no instruction starts there."""
        at = self.indices[address]
        return self.instructions[at : at + count]

    def function_at(self, address: int) -> str:
        """Return the function that contains an address."""
        if len(self._starts) != len(self.functions):
            self._starts = sorted(self.functions)
        at = bisect.bisect_right(self._starts, address) - 1
        return self.functions[self._starts[at]] if at >= 0 else "?"

    def has_branches(self, name: str) -> bool:
        """Return whether a function has conditional branches or jumps through a table."""
        begin, end = self.span(name)
        code = (each for each in self.instructions if begin <= each.address < end)
        return any(each.kind in ("branch", "table") for each in code)

    def span(self, name: str) -> tuple[int, int]:
        """Return the start addresses of a function and of the next one; KeyError if unknown."""
        starts = sorted(self.functions)
        for i, start in enumerate(starts):
            if self.functions[start] == name:
                last = self.instructions[-1].address + 4
                return start, starts[i + 1] if i + 1 < len(starts) else last
        raise KeyError(name)


def read(text: str, riscv: bool) -> Disassembly:
    """Parse the output of ``objdump -d --no-show-raw-insn``."""
    code = Disassembly()
    before, vectors = "", (32, 1.0)
    for line in text.splitlines():
        function = _FUNCTION.match(line)
        if function:
            code.functions[int(function[1], 16)] = function[2]
            continue
        row = _LINE.match(line)
        if row is None or row[2].startswith("."):
            continue  # data within the code
        address = int(row[1], 16)
        if before:
            code.calls[address] = before
        instruction = _instruction(address, row[2], row[3], riscv)
        if riscv and row[2].startswith("vset"):
            vectors = _vector_type(row[3], vectors)
        elif riscv and instruction.kind.startswith("vector"):
            instruction = replace(instruction, registers=_group_registers(row[2], *vectors))
        target = re.search(r"<([^>+]+)>", row[3]) if instruction.kind == "call" else None
        before = target[1] if target else ""
        code.indices[address] = len(code.instructions)
        code.instructions.append(instruction)
    return code


def _instruction(address: int, name: str, rest: str, riscv: bool) -> Instruction:
    operands = re.split(r"[@;#]|//| <", rest)[0]
    kind, count = kind_of(name, operands, riscv), 0
    if kind in ("multiple", "pop_pc"):
        count = _register_count(operands)
    names = _REGISTER.findall(operands)
    place = re.split(r"[@;#]|//", rest)[0]
    target = _TARGET.search(place) if kind in ("call", "jump", "branch") else None
    pointer = _POINTER.search(rest)
    return Instruction(
        address,
        kind,
        count,
        names[0] if names else "",
        frozenset(names),
        f"{name}\t{operands.strip()}",
        int(target[1], 16) if target else None,
        int(pointer[1], 16) if pointer else None,
    )


def _vector_type(operands: str, before: tuple[int, float]) -> tuple[int, float]:
    """Return element bits and register group size after a ``vsetvli``."""
    match = _VECTOR_TYPE.search(operands)
    if match is None:
        return before
    group = match[2]
    return int(match[1]), 1 / int(group[1:]) if group.startswith("f") else float(group)


def _group_registers(name: str, bits: int, group: float) -> int:
    """Return the maximum number of registers that a RISC-V vector instruction reads or writes."""
    own = _BYTES.match(name)
    if own is not None:
        group *= int(own[1]) / bits
    elif name.startswith(("vw", "vn", "vfw", "vfn")):
        group *= 2
    return max(1, round(group))


def kind_of(name: str, operands: str, riscv: bool) -> str:
    """Return an instruction's kind from its mnemonic and operands."""
    plain = _WIDTH.sub("", name)
    if riscv:
        kind = next((kind for pattern, kind in _RISCV_KINDS if pattern.match(plain)), "alu")
        return _riscv_jump(plain, operands) if kind in ("call", "jump") else kind
    stem = plain.split(".")[0]
    if re.search(r"\bq\d", operands) or stem == "vpst":
        return _vector(stem, operands)
    kind = next((kind for pattern, kind in _ARM_KINDS if pattern.match(stem)), "alu")
    if kind == "multiple" and re.search(r"\bpc\b", operands):
        return "pop_pc"
    if operands.startswith("pc,"):
        return "pop_pc" if kind == "load" else "jump"
    if stem == "vmov" and len(_REGISTER.findall(operands)) > 2:
        return "float_move_two"
    return kind


def _riscv_jump(name: str, operands: str) -> str:
    """Classify ``jal zero`` and ``jalr zero`` as jumps."""
    return "jump" if operands.startswith("zero") else "call" if name.startswith("jal") else "jump"


def _vector(stem: str, operands: str) -> str:
    if stem.startswith(("vld", "vst")):
        gathers = re.search(r"\[[^\]]*q\d", operands)
        return "vector_gather" if gathers else f"vector_{'load' if stem[1] == 'l' else 'store'}"
    return "vector"


def _register_count(operands: str) -> int:
    """Return the number of registers in braces."""
    inside = operands[operands.find("{") + 1 : operands.find("}")]
    spans = [(a, int(b), int(c)) for a, b, c in _SPAN.findall(inside)]
    single = _REGISTER.findall(_SPAN.sub("", inside))
    return len(single) + sum(c - b + 1 for _, b, c in spans)


def can_dual_issue(first: Instruction, second: Instruction) -> bool:
    """Return whether a dual-issue core can issue both instructions in one cycle."""
    unit = UNITS.get(first.kind)
    if unit is not None and unit == UNITS.get(second.kind):
        return False
    return not first.result or first.result not in second.operands


def with_predecessor(block: list[Instruction]) -> Iterator[tuple[Instruction, Instruction | None]]:
    """Yield each instruction with its predecessor in the block."""
    before = None
    for instruction in block:
        yield instruction, before
        before = instruction
