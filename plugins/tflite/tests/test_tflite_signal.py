"""Compare custom audio operators with TensorFlow Lite Micro, whose results are stored with the
networks."""

from __future__ import annotations

import re

import numpy as np
import pytest
from boards import BOARDS, build_library, count_text, link_image, run_image
from tflite_case import FILES, Net, assert_like, litert_runs, ours

import tvmrt
from tvmrt.cli.session import Session
from tvmrt.error import UnsupportedError
from tvmrt.plugins.tflite.frontend import import_model, load_model

pytest.importorskip("ai_edge_litert")

NETWORKS = (
    "signal_features", "signal_steps", "signal_transforms", "signal_buffers", "packed_weights",
)  # fmt: skip


def _runs(name: str) -> tuple[list[list[np.ndarray]], list[list[np.ndarray]]]:
    """Return the inputs and expected outputs of each run."""
    with np.load(FILES / f"{name}.npz") as found:
        tables = {word: [found[k] for k in found if k.startswith(word)] for word in ("in", "out")}
    return tuple([list(row) for row in zip(*tables[word])] for word in ("in", "out"))


def _hidden(row: list[np.ndarray]) -> list[np.ndarray]:
    """Set outputs to 0 that a run leaves unwritten, as the next output flags."""
    for value, flag in zip(row, row[1:]):
        if flag.dtype == bool and not flag:
            value[...] = 0
    return row


@pytest.mark.everyday(3)
@pytest.mark.parametrize("name", NETWORKS)
def test_run_after_run_is_the_same_to_the_bit(name, tmp_path):
    tvmrt.compile(FILES / f"{name}.tflite", executor="aot").export_library(str(tmp_path / "net.so"))
    session = Session(tmp_path / "net.so", 1)

    def run(feeds: list[np.ndarray]) -> list[np.ndarray]:
        return _hidden(
            list(session.run({i.name: a for i, a in zip(session.inputs, feeds)}).values())
        )

    runs, right = _runs(name)
    for feeds, wanted in zip(runs, right):
        assert_like(run(feeds), wanted)
    session.executor.reset_state()
    assert_like(run(runs[0]), right[0])


_PROGRAM = """\
#include <stdio.h>
#include <tvmgen_net.h>

%(count)s
static int16_t in[256], out[40];
static uint8_t valid, bits[4], sums[320], roots[160], noise[160], gained[160];

int main(void) {
  struct tvmgen_net_inputs inputs = {in};
  struct tvmgen_net_outputs outputs = {&valid, bits, sums, roots, noise, gained, out};
  FILE *from = fopen("in.bin", "rb"), *to = fopen("out.bin", "wb");
  uint32_t most = 0;
  if (from == NULL || to == NULL) return 1;
  while (fread(in, sizeof(in), 1, from) == 1) {
    const uint32_t before = count_now();
    if (tvmgen_net_run(&inputs, &outputs) != 0) return 2;
    const uint32_t spent = count_between(before, count_now());
    if (spent > most) most = spent;
    if (fwrite(out, sizeof(out), 1, to) != 1) return 3;
  }
  printf("%%lu", (unsigned long)most);
  return fclose(to) == 0 ? 0 : 4;
}
"""


@pytest.mark.parametrize(
    ("target", "most"),
    [("cortex-m0plus", 600_000), pytest.param("cortex-m4", 250_000, marks=pytest.mark.slow)],
)
def test_a_board_without_an_fpu_hears_the_same(target, most, tmp_path):
    board = BOARDS[target]
    network = FILES / "signal_features.tflite"
    library = tvmrt.compile(network, target=target, interface_api="c", module_name="net")
    library.export(tmp_path / "net.tar")
    archive = build_library(tmp_path / "net.tar", board, tmp_path / "net")
    (tmp_path / "main.c").write_text(_PROGRAM % {"count": count_text(board)})
    includes = [tmp_path / "net" / part for part in ("codegen/host/include", "runtime/include")]
    image = tmp_path / "image.elf"
    link_image(board, [tmp_path / "main.c"], [archive], image, includes)
    runs, right = _runs("signal_features")
    (tmp_path / "in.bin").write_bytes(b"".join(feeds[0].tobytes() for feeds in runs))
    instructions = int(run_image(board, image, tmp_path, counted=True))
    found = np.fromfile(tmp_path / "out.bin", np.int16).reshape(-1, 40)
    np.testing.assert_array_equal(found, [wanted[-1] for wanted in right])
    assert 0 < instructions < most
    (generated,) = (tmp_path / "net").rglob("*_lib1.c")
    assert not re.search(r"\b(float|double|malloc)\b", generated.read_text())


