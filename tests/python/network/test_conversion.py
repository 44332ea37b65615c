"""Models of other frameworks: converted by their exporters, or refused with a remedy.

Modules that are too large for the tests are replaced by small ones with the same interface.
"""

from __future__ import annotations

import pickle
import pydoc
import re
import sys
import warnings
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import onnx
import pytest

import tvmrt
from tvmrt import conversion
from tvmrt.cli import main
from tvmrt.compiler.request import all_options
from tvmrt.conversion.exporter import first_sentence

EXPORTED = onnx.parser.parse_model(
    '<ir_version: 8, opset_import: ["" : 17]> '
    "g (float[batch, 3] image) => (float[batch, 3] y) { y = Neg(image) }"
)
LONG = "The converter failed. " + "Details of the model follow. " * 40_000


@pytest.fixture
def torch(monkeypatch) -> ModuleType:
    """Install a module with the parts of torch that the conversion calls."""
    fake = ModuleType("torch")

    class Module:
        __module__ = "torch.nn.modules.module"
        training = True

        def forward(self, image, scale=1.0):
            return -image

        def __call__(self, *tensors):
            return self.forward(*tensors)

        def modules(self):
            return [self]

        def parameters(self):
            return iter(())

        def eval(self):
            self.training = False
            return self

    class ScriptModule(Module):
        def __init__(self, fails=False):
            if fails:
                raise RuntimeError("no constants.pkl. Archive is broken.")

    def export(module, inputs, file, *, input_names, dynamic_axes, dynamo):
        assert not module.training and all(each.any() for each in inputs)
        fake.exported = ([each.shape for each in inputs], input_names, dynamic_axes)
        if fake.fails:
            raise RuntimeError(LONG)
        for category, text in fake.warnings:
            warnings.warn(text, category, stacklevel=2)
        file.write(EXPORTED.SerializeToString())

    fake.fails, fake.warnings, fake.from_numpy = False, [], np.asarray
    fake.nn = SimpleNamespace(Module=Module)
    fake.no_grad = nullcontext
    fake.random = SimpleNamespace(fork_rng=lambda devices: nullcontext())
    fake.onnx = SimpleNamespace(export=export)
    fake.jit = SimpleNamespace(
        load=lambda name, map_location: ScriptModule(fake.fails),
        ScriptModule=ScriptModule,
        TracerWarning=type("TracerWarning", (Warning,), {}),
    )
    fake.export = SimpleNamespace(ExportedProgram=type("ExportedProgram", (), {}))
    monkeypatch.setitem(sys.modules, "torch", fake)
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    return fake


def test_a_torch_module_is_exported_with_the_given_shapes(torch):
    module = torch.nn.Module()
    net = tvmrt.load(module, shapes={"image": ("batch<=4", 3)}, cache=False)
    assert torch.exported == ([(2, 3)], ["image"], {"image": {0: "batch"}})
    assert net.dims == {"batch": (1, 4)} and module.training
    x = np.ones((3, 3), np.float32)
    np.testing.assert_array_equal(net(x), -x)


@pytest.mark.parametrize(
    ("extent", "dims"),
    [("n<=4", {"n": (1, 4)}), ("n=2..4", {"n": (2, 4)}), ("n=2*m", {"n": "2*m"}), ("n", {})],
)
def test_bounds_in_the_shapes_of_a_torch_module(torch, extent, dims):
    settings = conversion.Settings({"image": (extent, 3)}, {"m": 8})
    assert conversion.convert(torch.nn.Module(), settings)[1:3] == (None, {**dims, "m": 8})
    assert torch.exported[2] == {"image": {0: "n"}}


