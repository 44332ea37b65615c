"""Reading models: untrusted files, shapes, opsets, functions, external data."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser
from onnx_graph import model
from small_network import small_network

from tvmrt.compiler.frontend.onnx import import_model, registry, string_tensors
from tvmrt.compiler.frontend.onnx.import_state import ImportRequest, ImportState
from tvmrt.compiler.frontend.onnx.sequence_values import TensorList
from tvmrt.error import UnsupportedError

X = {"x": np.zeros((2, 3), np.float32)}


def relu(**kw) -> onnx.ModelProto:
    return model([helper.make_node("Relu", ["x"], ["y"], "act")], X, ["y"], **kw)


def symbolic() -> onnx.ModelProto:
    network = relu()
    network.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "N"
    return network


# Files.


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
def test_a_truncated_file_is_named_with_its_size(tmp_path, share):
    data = small_network().SerializeToString()
    path = tmp_path / "cut.onnx"
    path.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(ValueError, match=r"cut\.onnx .*bytes"):
        import_model(path)


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"hello, this is text\n", b"\x00" * 64, b"\xff" * 9]
)
def test_file_that_is_not_a_model_is_refused(tmp_path, content):
    path = tmp_path / "text.onnx"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"text\.onnx"):
        import_model(path)


def test_a_missing_file_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        import_model(tmp_path / "no.onnx")


# External data.


@pytest.fixture
def external(tmp_path):
    """Return a model with external weights."""
    network = small_network()
    onnx.save(
        network, str(tmp_path / "net.onnx"), save_as_external_data=True, location="net.bin",
        size_threshold=0,
    )  # fmt: skip
    return tmp_path


def test_external_data_is_read(external):
    graph = import_model(external / "net.onnx")
    expected = numpy_helper.to_array(small_network().graph.initializer[0])
    found = [v for v in graph.constants() if v.name == "w1"]
    np.testing.assert_array_equal(found[0].data, expected)


def test_missing_external_data_is_named(external):
    (external / "net.bin").unlink()
    with pytest.raises(
        FileNotFoundError, match=r"net\.bin .* is missing; put it next to the model"
    ):
        import_model(external / "net.onnx")


def test_external_data_that_is_too_short_is_refused(external):
    data = (external / "net.bin").read_bytes()
    (external / "net.bin").write_bytes(data[:-8])
    with pytest.raises(ValueError, match="copy it again"):
        import_model(external / "net.onnx")


@pytest.mark.parametrize("location", ["../secret", "/etc/passwd", "a/../../secret"])
def test_external_data_outside_of_the_folder_is_refused(external, location):
    (external.parent / "secret").write_bytes(b"x" * 4096)
    network = onnx.load(str(external / "net.onnx"), load_external_data=False)
    for entry in network.graph.initializer[0].external_data:
        if entry.key == "location":
            entry.value = location
    (external / "net.onnx").write_bytes(network.SerializeToString())
    with pytest.raises(ValueError, match="outside the model's folder"):
        import_model(external / "net.onnx")


# Shapes.


def test_a_symbolic_dimension_asks_for_its_shape():
    with pytest.raises(ValueError, match=r"shape \[N, 3\], where N is open; .* dims=.\"N\": "):
        import_model(symbolic())


def test_a_symbolic_dimension_is_bound():
    assert import_model(symbolic(), {"x": (7, 3)}).inputs[0].shape == (7, 3)


@pytest.mark.parametrize("shape", [(7,), (7, 3, 1), (-1, 3)])
def test_a_shape_that_contradicts_the_model_is_refused(shape):
    with pytest.raises(ValueError, match="input x"):
        import_model(symbolic(), {"x": shape})


def test_a_shape_for_another_name_lists_the_inputs():
    with pytest.raises(KeyError, match="no input z; choose from x"):
        import_model(relu(), {"z": (1,)})


# Opsets.


@pytest.mark.parametrize("opset", [7, 13, 21, onnx.defs.onnx_opset_version()])
def test_every_opset_from_seven_on_is_read(opset):
    assert len(import_model(relu(opset=opset)).nodes) == 1


@pytest.mark.parametrize("opset", [0, onnx.defs.onnx_opset_version() + 1])
def test_other_opsets_are_refused_with_the_range(opset):
    with pytest.raises(ValueError, match=f"opset {opset}; tvmrt reads opset 1 to"):
        import_model(relu(opset=opset))


# Operators.


def test_all_unsupported_nodes_are_listed_at_once():
    nodes = [
        helper.make_node("Fancy", ["x"], ["a"], "first", domain="acme"),
        helper.make_node("Relu", ["a"], ["b"], "middle"),
        helper.make_node("Cast", ["x"], ["c"], "second", to=onnx.TensorProto.COMPLEX64),
        helper.make_node("Fancier", ["b"], ["d"], "third", domain="acme"),
        helper.make_node("Add", ["c", "d"], ["y"], "sum"),
    ]
    with pytest.raises(UnsupportedError) as caught:
        import_model(model(nodes, X, ["y"], domains=["acme"]))
    text = str(caught.value)
    assert text.startswith("3 nodes")
    assert "first (unknown operator acme::Fancy" in text
    assert "third (unknown operator acme::Fancier" in text
    assert "second (Cast" in text
    assert "middle" not in text and "sum" not in text


def test_a_contradiction_names_its_node():
    node = helper.make_node("Add", ["x", "w"], ["y"], "mismatch")
    with pytest.raises(ValueError, match=r"node mismatch \(Add\).*broadcast"):
        import_model(model([node], X, ["y"], {"w": np.zeros(5, np.float32)}))


def test_undefined_input_is_named():
    node = helper.make_node("Relu", ["nowhere"], ["y"], "lost")
    with pytest.raises(ValueError, match=r"lost .*reads nowhere"):
        import_model(model([node], X, ["y"]))


def test_a_function_of_the_model_is_inlined():
    function = helper.make_function(
        "acme",
        "Twice",
        ["a"],
        ["b"],
        [helper.make_node("Mul", ["a", "a"], ["t"]), helper.make_node("Add", ["t", "a"], ["b"])],
        [helper.make_opsetid("", 17)],
    )
    network = model(
        [helper.make_node("Twice", ["x"], ["y"], domain="acme")], X, ["y"], domains=["acme"]
    )
    network.functions.append(function)
    assert [n.op for n in import_model(network).nodes] == ["mul", "add"]


def test_a_sparse_initialiser_becomes_dense():
    values = numpy_helper.from_array(np.array([2.0, 3.0], np.float32), "w")
    indices = numpy_helper.from_array(np.array([1, 5]), "w_i")
    network = model([helper.make_node("Add", ["x", "w"], ["y"])], X, ["y"])
    sparse = helper.make_sparse_tensor(values, indices, [2, 3])
    network.graph.sparse_initializer.append(sparse)
    (node,) = import_model(network).nodes
    np.testing.assert_array_equal(node.inputs[1].data, [[0, 2, 0], [0, 0, 3]])


def test_an_initialiser_listed_as_input_stays_a_constant():
    network = model(
        [helper.make_node("Add", ["x", "w"], ["y"])], X, ["y"], {"w": np.ones(3, np.float32)}
    )
    network.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [3]))
    graph = import_model(network)
    assert [v.name for v in graph.inputs] == ["x"]


def test_initialisers_may_be_declared_as_values_too():
    """As in torch.onnx.export: halves of a row are swapped, with axes in declared initialisers."""
    checked = {"half": [2], "end": [2**62], "start": [0], "axes": [1], "steps": [1]}
    nodes = [
        helper.make_node("Slice", ["x", "start", "half", "axes", "steps"], ["a"]),
        helper.make_node("Slice", ["x", "half", "end", "axes", "steps"], ["b"]),
        helper.make_node("Concat", ["b", "a"], ["y"], axis=-1),
    ]
    weights = {name: np.array(value) for name, value in checked.items()}
    network = model(nodes, {"x": np.zeros((1, 4), np.float32)}, ["y"], weights, opset=18)
    for name in checked:
        info = helper.make_tensor_value_info(name, TensorProto.INT64, [1])
        network.graph.value_info.append(info)
    for name in ("a", "b"):
        info = helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 2])
        network.graph.value_info.append(info)
    assert import_model(network).outputs[0].shape == (1, 4)


def test_constant_work_is_done_at_import():
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["n"]),
        helper.make_node("NonZero", ["mask"], ["where"]),
        helper.make_node("ReduceSum", ["where"], ["total"], keepdims=0),
        helper.make_node("Add", ["n", "total"], ["k"]),
        helper.make_node("Cast", ["k"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["x", "f"], ["y"]),
    ]
    weights = {"zero": np.array(0), "mask": np.array([0, 1, 1])}
    (node,) = import_model(model(nodes, X, ["y"], weights)).nodes
    assert node.op == "mul" and node.inputs[1].data == 5.0


def test_added_operator_does_not_hide_built_in_ones():
    program = (
        "from tvmrt.compiler.frontend.onnx.registry import find, onnx_op\n"
        "mine = onnx_op('Mul', 'Own')(lambda ctx: None)\n"
        "assert find('', 'Relu') is not None\n"
        "assert find('', 'Mul') is mine and find('', 'Own') is mine\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


# Importers that know nothing of ONNX's element types.


HEAD = '<ir_version: 10, opset_import: ["" : 21, "made.up" : 1]> net '


@pytest.fixture
def made_up(monkeypatch):
    """Parts returns the two halves of a vector as a sequence."""

    def parts(ctx):
        x = ctx.required(0)
        size = x.shape[0] // 2
        return [TensorList([ctx.slice_axis(x, 0, i * size, size) for i in range(2)])]

    registry.find("", "Relu")  # fills the table
    monkeypatch.setitem(registry._TABLE, ("made.up", "Parts"), parts)
    supported = {*string_tensors._SUPPORTED, ("made.up", "Parts")}
    monkeypatch.setattr(string_tensors, "_SUPPORTED", supported)


@pytest.mark.parametrize("kind, small", [("float16", 2**-11), ("bfloat16", 2**-8)])
def test_half_precision_passes_through_any_importer(made_up, kind, small):
    """Cast rounds the sum, which is exact in float32, because the elements are half precision."""
    network = parser.parse_model(
        HEAD
        + """() => (float[1] y) <int64 i = {0}, int64 j = {1}> {
            parts = made.up.Parts(h)
            a = SequenceAt(parts, i)
            b = SequenceAt(parts, j)
            sum = Add(a, b)
            y = Cast<to = 1>(sum)
        }"""
    )
    code = getattr(TensorProto, kind.upper())
    network.graph.initializer.append(helper.make_tensor("h", code, [2], [1.0, small]))
    (y,) = import_model(network).outputs
    h = np.asarray([1.0, small]).astype(helper.tensor_dtype_to_np_dtype(code))
    assert y.data == (h[:1] + h[1:]).astype(np.float32)


@pytest.mark.parametrize("kind", ["int4", "uint4", "string"])
def test_other_types_pass_through_any_importer(made_up, kind):
    """An output of the declared type is refused unless the elements have it."""
    text = "({0}[4] x) => ({0}[2] y) <int64 j = {{1}}> {{"
    text += "parts = made.up.Parts(x) last = SequenceAt(parts, j) y = Identity(last) }}"
    graph = import_model(parser.parse_model(HEAD + text.format(kind)))
    assert graph.outputs[0].dtype == graph.inputs[0].dtype
    assert graph.inputs[0].dtype.name == {"string": "handle"}.get(kind, kind)


def test_the_state_of_an_import_is_small_and_set_by_itself():
    state = ImportState(ImportRequest(relu()))
    assert len(vars(state)) <= 12
    package = Path(registry.__file__).parent
    assigned = re.compile(rf"\b(?:importer|state)\.(?:{'|'.join(vars(state))}) =[^=]")
    files = [*package.glob("*.py"), *package.parents[4].glob("plugins/onnx_*/**/operators/*.py")]
    assert not [path.name for path in files if assigned.search(path.read_text())]
