"""Write the seed inputs of fuzz targets, independently from the format descriptions.

Usage: seeds.py TARGET FOLDER LIST: the seeds of TARGET and the inputs kept for it become files in
FOLDER, their paths the one line of LIST, with commas between them, as libFuzzer's
-seed_inputs=@LIST takes them. A target ``regions_DEVICE`` is of the plug-in DEVICE.
"""

from __future__ import annotations

import importlib.util
import math
import struct
import sys
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "c"))

from blob import (
    BLOBS,
    CONST_LOADER,
    GRAPH_FACTORY,
    GRAPH_JSON,
    WEIGHT,
    blob,
    tensor,
    text,
    texts,
    u64,
)

PARAMS_MAGIC = u64(0xF7E58D4F05049CB7)

# A storage whose first output is read through a view, a copy, and a parameter that is an output.
VIEW_JSON = """{"nodes": [{"op": "null", "name": "w", "inputs": []},
{"op": "tvm_op", "name": "s", "inputs": [[0, 0, 0]], "attrs": {"func_name": "f",
 "num_inputs": "1", "num_outputs": "1", "flatten_data": "0", "view": "[8, 2, 32, 2, 2, 2, 1]"}},
{"op": "tvm_op", "name": "c", "inputs": [[1, 0, 0]], "attrs": {"func_name": "__copy",
 "num_inputs": "1", "num_outputs": "1", "flatten_data": "0"}}],
"arg_nodes": [0], "heads": [[2, 0, 0], [0, 0, 0]], "node_row_ptr": [0, 1, 2, 3],
"attrs": {"dltype": ["list_str", ["float32", "uint8", "uint8"]], "storage_id": ["list_int",
 [0, 1, 2]], "shape": ["list_shape", [[2, 3], [40], [40]]]}, "metadata": {"any": [1, {"x": 1.5e3}]}}
"""

# A minimal graph, with escapes in a name and unusual white space.
SMALL_JSON = """{"nodes":[{"op":"null","name":"\\u00e9\\ud83d\\ude00\\n","inputs":[]}],
\t"arg_nodes":[0],"heads":[[0,0]],"attrs":{"dltype":["list_str",["bool"]],
"storage_id":["list_int",[0]],"shape":["list_shape",[[]]],"storage_scope":["list_str",["g"]]},
"node_row_ptr":[0,1]}"""


def params(tensors: dict[str, bytes]) -> bytes:
    head = PARAMS_MAGIC + u64(0) + texts(list(tensors)) + u64(len(tensors))
    return head + b"".join(tensors.values())


def scalar_tensor() -> bytes:
    return tensor([], [1.0])


def names_table(names: list[str], wide: bool) -> bytes:
    count = struct.pack("<H" if wide else "<B", len(names))
    return count + b"".join(name.encode() + b"\0" for name in names)


def view(storage_bytes: int, numbers_of_view: list[int]) -> bytes:
    return struct.pack("<H", storage_bytes) + str(numbers_of_view).encode()


def firmware_graph(arena_bytes: int, json: str, params_blob: bytes = b"") -> bytes:
    return struct.pack("<HH", arena_bytes, len(json)) + json.encode() + params_blob


AOT_FACTORY = u64(1) + texts(["w"]) + WEIGHT + text("default")