def test_errors_of_torch_models(torch, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("net.pt").write_bytes(b"PK")
    with pytest.raises(ValueError, match=r'give for example shapes=.*"image": \(1, 3, 224, 224\)'):
        tvmrt.load(torch.nn.Module())
    torch.fails = True
    with pytest.raises(ValueError) as caught:
        tvmrt.load(torch.nn.Module(), shapes={"image": (1, 3)})
    assert "cannot export a Module: The converter failed; export it" in str(caught.value)
    assert len(str(caught.value)) < 250 and caught.value.__suppress_context__
    with pytest.raises(
        ValueError, match=r"net.pt is not TorchScript \(no constants.pkl\); if it has weights, load"
    ):
        tvmrt.load("net.pt", trusted=True)


def test_warnings_of_the_tracer_are_errors_with_the_line(torch):
    text = "Converting a tensor to a Python boolean might cause the trace to be incorrect. We"
    torch.warnings = [(torch.jit.TracerWarning, text), (UserWarning, "of no interest")]
    with pytest.raises(ValueError) as caught:
        tvmrt.load(torch.nn.Module(), shapes={"image": (1, 3)}, cache=False)
    assert re.search(r"export a Module: \S+\.py:\d+: Converting a tensor to a", str(caught.value))
    assert "use torch.where, torch.cond or" in str(caught.value)
    assert "torch can record more with the package onnxscript" in str(caught.value)


def test_a_file_of_torch_on_the_command_line(torch, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("net.pt").write_bytes(b"PK")
    command = ["compile", "net.pt", "-o", "net.tar", "--target", "cortex-m4"]
    assert main(command) == 2
    assert (
        "any code or write files when it is read; if you trust its source, give --trusted; or"
        in (capsys.readouterr().err)
    )
    assert main([*command, "--trusted"]) == 2
    assert "give for example --shape image=1,3,224,224, or" in capsys.readouterr().err
    command = [
        "compile",
        "net.pt",
        "--trusted",
        "-o",
        "net.tar",
        "--target",
        "cortex-m4",
        "--shape",
    ]
    assert main([*command, "image=batch<=2,3"]) == 0
    assert Path("net.tar").is_file()


FILES = {
    "net.pt": "PyTorch file, which needs torch: pip install torch onnxscript; or export the",
    "net.pt2": "PyTorch file, which needs torch: pip install torch onnxscript; or export the",
    "net.keras": "Keras model, which needs keras: pip install keras tensorflow tf2onnx; or export",
    "net.h5": "Keras model, which needs keras: pip install keras tensorflow tf2onnx; or export",
    "saved": "TensorFlow SavedModel, which needs tensorflow: pip install tensorflow; or convert",
    "net.safetensors": "file of weights without a graph; load them into the module, and export",
    "net.gguf": "file of weights without a graph; load them into the module, and export",
    "net.pb": "TensorFlow graph; convert it to ONNX with 'python -m tf2onnx.convert'",
}


@pytest.fixture
def files(tmp_path, monkeypatch) -> Path:
    """Return a folder with a file of each format; the libraries that read them are missing."""
    for name in ("torch", "keras", "tensorflow"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.chdir(tmp_path)
    for name in FILES:
        if "." in name:
            Path(name).write_bytes(b"\xff no network")
        else:
            Path(name).mkdir()
            Path(name, "saved_model.pb").write_bytes(b"")
    return tmp_path


def test_files_whose_library_is_missing(files, capsys):
    for name, words in FILES.items():
        for call in (tvmrt.load, tvmrt.compile):
            with pytest.raises((ValueError, ImportError)) as caught:
                call(name, trusted=True)
            assert f"{name} is a {words}" in str(caught.value)
        assert main(["compile", name, "--trusted", "-o", "out.so"]) == 2
        assert f"{name} is a {words}" in capsys.readouterr().err
        if Path(name).is_file():
            for command in (["verify", name], ["inspect", name], ["run", name, "--random"]):
                assert main(command) == 2
                assert f"{name} is a {words.partition(',')[0].partition(';')[0]}" in (
                    capsys.readouterr().err
                )


@pytest.mark.parametrize(
    "name", ["net.pt", "net.pth", "net.pt2", "net.h5", "net.hdf5", "net.pkl", "net.joblib", "saved"]
)
def test_files_that_can_run_code_are_read_only_if_they_are_trusted(files, name):
    if name != "saved":
        Path(name).write_bytes(b"")
    for call in (tvmrt.load, tvmrt.compile):
        with pytest.raises(ValueError, match=f"^{name} is a .*any code .* give trusted=True; or "):
            call(name)


class Doubling:
    """A model for a pickle; the module of its class makes it one of Keras."""

    inputs = (SimpleNamespace(shape=(None, 3), dtype="float32"),)

    def __call__(self, x, training):
        return -x

    def export(self, path, *, format, verbose):
        onnx.save(EXPORTED, path)


def test_trusted_pickles_are_read_and_converted(tmp_path, monkeypatch):
    monkeypatch.setattr(conversion, "_OBJECTS", {__name__: conversion._OBJECTS["keras"]})
    for value, error in ((Doubling(), None), ("net.pkl", "contains a str, not a model")):
        (tmp_path / "net.pkl").write_bytes(pickle.dumps(value))
        if error is None:
            net = tvmrt.load(tmp_path / "net.pkl", trusted=True, dims={"batch": 2}, cache=False)
            np.testing.assert_array_equal(net(np.ones((2, 3), np.float32)), -np.ones((2, 3)))
        else:
            with pytest.raises(ValueError, match=error):
                tvmrt.load(tmp_path / "net.pkl", trusted=True)


def test_options_of_conversion_with_other_networks(tmp_path):
    onnx.save(EXPORTED, tmp_path / "net.onnx")
    with pytest.raises(ValueError, match=r"example is for models of PyTorch.* so omit it"):
        tvmrt.load(tmp_path / "net.onnx", example=np.ones((1, 3)))
    net = tvmrt.load(tmp_path / "net.onnx", trusted=True, dims={"batch": 1}, cache=False)
    tvmrt.compile(tmp_path / "net.onnx", dims={"batch": 1}).export_library(tmp_path / "net.so")
    x = np.ones((1, 3), np.float32)
    assert net(x).tolist() == tvmrt.load(tmp_path / "net.so", trusted=True)(x).tolist()


class _Keras:
    __module__ = "keras.src.models.model"
    inputs = (SimpleNamespace(shape=(None, 3), dtype="float32"),)

    def __call__(self, x, training):
        assert not training and x.any()
        return -x

    def export(self, path, *, format, verbose):
        assert format == "onnx"
        onnx.save(EXPORTED, path)


def test_a_keras_model_exports_itself(monkeypatch):
    net = tvmrt.load(_Keras(), dims={"batch": 2}, cache=False)
    np.testing.assert_array_equal(net(np.ones((2, 3), np.float32)), -np.ones((2, 3)))
    monkeypatch.setattr(_Keras, "export", lambda *_, **__: (_ for _ in ()).throw(OSError(LONG)))
    with pytest.raises(ValueError, match="keras cannot export a _Keras: The converter failed; "):
        tvmrt.load(_Keras())


def test_a_keras_model_that_computes_something_else_is_refused(tmp_path):
    class Branch(_Keras):
        __module__ = "keras.src.models.model"

        def __call__(self, x, training):
            return x if x.sum() < -1 else -x

    class OfBatch(_Keras):
        __module__ = "keras.src.models.model"

        def __call__(self, x, training):
            return -x if len(x) == 2 else x

    for model in (Branch(), OfBatch()):
        for call in (partial(tvmrt.load, cache=tmp_path), tvmrt.compile):
            for _ in range(2):  # a cached network is compared as well
                with pytest.raises(
                    ValueError, match="has other results than the original: for ima"
                ):
                    call(model, dims={"batch": (1, 4)})
    # the bytes of this network are in the cache, since others have converted to them
    assert tvmrt.load(_Keras(), dims={"batch": (1, 4)}, cache=tmp_path) is not None


def test_a_saved_model_is_converted_to_tensorflow_lite(files, monkeypatch):
    converter = SimpleNamespace(convert=lambda: b"bytes of a .tflite file")
    given = SimpleNamespace(from_saved_model=lambda name: converter if name == "saved" else None)
    function = lambda x: {"y": -x}  # noqa: E731
    fake = SimpleNamespace(
        lite=SimpleNamespace(TFLiteConverter=given),
        saved_model=SimpleNamespace(
            load=lambda name: SimpleNamespace(signatures={"serving_default": function})
        ),
        constant=np.asarray,
    )
    monkeypatch.setitem(sys.modules, "tensorflow", fake)
    found = conversion.convert("saved", conversion.Settings(trusted=True))
    assert found.network == b"bytes of a .tflite file"
    assert found.original.run({"x": np.ones(2)})["y"].tolist() == [-1, -1]


def test_a_tensorflow_module_that_does_not_convert_is_named_by_its_class(monkeypatch):
    class Scorer:
        __module__ = "tensorflow.python.trackable.autotrackable"

    given = SimpleNamespace(from_saved_model=lambda _: (_ for _ in ()).throw(ValueError("No key")))
    fake = ModuleType("tensorflow")
    fake.lite = SimpleNamespace(TFLiteConverter=given)
    fake.saved_model = SimpleNamespace(save=lambda model, folder: None)
    monkeypatch.setitem(sys.modules, "tensorflow", fake)
    with pytest.raises(ValueError, match=r"^tensorflow cannot export a Scorer: No key; convert it"):
        tvmrt.load(Scorer())


def test_an_onnx_file_may_be_named_pb(tmp_path):
    onnx.save(EXPORTED, tmp_path / "net.pb")
    x = np.ones((1, 3), np.float32)
    np.testing.assert_array_equal(tvmrt.load(tmp_path / "net.pb", dims={"batch": 1})(x), -x)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (LONG, "The converter failed"),
        ("\n  Unable to find a shape calculator for 'X'.\nIt usually", "Unable to find a shape "
         "calculator for 'X'"),
        ("axis 3, e.g. of x, is 0.5 too large", "axis 3, e.g. of x, is 0.5 too large"),
        ("", "ValueError"),
    ],
)  # fmt: skip
def test_first_sentence_of_an_error(text, sentence):
    assert first_sentence(ValueError(text)) == sentence


def test_wrong_arguments_of_load(digits_f32=Path("examples/digits/digits_f32.onnx")):
    model = Path(__file__).parents[3] / digits_f32
    for options, words in (
        ({"cache": 5}, "cache: give a folder, True or False, not 5"),
        ({"request": {"ram": 1}}, "request: give a tvmrt.Request, not {'ram': 1}"),
        ({"shpaes": {}}, "there is no option shpaes of compile; did you mean shapes?"),
    ):
        with pytest.raises(TypeError) as caught:
            tvmrt.load(model, **options)
        assert str(caught.value) == words
    for nothing in ("", None):
        with pytest.raises(ValueError, match="no model is given; give the path of a network"):
            tvmrt.load(nothing)


def test_help_of_load_fits_one_screen():
    text = pydoc.render_doc(tvmrt.load, renderer=pydoc.plaintext)
    assert len(text.splitlines()) <= 45
    rows = re.findall(r"^ {8}(\w+) {2,}\S", text, re.MULTILINE)
    assert 8 <= len(rows) <= 12 and {*rows} <= {*all_options()}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "num_threads",
            "give threads= to tvmrt.load, or set TVM_NUM_THREADS before tvmrt is imported",
        ),
        ("device", "did you mean devices?"),
        ("providers", "did you mean devices?"),
        ("batch_size", "did you mean dims?"),
        ("opt_level", "networks are always optimised, and there is no level to choose; omit it"),
    ],
)
def test_options_of_other_libraries_name_those_of_tvmrt(name, words):
    with pytest.raises(TypeError) as caught:
        tvmrt.load("net.onnx", **{name: 1})
    assert str(caught.value) == f"there is no option {name} of compile; {words}"
