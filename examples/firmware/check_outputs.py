"""Compare what a board printed with the outputs that an .npz expects.

    check_outputs.py PRINTED.txt GOLDEN.npz [TOLERANCE]

GOLDEN.npz has them under ``out:NAME``. Integers must be equal, floats within TOLERANCE (0.001
where none is given) times the sum of their magnitude and of the output's largest. The exit code
is 1 where an output is wrong.
"""

from __future__ import annotations

import re
import sys

import numpy as np


def printed_outputs(text: str) -> dict[str, np.ndarray]:
    """Outputs by name, as any_network.c prints them."""
    found = {}
    for part in re.split(r"^output ", text, flags=re.MULTILINE)[1:]:
        head, _, body = part.partition("\n")
        match = re.fullmatch(r"(.*) (\w+)\[.*\]", head)
        if match is None:
            raise ValueError(f"'output {head}' is not a line of any_network.c: NAME TYPE[SHAPE]")
        name, dtype = match.groups()
        if dtype in ("float16", "bfloat16"):
            numbers = np.array(body.split(), np.uint16).view(dtype)
        else:
            numbers = np.array(body.split()).astype(np.float64 if "f" in dtype else np.int64)
        found[name] = numbers.astype(dtype)
    return found


def verdict(found: np.ndarray, golden: np.ndarray, tolerance: float = 1e-3) -> str:
    """What is to be said of one output; it begins with "wrong" if it is."""
    golden = golden.reshape(-1)
    if found.size != golden.size:
        return f"wrong: {found.size} elements, not {golden.size}"
    if golden.dtype.kind != "f":
        wrong = int((found != golden).sum())
        return f"wrong: {wrong} of {golden.size} elements" if wrong else "equal"
    same = (found == golden) | (np.isnan(found) & np.isnan(golden))
    largest = np.abs(golden[np.isfinite(golden)].astype(np.float64)).max(initial=0)
    found, golden = found[~same].astype(np.float64), golden[~same].astype(np.float64)
    error = np.abs(found - golden)
    worst = error.max(initial=0)
    wrong = int((~(error <= tolerance * (np.abs(golden) + largest) + 1e-6)).sum())
    if wrong:
        return f"wrong: {wrong} of {same.size} elements, by up to {worst:.3g}"
    return f"within {worst:.3g} of the golden values"


def main(printed: str, golden: str, tolerance: str = "0.001") -> int:
    with open(printed, encoding="utf-8") as file:
        found = printed_outputs(file.read())
    with np.load(golden) as archive:
        expected = {k[4:]: archive[k] for k in archive.files if k.startswith("out:")}
    if not expected:
        sys.exit(f"check_outputs.py: {golden} has no array called out:NAME")
    wrong = 0
    for name, array in expected.items():
        text = (
            verdict(found[name], array, float(tolerance)) if name in found else "wrong: not printed"
        )
        wrong += text.startswith("wrong")
        print(f"{name}: {text}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
