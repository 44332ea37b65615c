"""Make ``signal_*.tflite`` and their ``.npz`` files: custom audio operators, and the results of
TensorFlow Lite Micro over several runs.

``python make_signal.py [NAME...]`` in an environment with ``tflite-micro`` and what the tests need;
the tests need the files alone. If some runs leave an output unwritten, the next output flags
which; in those it is 0 here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER.parents[1] / "python" / "support"))

from tflite_case import Net  # noqa: E402

NETWORKS: dict[str, Callable[[Net], list[list[np.ndarray]]]] = {}
TYPES = {"int16": 7, "int32": 2, "float32": 0}  # codes of the format's types


def network(build: Callable[[Net], list[list[np.ndarray]]]) -> Callable:
    """Decorate a function that fills a network and returns the inputs of its runs."""
    NETWORKS[build.__name__] = build
    return build


def custom(net: Net, name: str, inputs: list[int], outputs: list[int], **options) -> list[int]:
    from flatbuffers import flexbuffers

    net.op("CUSTOM", inputs, outputs)
    net.model.operatorCodes[-1].customCode = name
    content = bytes(flexbuffers.Dumps(options))
    net.graph.operators[-1].customOptions = np.frombuffer(content, np.uint8)
    return outputs


def sound(runs: int, count: int, seed: int) -> np.ndarray:
    """Return varying tones over noise, from silence to 16-bit full scale."""
    rng = np.random.default_rng(seed)
    at = np.arange(runs * count)
    loud = 30 * 1000 ** np.abs(np.sin(at / (3 * count)))
    tones = np.sin(at * 0.11) + 0.4 * np.sin(at * (0.3 + at / at.size))
    x = loud * tones / 2 + rng.normal(0, 20, at.size)
    x[: count // 2] = 0
    return np.clip(x, -32768, 32767).astype(np.int16).reshape(runs, count)


def hann(size: int) -> np.ndarray:
    return np.round(4096 * (0.5 - 0.5 * np.cos(2 * np.pi * (np.arange(size) + 0.5) / size)))


def bank(channels: int, bins: int) -> list[np.ndarray]:
    """Return weights and positions of half-overlapping triangles that widen with the frequency."""
    edges = np.round(2 + (bins - 4) * (np.arange(channels + 2) / (channels + 1)) ** 1.7).astype(int)
    weights, unweights, starts, widths = [], [], [], []
    for low, above in zip(edges, edges[1:]):
        high = max(above, low + 1)
        share = 1 - (np.arange(low, high) - low) / (high - low)
        weights += list(np.round(4096 * share))
        unweights += list(4096 - np.round(4096 * share))
        starts.append(low)
        widths.append(high - low)
    first = np.concatenate([[0], np.cumsum(widths)[:-1]])
    return [np.array(a, np.int16) for a in (weights, unweights, starts, first, widths)]


def gains(strength: float = 0.95, offset: float = 80.0) -> np.ndarray:
    """Return the table of a gain that falls with the noise: values at 0 to 2, then parabolas."""

    def gain(x: float) -> float:
        return min(32767, round(2**21 * (x / 2**10 + offset) ** -strength))

    table = np.zeros(125, np.int16)
    table[:3] = [gain(x) for x in (0, 1, 2)]
    for interval in range(3, 33):
        x0 = 1 << (interval - 1)
        y0, y1, y2 = gain(x0), gain(1.5 * x0), gain(2 * x0 - (interval == 32))
        a1, a2 = 4 * y1 - 3 * y0 - y2, -4 * y1 + 2 * y0 + 2 * y2
        table[4 * interval - 6 :][:3] = [y0, a1, a2]
    return table


SMOOTHING = {
    "smoothing": 410, "one_minus_smoothing": 16384 - 410, "alternate_smoothing": 983,
    "alternate_one_minus_smoothing": 16384 - 983, "smoothing_bits": 10,
    "spectral_subtraction_bits": 14, "min_signal_remaining": 819, "clamping": False,
}  # fmt: skip


@network
def signal_features(net: Net) -> list[list[np.ndarray]]:
    """Compute the features of micro_speech from audio, with a hop of 256 of 480 samples."""
    step, size, length, channels = 256, 480, 512, 40
    x = net.input((step,), "int16")

    def made(shape, dtype, shown=False) -> int:
        return (net.output if shown else net.tensor)(shape, dtype)

    outs = [made((1, size), "int16"), made((), "bool", True)]
    frame, _ = custom(
        net, "SignalFramer", [x], outs, frame_size=size, frame_step=step, prefill=True
    )
    weights = net.const(hann(size).astype(np.int16))
    (windowed,) = custom(
        net, "SignalWindow", [frame, weights], [made((1, size), "int16")], shift=12
    )
    flat = made((size,), "int16")
    net.op("RESHAPE", [windowed, net.const(np.array([size], np.int32))], [flat])
    outs = [made((size,), "int16"), made((), "int32", True)]
    scaled, bits = custom(net, "SignalFftAutoScale", [flat], outs)
    outs = [made((length + 2,), "int16")]
    (spectrum,) = custom(net, "SignalRfft", [scaled], outs, T=TYPES["int16"], fft_length=length)
    bins = length // 2 + 1
    tables = bank(channels, bins)
    start, end = int(tables[2][0]), int(tables[2][-1] + tables[4][-1])
    outs = [made((bins,), "uint32")]
    (energy,) = custom(net, "SignalEnergy", [spectrum], outs, start_index=start, end_index=end)
    inputs, outs = [energy, *map(net.const, tables)], [made((channels,), "uint64", True)]
    (sums,) = custom(net, "SignalFilterBank", inputs, outs, num_channels=channels)
    outs = [made((channels,), "uint32", True)]
    (roots,) = custom(net, "SignalFilterBankSquareRoot", [sums, bits], outs)
    outs = [made((channels,), "uint32"), made((channels,), "uint32", True)]
    clean, noise = custom(net, "SignalFilterBankSpectralSubtraction", [roots], outs,
                          num_channels=channels, **SMOOTHING)  # fmt: skip
    inputs, outs = [clean, noise, net.const(gains())], [made((channels,), "uint32", True)]
    (gained,) = custom(net, "SignalPCAN", inputs, outs, snr_shift=6)
    custom(net, "SignalFilterBankLog", [gained], [made((channels,), "int16", True)],
           input_correction_bits=3, output_scale=1600)  # fmt: skip
    return [[row] for row in sound(32, step, 1)]


def spread(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Return integers of all magnitudes, floats about 0."""
    if dtype.startswith("float"):
        return rng.standard_normal(shape).astype(dtype)
    info = np.iinfo(dtype)
    whole = rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    return whole >> rng.integers(0, info.bits, shape).astype(dtype)