def _flex(**entries) -> bytes:
    from flatbuffers import flexbuffers

    return bytes(flexbuffers.Dumps(entries))


def _one(name: str, inputs: list, outputs: list, options: bytes) -> bytes:
    """Make a network of one operator; operands are shapes and types, or constants."""
    net = Net()
    ends = [net.const(x) if isinstance(x, np.ndarray) else net.input(*x) for x in inputs]
    net.op("CUSTOM", ends, [net.output(*y) for y in outputs])
    net.model.operatorCodes[-1].customCode = name
    net.graph.operators[-1].customOptions = np.frombuffer(options, np.uint8)
    return net.data()


_I16, _U32, _U64 = ((8,), "int16"), ((8,), "uint32"), ((8,), "uint64")
_TABLE = np.zeros(4, np.int16)


@pytest.mark.parametrize(
    ("name", "inputs", "outputs", "options", "sentence"),
    [
        ("SignalWindow", [_I16, _TABLE], [_I16], {}, "options lack the integer shift"),
        ("SignalWindow", [_I16, _TABLE], [_I16], {"shift": 32}, "shift is 32, not from 0 to 31"),
        ("SignalWindow", [_I16, _TABLE[:3]], [_I16], {"shift": 1}, "do not fit"),
        ("SignalWindow", [_U32, _TABLE], [_I16], {"shift": 1}, "operand 0 is uint32"),
        ("SignalFftAutoScale", [((2, 8), "int16")], [_I16, ((), "int32")], {}, "not int16 of 1"),
        ("SignalRfft", [_I16], [((10,), "int16")], {"fft_length": 14}, "no prime factors but"),
        ("SignalRfft", [_I16], [((10,), "int16")], {"fft_length": 6}, "rows of more than 6"),
        ("SignalRfft", [_I16], [((12,), "int16")], {"fft_length": 8}, "declared"),
        ("SignalIrfft", [_I16], [_I16], {"fft_length": 8}, "not a spectrum of 8"),
        ("SignalEnergy", [_I16], [((4,), "uint32")], {"start_index": 2, "end_index": 5},
         "frequencies 2 to 5"),
        ("SignalFilterBank", [_U32, *[_TABLE] * 4, _TABLE + 9], [((3,), "uint64")],
         {"num_channels": 3}, "lie inside of x"),
        ("SignalFilterBank", [_U32, *[_TABLE] * 5], [((4,), "uint64")], {"num_channels": 4},
         "fewer than 5 elements"),
        ("SignalFilterBank", [_U32, ((4,), "int16"), *[_TABLE] * 4], [((3,), "uint64")],
         {"num_channels": 3}, "must be a constant"),
        ("SignalFilterBankSquareRoot", [_U64, ((2,), "int32")], [_U32], {}, "not one int32"),
        ("SignalFilterBankLog", [_U32], [_I16], {"input_correction_bits": 0, "output_scale": -1},
         "output_scale is -1"),
        ("SignalPCAN", [_U32, _U32, _TABLE], [_U32], {"snr_shift": 6}, "fewer than 125 elements"),
        ("SignalFramer", [_I16], [((2, 9), "int16"), ((), "bool")],
         {"frame_size": 9, "frame_step": 3, "prefill": 0}, "not a whole number of steps"),
        ("SignalFramer", [_I16], [((1, 4), "int16"), ((), "bool")],
         {"frame_size": 4, "frame_step": 8, "prefill": 1}, "frame_step is 8, not from 1 to 4"),
        ("SignalOverlapAdd", [((2, 8), "int16")], [((18,), "int16")], {"frame_step": 9},
         "frame_step is 9"),
        ("SignalStacker", [_I16], [((8,), "int16"), ((), "bool")],
         {"num_channels": 9, "stacker_left_context": 0, "stacker_right_context": 0,
          "stacker_step": 1}, "frames of 9 channels"),
        ("SignalDelay", [_I16], [_I16], {"delay_length": 2**21}, "delay_length is 2097152"),
        ("AudioSpectrogram", [((9, 1), "float32")], [((1, 1, 9), "float32")],
         {"window_size": 10, "stride": 1, "magnitude_squared": 1}, "10 samples are longer"),
        ("Mfcc", [((1, 1, 9), "float32"), np.array([100], np.int32)], [((1, 1, 4), "float32")],
         {"lower_frequency_limit": 20.0, "upper_frequency_limit": 60.0,
          "filterbank_channel_count": 4, "dct_coefficient_count": 4}, "Hz are not in 0 to 50.0"),
        ("Mfcc", [((1, 1, 9), "float32"), ((1,), "int32")], [((1, 1, 4), "float32")],
         {"lower_frequency_limit": 20.0, "upper_frequency_limit": 40.0,
          "filterbank_channel_count": 4, "dct_coefficient_count": 4}, "must be a constant"),
        ("CIRCULAR_BUFFER", [((1, 2, 1, 4), "int8")], [((1, 3, 1, 4), "int8")], {}, "not a slice"),
    ],
)  # fmt: skip
def test_overflow_has_a_one_line_error(name, inputs, outputs, options, sentence):
    with pytest.raises((ValueError, UnsupportedError)) as caught:
        import_model(_one(name, inputs, outputs, _flex(**options)))
    assert sentence in str(caught.value) and "\n" not in str(caught.value)