def regions(
    op: str,
    shapes: list[list[int]],
    constants: list[int],
    attrs: str = "{}",
    head: str = "",
    device: str = "any",
) -> bytes:
    """Return the text of one region of one node; the last shape is the output's."""
    tensors, offset = [], 0
    for i, shape in enumerate(shapes):
        place = ""
        if i in constants:
            size = 4 * math.prod(shape)
            place = f', "offset": {offset}, "bytes": {size}'
            offset += -(-size // 64) * 64
        tensors.append(f'{{"name": "t{i}", "dtype": "float32", "shape": {shape}{place}}}')
    last = len(shapes) - 1
    given = [i for i in range(last) if i not in constants]
    return (
        f'{{"format": "tvmrt-regions", "version": 1, "device": "{device}", {head}"regions": '
        f'[{{"symbol": "r", "tensors": [{", ".join(tensors)}], "nodes": [{{"op": "{op}", "name": '
        f'"n", "inputs": {list(range(last))}, "outputs": [{last}], "attrs": {attrs}}}], '
        f'"inputs": {given}, "outputs": [{last}]}}]}}'
    ).encode()


CONV = '{"strides": [1, 1], "dilations": [1, 1], "pads_before": [1, 1], "groups": 2}'
POOL = '{"kernel": [2, 2], "strides": [2, 2], "count_pads": 1, "precision": "float16"}'


def record(code: int, *body: bytes) -> bytes:
    """Return a packet in the format of the remote call targets."""
    joined = b"".join(body)
    return struct.pack("<BH", code, len(joined)) + joined


def seq(*values: tuple[int, bytes]) -> bytes:
    """Return a sequence of values with their type codes."""
    codes = [code for code, _ in values]
    head = struct.pack(f"<{len(codes) + 1}i", len(codes), *codes)
    return head + b"".join(data for _, data in values)


def rpc_array(data: bytes = b"\xa1" * 8, shape: tuple[int, ...] = (2, 3), offset: int = 0) -> bytes:
    """Return a serialised float32 tensor at an address that the target fills in."""
    head = struct.pack("<iiiI", 1, 0, len(shape), 0x00012002)
    return data + head + struct.pack(f"<{len(shape)}q", *shape) + u64(offset)


FUNCTION = [record(9, seq((11, text(name)))) for name in "fat"]
CPU, FLOAT32 = struct.pack("<ii", 1, 0), u64(0x12002)
ALLOCATE = record(13, seq((6, CPU), (0, u64(24)), (0, u64(64)), (5, FLOAT32)))
OVERLAPPING = rpc_array(shape=(5,), offset=4)
HANDLE = record(4, seq((3, u64(0x1122))))
REPLIES = [
    seq((0, u64(0)), (0, u64(11))),
    seq((0, u64(11)), (11, text("text"))),
    seq((0, u64(12)), (12, text("bytes"))),
    seq((0, u64(4)), (4, b"")),
    seq((0, u64(6)), (6, CPU)),
    seq((0, u64(5)), (5, FLOAT32)),
    seq((0, u64(9)), (3, u64(7))),
    seq((0, u64(10)), (3, u64(7))),
    seq((0, u64(8)), (3, u64(7))),
    seq((0, u64(13)), (7, rpc_array()), (3, u64(9))),
]

SEEDS: dict[str, list[bytes]] = {
    "firmware_remote": [
        FUNCTION[0] + record(3, b"\xa1" * 8, seq((0, u64(5)))),
        FUNCTION[0] + record(3, b"\xa1" * 8, seq((11, text("ab")))) * 2,
        ALLOCATE + record(7, rpc_array(), u64(24), bytes(24)) + record(6, rpc_array(), u64(24)),
        ALLOCATE + record(16, seq((7, rpc_array()), (7, rpc_array(shape=(6,))), (3, u64(0)))),
        ALLOCATE + record(16, seq((7, rpc_array(shape=(5,))), (7, OVERLAPPING), (3, u64(0)))),
        ALLOCATE + record(14, seq((6, CPU), (3, b"\xa1" * 8))),
        record(17, seq((7, rpc_array(u64(0))), (4, b""))) + record(12, seq((6, CPU), (0, u64(0)))),
        record(9, seq((11, text("runtime.RPCTimeEvaluator")))),
        record(0x40, b"\1\0\0\1") + record(0x40, b"\0\0\2"),
        record(0x80, b"\xff\xfd\x04\0\0\0\1\0\0\1") + record(0x80, b"\xff\xfe\xff\xff"),
        record(1),
    ],
    "rpc_packets": [
        b"".join(FUNCTION) + record(3, u64(1), seq((0, u64(5)), (11, text("ab")), (4, b""))),
        b"".join(FUNCTION) + record(3, u64(1), seq((12, text("ab")), (2, u64(0)), (5, FLOAT32))),
        b"".join(FUNCTION) + record(3, u64(2), seq()) + record(6, rpc_array(), u64(24)),
        b"".join(FUNCTION) + record(3, u64(2), seq()) + record(3, u64(3), seq((7, rpc_array()))),
        ALLOCATE + record(7, rpc_array(), u64(24), bytes(24)) + record(6, rpc_array(), u64(24)),
        ALLOCATE + record(14, seq((6, CPU), (3, b"\xa1" * 8))),
        ALLOCATE + record(16, seq((7, rpc_array()), (7, rpc_array(shape=(6,))), (3, u64(0)))),
        ALLOCATE + record(16, seq((7, rpc_array(shape=(5,))), (7, OVERLAPPING), (3, u64(0)))),
        FUNCTION[0]
        + record(3, u64(1), seq((10, u64(1))))
        + record(10, seq((3, u64(1)), (0, u64(10)))),
        record(17, seq((7, rpc_array(u64(0))), (4, b""))) + record(12, seq((6, CPU), (0, u64(0)))),
        *(record(code, seq((6, CPU), (3, u64(0)))) for code in (11, 15, 18, 19, 20, 21)),
        record(2, u64(5), b"0.8.0", seq()) + record(1),
        record(0x80, u64(1 << 62), bytes(8)),
    ],
    "rpc_replies": [
        *(HANDLE + record(4, reply) * 2 for reply in REPLIES),
        HANDLE + record(5, seq((11, text("bad")))),
        HANDLE + record(4, REPLIES[-1]) + record(8, bytes(24)),
        HANDLE + record(4, REPLIES[6]) + HANDLE + record(4, REPLIES[7]),
        record(0x80, u64(1 << 62), bytes(8)),
    ],
    "regions": [
        regions("conv", [[1, 4, 3, 3], [2, 2, 2, 2], [2], [1, 2, 4, 4]], [1, 2], CONV),
        regions("matmul", [[2, 3], [3, 2], [2, 2]], [1], '{"precision": "int8"}'),
        regions("avg_pool", [[1, 2, 4, 4], [1, 2, 2, 2]], [], POOL),
        regions("max", [[3, 1], [2], [3, 2]], [1], '{"a": 1.5, "b": [1, 2.5], "c": []}'),
        regions("tanh", [[2], [2]], [], head='"options": {"precision": "float16"}, '),
        regions("add", [[], [2], [2]], [0], head='"fallback": 1, "device_version": 9, '),
    ],
    "graph_json": [
        GRAPH_JSON.encode(),
        VIEW_JSON.encode(),
        SMALL_JSON.encode(),
        VIEW_JSON.replace('"arg_nodes": [0]', '"arg_nodes": []').encode(),
        VIEW_JSON.replace("[40], [40]", "[40], [4000]").encode(),
        VIEW_JSON.replace('"view"', '"device": "any", "after": "[]", "view"')
        .replace('"__copy"', '"__copy", "after": "[1]"')
        .encode(),
    ],
    "firmware_graph": [
        firmware_graph(4096, GRAPH_JSON, params({"w": WEIGHT})),
        firmware_graph(4096, GRAPH_JSON, params({"other": WEIGHT, "w": WEIGHT})),
        firmware_graph(900, GRAPH_JSON),
        firmware_graph(600, SMALL_JSON),
        firmware_graph(4096, VIEW_JSON.replace("__copy", "fixture_double"), params({"w": WEIGHT})),
    ],
    "graph_view": [
        view(1024, [256, 2, 32, 1, 8, 4, 4, 128, 1, 32, 8]),
        view(256, [252, 0, 8, 4, -63]),
        view(8, [0, 1, 1]),
        view(0, [0, 2, 64, 0, 1]),
        view(8, [0, 2, 32, 0, -5, 1, 1]),
    ],
    "params": [
        params({}),
        params({"w": WEIGHT}),
        params({"a": WEIGHT, "b": scalar_tensor(), "c": tensor([0, 4], [])}),
    ],
    "tensor": [WEIGHT, scalar_tensor(), tensor([3, 0], [])],
    "module_tree": [
        *BLOBS.values(),
        blob([text("_lib")], None),
        blob([text("AotExecutorFactory") + AOT_FACTORY, text("_lib")], ([0, 1, 1], [1])),
    ],
    "module_payload": [
        bytes([kind]) + payload
        for kind, payload in enumerate([GRAPH_FACTORY, AOT_FACTORY, CONST_LOADER])
    ],
    "function_table": [
        names_table(["run", "tvmgen_default_run"], wide=False),
        names_table(["run", "tvmgen_default_run"], wide=True),
        names_table([f"f{i}" for i in range(100)], wide=True),
        names_table([], wide=False),
    ],
    "dtype_text": [
        name.encode()
        for name in ["float32", "int8x4", "bool", "bfloat16", "handle", "", "custom[129]32x2"]
    ],
}


def _of_plugin(target: str, file: str) -> Path:
    folder = Path(__file__).resolve().parents[2] / "plugins" / target.removeprefix("regions_")
    return folder / "tests" / "fuzz" / file


def seeds_of(target: str) -> list[bytes]:
    """Return the seed inputs."""
    if target in SEEDS:
        return SEEDS[target]
    spec = importlib.util.spec_from_file_location("plugin_seeds", _of_plugin(target, "seeds.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.seeds(regions)


def archive_of(target: str) -> Path:
    """Return the corpus archive of a target, written by minimize_corpus.py."""
    if target in SEEDS:
        return Path(__file__).resolve().parent / f"corpus/{target}.zip"
    return _of_plugin(target, "regions.zip")


def kept(target: str) -> list[bytes]:
    path = archive_of(target)
    if not path.exists():
        return []
    with zipfile.ZipFile(path) as archive:
        return [archive.read(name) for name in archive.namelist()]


def main() -> None:
    target, folder, listing = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    folder.mkdir(parents=True, exist_ok=True)
    inputs = [*seeds_of(target), *kept(target)]
    paths = [folder / f"{i}" for i in range(len(inputs))]
    for path, data in zip(paths, inputs):
        path.write_bytes(data)
    listing.write_text(",".join(str(path.resolve()) for path in paths))


if __name__ == "__main__":
    main()