@network
def signal_transforms(net: Net) -> list[list[np.ndarray]]:
    """Run forward and inverse FFTs of all types and radices, with zero-padded rows."""
    shapes = []
    for dtype, number in TYPES.items():
        for count, length, rows in (
            (5, 8, 1),
            (60, 60, 2),
            (21, 24, 1),
            (450, 450, 1),
            (96, 128, 1),
        ):
            x = net.input((rows, count), dtype)
            options = {"T": number, "fft_length": length}
            y = net.output((rows, length + 2), dtype)
            custom(net, "SignalRfft", [x], [y], **options)
            custom(net, "SignalIrfft", [y], [net.output((rows, length), dtype)], **options)
            shapes.append(((rows, count), dtype))
    rng = np.random.default_rng(2)
    rows = [[spread(rng, *shape) for shape in shapes] for _ in range(2)]
    steep = [(np.where(row < 0, -1, 1) * (2**31 - 1) // 2**16).astype(row.dtype) for row in rows[0]]
    return [*rows, steep]


@network
def signal_steps(net: Net) -> list[list[np.ndarray]]:
    """Run all other operators, with options that the feature pipeline does not use."""
    rng = np.random.default_rng(3)
    shapes = []

    def given(shape: tuple[int, ...], dtype: str) -> int:
        shapes.append((shape, dtype))
        return net.input(shape, dtype)

    x = given((2, 12), "int16")
    for length in (0, 5, 30):
        custom(net, "SignalDelay", [x], [net.output((2, 12), "int16")], delay_length=length)
    for size, step, prefill in ((9, 4, True), (9, 4, False), (3, 6, False), (12, 12, False),
                                (25, 12, False), (25, 2, True)):  # fmt: skip
        outs = [net.output((2, 12 // step, size), "int16"), net.output((), "bool")]
        options = {"frame_size": size, "frame_step": step, "prefill": prefill}
        custom(net, "SignalFramer", [x], outs, **options)
    for dtype in ("int16", "float32"):
        frames = given((2, 3, 10), dtype)
        for step in (4, 7, 10):
            y = net.output((2, 3 * step), dtype)
            custom(net, "SignalOverlapAdd", [frames], [y], T=TYPES[dtype], frame_step=step)
    features = given((6,), "int16")
    for channels, left, right, step in ((6, 1, 1, 1), (5, 2, 3, 2), (6, 0, 0, 1), (6, 3, 0, 3)):
        outs = [net.output((channels * (left + right + 1),), "int16"), net.output((), "bool")]
        options = {"num_channels": channels, "stacker_left_context": left,
                   "stacker_right_context": right, "stacker_step": step}  # fmt: skip
        custom(net, "SignalStacker", [features], outs, **options)
    samples = given((2, 8), "int16")
    for shift in (0, 3, 15):
        weights = net.const(spread(rng, (4,), "int16"))
        custom(net, "SignalWindow", [samples, weights], [net.output((2, 8), "int16")], shift=shift)
    flat = given((16,), "int16")
    custom(net, "SignalFftAutoScale", [flat], [net.output((16,), "int16"), net.output((), "int32")])
    energy = net.output((8,), "uint32")
    custom(net, "SignalEnergy", [flat], [energy], start_index=0, end_index=8)
    weights, unweights = [9, -7, 32767, -32768, 5], [-1, 2, 300, 4096, 8]
    places = [0, 4, 7, 2], [0, 1, 4, 2], [2, 3, 1, 0]
    tables = [np.array(a, np.int16) for a in (weights, unweights, *places)]
    inputs, sums = [energy, *map(net.const, tables)], net.output((3,), "uint64")
    custom(net, "SignalFilterBank", inputs, [sums], num_channels=3)
    wide, bits = given((40,), "uint64"), given((), "int32")
    custom(net, "SignalFilterBankSquareRoot", [wide, bits], [net.output((40,), "uint32")])
    words = given((60,), "uint32")
    for correction, scale in ((0, 65536), (5, 1600), (0, 1)):
        custom(net, "SignalFilterBankLog", [words], [net.output((60,), "int16")],
               input_correction_bits=correction, output_scale=scale)  # fmt: skip
    outs = [net.output((60,), "uint32"), net.output((60,), "uint32")]
    options = {**SMOOTHING, "clamping": True, "smoothing_bits": 2, "num_channels": 60}
    custom(net, "SignalFilterBankSpectralSubtraction", [words], outs, **options)
    noise, table = given((60,), "uint32"), net.const(gains())
    rough = net.const(spread(rng, (125,), "int16"))
    for places, shift in ((table, 12), (table, 0), (rough, 3)):
        y = net.output((60,), "uint32")
        custom(net, "SignalPCAN", [words, noise, places], [y], snr_shift=shift)

    def run(number: int) -> list[np.ndarray]:
        feeds = [spread(rng, *shape) for shape in shapes]
        feeds[7] = np.array(number * 3 % 32, np.int32)
        feeds[5] = feeds[5] >> (number * 5 % 16)
        edges = (number, 2**32 - 1 - number, 2**32 + number, 2**64 - 1 - number, 2**17 + number,
                 65535**2 + number, 65536**2 - 65536 + number)  # fmt: skip
        feeds[6][: len(edges)] = edges
        if number == 1:
            feeds[5][:3] = -32768, -5, -3
        return feeds

    return [run(number) for number in range(8)]


@network
def signal_buffers(net: Net) -> list[list[np.ndarray]]:
    """Use circular buffers of streaming convolutions, with and without a cycle count; one of two
    branches contains a delay, whose state the other branch does not change."""

    def buffer(x: int, shape: tuple[int, ...], *more: str, **options) -> int:
        y = net.output(shape, "int8", scale=0.5, zero=-3)
        net.graph.tensors[y].isVariable = True
        valid = [net.output((1,), "bool") for _ in more]
        custom(net, "CIRCULAR_BUFFER", [x], [y, *valid], **options)
        return y

    small = net.input((1, 1, 2, 3), "int8", scale=0.5, zero=-3)
    broad = net.input((1, 1, 2, 96), "int8", scale=0.5, zero=-3)
    chosen, samples = net.input((1,), "bool"), net.input((1, 4), "int16")
    for slots in (1, 3, 4, 6):
        buffer(small, (1, slots, 2, 3), "valid")
    buffer(broad, (1, 7, 2, 96), "valid")
    buffer(small, (1, 13, 2, 3))
    buffer(small, (1, 2, 2, 3), "valid", cycles_max=3)
    for length in (3, 6):
        branch = Net(net)
        x, y = branch.input((1, 4), "int16"), branch.output((1, 4), "int16")
        custom(branch, "SignalDelay", [x], [y], delay_length=length)
    net.op("IF", [chosen, samples], [net.output((1, 4), "int16")], options="IfOptions",
           thenSubgraphIndex=1, elseSubgraphIndex=2)  # fmt: skip
    # two of three runs end here, depending on the flag
    flag = net.graph.outputs.pop(-2)
    last = net.tensor((1, 2, 2, 3), "int8", scale=0.5, zero=-3)
    custom(net, "CIRCULAR_BUFFER", [small], [last], cycles_max=3)
    buffer(small, (1, 4, 2, 3), cycles_max=1)
    net.graph.outputs.append(flag)
    rng = np.random.default_rng(4)
    shapes = ((1, 1, 2, 3), (1, 1, 2, 96))
    return [
        [*(spread(rng, shape, "int8") for shape in shapes), np.array([i % 5 < 2]),
         spread(rng, (1, 4), "int16")]
        for i in range(15)
    ]  # fmt: skip


def header(kind: int, bits: int = 0, stride: int = 0) -> bytes:
    """Return the header of a packed tensor: compression type, version, parameters."""
    return bytes([kind, 1, 0, 0, 1, bits, stride, *[0] * 9])


def coded(symbols: np.ndarray, lengths: dict[int, int], wide: bool) -> tuple[bytes, bytes]:
    """Encode symbols with codes of these lengths, and make the tables: one of 3 bits, and one for
    each entry that is not a complete code."""
    code, codes = 0, {}
    for symbol, length in sorted(lengths.items(), key=lambda row: (row[1], row[0])):
        code <<= length - max(map(len, codes.values()), default=length)
        codes[symbol] = f"{code:0{length}b}"
        code += 1
    shift, mask, flag = (27, 0xFFFF, 1 << 31) if wide else (11, 0xFF, 1 << 15)
    table: list[int] = []
    overflow: list[int] = []
    for place in range(8):
        prefix = f"{place:03b}"
        for symbol, text in codes.items():
            if prefix.startswith(text):
                table.append(flag | len(text) << shift | symbol & mask)
        if len(table) == place:
            inner = {s: t[3:] for s, t in codes.items() if t.startswith(prefix)}
            width = max(map(len, inner.values()))
            table.append((width - 1) << shift | (8 + len(overflow) - place))
            for at in range(1 << width):
                (found,) = (s for s, t in inner.items() if f"{at:0{width}b}".startswith(t))
                overflow.append(flag | len(inner[found]) << shift | found & mask)
    stream = "".join(codes[int(symbol)] for symbol in symbols.reshape(-1))
    stream += "0" * (-len(stream) % 32)
    kind = np.uint32 if wide else np.uint16
    how = header(1, 2 << 4 | wide) + np.array(table + overflow, kind).tobytes()
    return int(stream, 2).to_bytes(len(stream) // 8, "big"), how


@network
def packed_weights(net: Net) -> list[list[np.ndarray]]:
    """Make tensors that TFLM_DECODE unpacks: by lookup tables, Huffman codes, and pruning."""
    rng = np.random.default_rng(6)

    def unpacked(pairs: list[tuple[bytes, bytes]], results: list[int]) -> None:
        ends = [np.frombuffer(part, np.uint8) for pair in pairs for part in pair]
        custom(net, "TFLM_DECODE", [net.const(end) for end in ends], results)

    def tables(shape, dtype, width: int, axis: int) -> tuple[bytes, bytes]:
        count = 1 if axis == 15 else shape[axis]
        stride = (1 << width) - (width > 2)
        places = rng.integers(0, stride, shape)
        values = spread(rng, (count, stride), dtype)
        bits = "".join(f"{i:0{width}b}" for i in places.reshape(-1))
        bits += "0" * (-len(bits) % 8)
        how = header(0, axis << 4 | width, stride) + values.tobytes()
        return int(bits, 2).to_bytes(len(bits) // 8, "big"), how

    for dtype, width, axis in (("int8", 4, 15), ("int8", 3, 0), ("int16", 7, 3), ("float32", 2, 15),
                               ("int32", 5, 0), ("int8", 1, 3), ("int64", 6, 15)):  # fmt: skip
        shape = (3, 2, 3, 5)
        scales = {"scale": [0.5] * shape[axis], "axis": axis} if axis != 15 else {}
        unpacked([tables(shape, dtype, width, axis)], [net.output(shape, dtype, **scales)])

    def gaps(shape, dtype) -> tuple[bytes, bytes]:
        there = rng.integers(0, 2, shape).astype(bool)
        values = spread(rng, (int(there.sum()),), dtype)
        return np.packbits(there.reshape(-1)).tobytes(), header(2) + values.tobytes()

    shape, zeros = (4, 5), [3, -7, 0, 12, 5]
    for dtype, quantization in (
        ("float32", {}), ("int16", {"scale": 0.5}), ("int8", {"scale": 0.5, "zero": -4}),
        ("int8", {"scale": [0.5] * 4, "zero": zeros[:4]}),
        ("int8", {"scale": [0.5] * 5, "zero": zeros, "axis": 1}),
    ):  # fmt: skip
        unpacked([gaps(shape, dtype)], [net.output(shape, dtype, **quantization)])
    lengths = {5: 2, -3: 2, 0: 3, 100: 3, 17: 3, -128: 4, 7: 5, 8: 5}
    drawn = rng.choice(list(lengths), 60)
    results = [net.output((6, 10), dtype) for dtype in ("int8", "int8", "int16")]
    wide = {symbol * 200: length for symbol, length in lengths.items()}
    unpacked([coded(drawn, lengths, False), coded(drawn, lengths, True),
              coded(drawn * 200, wide, True)], results)  # fmt: skip
    # reader: a matmul with packed weights
    x, y = net.input((1, 10), "float32"), net.output((1, 6), "float32")
    weights = net.tensor((6, 10), "float32")
    unpacked([tables((6, 10), "float32", 4, 15)], [weights])
    net.op("FULLY_CONNECTED", [x, weights, -1], [y], options="FullyConnectedOptions")
    return [[spread(rng, (1, 10), "float32")]]


def judged(data: bytes, runs: list[list[np.ndarray]], outputs: int) -> list[list[np.ndarray]]:
    """Return the results of TensorFlow Lite Micro."""
    from tflite_micro.python.tflite_micro import runtime

    interpreter = runtime.Interpreter.from_bytes(data, arena_size=1 << 22)
    found = []
    for feeds in runs:
        for index, feed in enumerate(feeds):
            interpreter.set_input(feed, index)
        interpreter.invoke()
        found.append([np.array(interpreter.get_output(i)) for i in range(outputs)])
        for value, flag in zip(found[-1], found[-1][1:]):
            if flag.dtype == bool and not flag:
                value[...] = 0
    return found


def main(names: list[str]) -> None:
    for name in names or NETWORKS:
        net = Net()
        runs = NETWORKS[name](net)
        data, arrays = net.data(), {}
        right = judged(data, runs, len(net.graph.outputs))
        for word, table in (("in", runs), ("out", right)):
            for index in range(len(table[0])):
                arrays[f"{word}{index}"] = np.stack([row[index] for row in table])
        (FOLDER / f"{name}.tflite").write_bytes(data)
        np.savez_compressed(FOLDER / f"{name}.npz", **arrays)
        print(name, len(data), (FOLDER / f"{name}.npz").stat().st_size)


if __name__ == "__main__":
    main(sys.argv[1:])