def test_spectrograms_and_mfcc_equal_litert(tmp_path):
    net, rng = Net(), np.random.default_rng(9)

    def custom(name: str, inputs: list[int], y: int, **options) -> int:
        net.op("CUSTOM", inputs, [y])
        net.model.operatorCodes[-1].customCode = name
        net.graph.operators[-1].customOptions = np.frombuffer(_flex(**options), np.uint8)
        return y

    x, rate = net.input((700, 2), "float32"), net.const(np.array([16000], np.int32))
    for width, step, squared, frames, bins in ((400, 160, 1, 2, 257), (30, 64, 0, 11, 17)):
        y = net.output((2, frames, bins), "float32")
        custom(
            "AudioSpectrogram", [x], y, window_size=width, stride=step, magnitude_squared=squared
        )
        for low, high, bands, count in ((20.0, 4000.0, 40, 13), (300.0, 8000.0, 7, 7)):
            z = net.output((2, frames, count), "float32")
            custom("Mfcc", [y, rate], z, lower_frequency_limit=low, upper_frequency_limit=high,
                   filterbank_channel_count=bands, dct_coefficient_count=count)  # fmt: skip
    feeds = [rng.standard_normal((700, 2)).astype(np.float32)]
    feeds[0][:400, 1] = 0  # the lower bound of the energies
    (right,) = litert_runs(net.data(), [feeds])
    assert right[1][0].std() > 1 and right[1][1, 0, 0] < -100
    assert_like(ours(net.data(), feeds, tmp_path), right)


def _packed(how: bytes | list, packed: bytes, dtype: str = "int8", shape=(4,), **scale) -> Net:
    net = Net()
    parts = [net.const(np.frombuffer(bytes(part), np.uint8)) for part in (packed, how)]
    net.op("CUSTOM", parts, [net.output(shape, dtype, **scale)])
    net.model.operatorCodes[-1].customCode = "TFLM_DECODE"
    return net


_ZEROS = [0] * 8


