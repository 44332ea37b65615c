"""Types of a loader for TypeScript."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

ARRAYS = {
    "float32": "Float32Array", "float64": "Float64Array", "float16": "Uint16Array",
    "bfloat16": "Uint16Array", "int8": "Int8Array", "int16": "Int16Array", "int32": "Int32Array",
    "int64": "BigInt64Array", "uint8": "Uint8Array", "uint16": "Uint16Array",
    "uint32": "Uint32Array", "uint64": "BigUint64Array", "bool": "Uint8Array",
}  # fmt: skip

_CLASS = """
/** An input or an output; a dynamic dimension of its shape is a name or an expression. */
export interface Tensor {
  name: string;
  dtype: string;
  shape: (number | string)[];
}

/** A loaded network with its own memory; load() makes it. */
export declare class Network {
  private constructor();
  readonly inputs: Tensor[];
  readonly outputs: Tensor[];
  readonly dims: { name: string; min: number; max: number }[];
  /** Run the network once; the results are new arrays. */
  run(inputs: Inputs%s): Outputs;
  /** Return the state of a network with state to that before its first run. */
  reset(): void;
}

/** Load the network from the .wasm file next to the loader, or from another source. */
export declare function load(
  source?: string | URL | Response | BufferSource | WebAssembly.Module,
): Promise<Network>;
"""


def declarations(network: Mapping[str, Any], title: str) -> str:
    """Return the declarations of the loader of a network."""
    parts = [title]
    for name, tensors in (("Inputs", network["inputs"]), ("Outputs", network["outputs"])):
        rows = [
            f"  /** {t['dtype']}, shape [{', '.join(map(str, t['shape']))}] */\n"
            f"  {json.dumps(t['name'])}: {ARRAYS[t['dtype']]};\n"
            for t in tensors
        ]
        parts.append(f"export interface {name} {{\n{''.join(rows)}}}\n\n")
    if network["dims"]:
        rows = [
            f"  /** {dim['min']} to {dim['max']} */\n  {json.dumps(dim['name'])}: number;\n"
            for dim in network["dims"]
        ]
        parts.append(f"export interface Dims {{\n{''.join(rows)}}}\n")
    return "".join(parts) + _CLASS % (", dims: Dims" if network["dims"] else "")