@pytest.mark.parametrize(
    ("how", "packed", "dtype", "sentence"),
    [
        ([0, 1, 0, 0, 1], b"\0", "int8", "supported are lookup table, Huffman and pruning"),
        ([9, 1, 0, 0, 1, 4, 4, 0, *_ZEROS], b"\0" * 4, "int8", "compressed as 9"),
        ([0, 2, 0, 0, 1, 4, 4, 0, *_ZEROS], b"\0" * 4, "int8", "of version 2"),
        (
            [0, 1, 0, 0, 1, 0xF4, 4, 0, *_ZEROS, 1, 2],
            b"\x12\x00",
            "int8",
            "the end of the 2 values",
        ),
        ([0, 1, 0, 0, 1, 0xF4, 4, 0, *_ZEROS, 1, 2], b"\x12", "int8", "not hold 4 elements"),
        ([0, 1, 0, 0, 1, 0xF0, 4, 0, *_ZEROS, 1, 2], b"\x12", "int8", "indices of 0 bits"),
        ([0, 1, 0, 0, 1, 0x21, 1, 0, *_ZEROS, 1, 2], b"\x12", "int8", "do not match axis 2"),
        ([2, 1, 0, 0, 1, 0, 0, 0, *_ZEROS, 1, 2], b"\xf0", "int8", "do not hold 4 values"),
        ([1, 1, 0, 0, 1, 0x20, 0, 0, *_ZEROS, 0, 0x80], b"\xff" * 4, "int8", "leads out"),
        ([1, 1, 0, 0, 1, 0x00, 0, 0, *_ZEROS, 0, 0, 0, 0], b"\0" * 4, "int8", "leads out"),
        ([1, 1, 0, 0, 1, 0x20, 0, 0, *_ZEROS, 0, 0x80], b"\0" * 4, "int16", "tables of 16 bits"),
        ([1, 1, 0, 0, 1, 0x20, 0, 0, *_ZEROS, 0, 0x80], b"", "int8", "do not hold 4 codes"),
        ([2, 1, 0, 0, 1, 0, 0, 0, *_ZEROS], b"\0", "uint8", "elements of type uint8"),
    ],
)
def test_packed_weights_of_other_sizes_are_errors(how, packed, dtype, sentence):
    with pytest.raises((ValueError, UnsupportedError)) as caught:
        import_model(_packed(how, packed, dtype).data())
    assert sentence in str(caught.value) and "\n" not in str(caught.value)


def test_tables_along_an_axis_from_the_header():
    """Set the header as tflite-micro's writer documents it; the axis has no per-channel scales."""
    how = [0, 1, 0, 0, 1, 0x11, 2, 0, *_ZEROS, 10, 11, 20, 21, 30, 31]
    (made,) = import_model(_packed(how, b"\x2c", shape=(2, 3)).data()).outputs
    np.testing.assert_array_equal(made.data, [[10, 20, 31], [10, 21, 31]])


def test_damaged_options_are_refused_or_other_options():
    """Any bytes give a network or an error."""
    rng, said = np.random.default_rng(5), 0
    for name in ("signal_features", "signal_steps"):
        data = (FILES / f"{name}.tflite").read_bytes()
        options = [op.custom_options for op in load_model(data).subgraphs[0].operators]
        options = [given for given in options if given]
        for _ in range(15):
            changed = bytearray(data)
            given = bytes(options[rng.integers(len(options))])
            changed[data.index(given) + rng.integers(len(given))] = rng.integers(256)
            try:
                import_model(bytes(changed))
            except (ValueError, UnsupportedError) as problem:
                assert "\n" not in str(problem)
                said += 1
    assert said > 10


def test_dynamic_sizes_are_refused():
    data = _one("SignalDelay", [((2, 8), "int16")], [((2, 8), "int16")], _flex(delay_length=3))
    with pytest.raises(UnsupportedError, match="which has a dynamic shape"):
        import_model(data, shapes={"t0": ("n<=4", 8)})
