"""Modules of PyTorch: converted so that they compute the same results, or refused."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import tvmrt
from tvmrt.cli import main

torch = pytest.importorskip("torch")
nn = torch.nn
HERE = Path(__file__).name
SHAPES = {"x": ("batch<=6", 4)}


def needs_export():
    """Skip a test if torch.export cannot write networks in this process."""
    pytest.importorskip("onnxscript")
    if "tensorflow" in sys.modules and "triton" not in sys.modules:
        pytest.skip("TensorFlow is loaded")


class _Lines:
    """Modules with a decision in Python, each in the line that the error must name."""

    class Sign(nn.Module):
        def forward(self, x):
            if x[0, 0] < 0:  # line of Sign
                return -x
            return x

    class AllPositive(nn.Module):
        def forward(self, x):
            return x + 1 if bool((x > 0).all()) else x  # line of AllPositive

    class Rows(nn.Module):
        def forward(self, x):
            return torch.stack([row * i for i, row in enumerate(x)])  # line of Rows

    class Columns(nn.Module):
        def forward(self, x):
            width = int((x[0] > 0).sum()) + 1  # line of Columns
            return x[:, :width] if width > 2 else x[:, :1]

    class Listed(nn.Module):
        def forward(self, x):
            return x * sorted(x.flatten().tolist())[0]  # line of Listed


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Sign", "AllPositive", "Rows", "Columns", "Listed"])
def test_decisions_by_values_are_errors_with_the_line_of_the_code(name):
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    line = 1 + next(i for i, text in enumerate(lines) if text.endswith(f"# line of {name}"))
    with pytest.raises(ValueError) as caught:
        tvmrt.load(getattr(_Lines, name)().eval(), shapes=SHAPES, cache=False)
    assert f"torch.onnx cannot export a {name}: " in str(caught.value)
    assert f"{HERE}:{line}: " in str(caught.value)


class _Repeat(nn.Module):
    def forward(self, x):
        for _ in range(x.shape[0]):
            x = x * 1.5
        return x


class _Length(nn.Module):
    def forward(self, x):
        return x * np.float32(len(x))


class _Calls(nn.Module):
    calls = 0

    def forward(self, x):
        self.calls += 1
        return x + self.calls


class _First(nn.Module):
    seen = False

    def forward(self, x):
        factor, self.seen = (1 if self.seen else 2), True
        return x * factor


class _Always(nn.Module):
    def forward(self, x):
        return nn.functional.dropout(x, 0.5, training=True)


class _Hidden(nn.Module):
    """A decision by way of NumPy."""

    def forward(self, x):
        largest = np.asarray(memoryview(x.detach().contiguous().numpy())).max()
        return x * 2 if largest > 1 else x


@pytest.mark.parametrize("call", [tvmrt.load, tvmrt.compile])
@pytest.mark.parametrize(
    ("module", "words"),
    [
        (_Repeat, r"a _Repeat has other results than the original: for x = .* of shape \(3, 4\)"),
        (_Calls, "a _Calls gives other results for equal inputs"),
        (_Always, "a _Always gives other results for equal inputs, as with random numbers"),
    ],
)
def test_networks_that_differ_from_their_module_are_refused(module, words, call, tmp_path):
    with pytest.raises(ValueError, match=words):
        call(module().eval(), shapes=SHAPES)


@pytest.mark.slow
@pytest.mark.parametrize("module", [_Length, _First, _Hidden])
@pytest.mark.parametrize("shape", [("batch<=6", 4), (2, 4)])
def test_state_and_detours_give_equal_results_or_an_error(module, shape):
    try:
        net = tvmrt.load(module().eval(), shapes={"x": shape}, cache=False)
    except ValueError:
        return
    original = module().eval()
    original(torch.zeros(2, 4))
    for scale in (1, -1, 5):
        for rows in (2,) if shape[0] == 2 else (1, 2, 5):
            x = scale * torch.rand(rows, 4)
            np.testing.assert_allclose(net(x.numpy()), original(x).numpy(), 1e-5)


@pytest.mark.slow
def test_a_number_that_forward_reads_from_a_tensor_is_recorded():
    needs_export()

    class Relative(nn.Module):
        def forward(self, x):
            return x - x.max().item()

    net = tvmrt.load(Relative().eval(), shapes=SHAPES, cache=False)
    x = torch.randn(5, 4)
    np.testing.assert_allclose(net(x.numpy()), (x - x.max()).numpy(), 1e-5, 1e-6)


def test_modules_in_training_mode_are_refused_if_that_makes_a_difference():
    plain = nn.Sequential(nn.Linear(4, 2), nn.ReLU())
    assert plain.training
    x = torch.randn(3, 4)
    net = tvmrt.load(plain, shapes=SHAPES, cache=False)
    np.testing.assert_allclose(net(x.numpy()), plain(x).detach().numpy(), 1e-5, 1e-6)
    for layer in (nn.BatchNorm1d(2), nn.Dropout(0.4)):
        module = nn.Sequential(nn.Linear(4, 2), layer)
        with pytest.raises(ValueError, match=r"a Sequential is in training mode, .*eval\(\) first"):
            tvmrt.load(module, shapes=SHAPES)
        module.eval()
        module[1].train()  # one layer suffices
        before = {name: value.clone() for name, value in module.state_dict().items()}
        with pytest.raises(ValueError, match="in training mode"):
            tvmrt.load(module, shapes=SHAPES)
        assert not module.training and module[1].training and not module[0].training
        for name, value in module.state_dict().items():
            assert torch.equal(value, before[name])


class _Text(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(60, 3)

    def forward(self, ids, mask=None, scale=1.0, as_dict=True):
        x = self.table(ids) * scale
        if mask is not None:
            x = x * mask.unsqueeze(-1)
        return {"state": x, "none": None, "mean": x.mean(1)} if as_dict else (x, (x.mean(1),))


IDS = torch.tensor([[3, 59, 0, 7], [8, 8, 41, 2]])
MASK = torch.tensor([[1, 1, 1, 0], [1, 0, 1, 1]])
SIZES = ("batch<=4", "seq<=9")


@pytest.mark.parametrize(
    ("example", "shapes"),
    [
        (IDS, None),
        (IDS.numpy(), {"ids": SIZES}),
        ((IDS, MASK), {"ids": SIZES, "mask": ("batch", "seq")}),
        ([IDS[:1], MASK[:1]], {"tokens": SIZES, "valid": ("batch", "seq")}),
        ({"ids": IDS, "mask": MASK}, {"mask": SIZES, "ids": ("batch", "seq")}),
        ({"ids": IDS, "mask": MASK, "scale": 0.5, "as_dict": False}, None),
        ({"mask": MASK.bool(), "ids": IDS.int(), "scale": 3}, {"ids": (2, 4)}),
    ],
)
def test_examples_of_integers_of_several_inputs_and_of_dictionaries(example, shapes):
    module = _Text().eval()
    net = tvmrt.load(module, example=example, shapes=shapes, cache=False)
    count = 3 if shapes and net.dims else 2
    ids = torch.randint(0, 60, (count, 4 if count == 2 else 7))
    mask = torch.randint(0, 2, ids.shape)
    given = {"ids": ids, "tokens": ids, "mask": mask, "valid": mask}
    inputs = [given[each.name].numpy().astype(each.dtype) for each in net.inputs]
    named = example if isinstance(example, dict) else {}
    scale = named.get("scale", 1.0)
    wanted = module(ids, mask if len(inputs) == 2 else None, scale)
    for found, right in zip(net(*inputs), (wanted["state"], wanted["mean"])):
        np.testing.assert_allclose(found, right.detach().numpy(), 1e-5, 1e-6)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"shapes": {"ids": (2, 4)}}, r"does not take float32 inputs .*example=\(ids, mask\) or"),
        ({"example": IDS + 55}, "_Text does not take the example: index out of range in self; gi"),
        ({"example": IDS, "shapes": {"ids": (2, 5)}}, r"the example has the shape \(2, 4\); give"),
        ({"example": {"ids": IDS}, "shapes": {"x": (2, 4)}}, "the example has no input x; choose"),
    ],
)
def test_examples_that_do_not_fit(options, words):
    with pytest.raises(ValueError, match=words):
        tvmrt.load(_Text().eval(), **options)


def test_examples_of_other_types_are_refused():
    for example in ([[1, 2]], {"as_dict": True}, "ids"):
        with pytest.raises(TypeError, match="example: "):
            tvmrt.load(_Text().eval(), example=example)


def test_sizes_that_are_related_are_compared_as_well():
    class Twice(nn.Module):
        repeats = False

        def forward(self, a, b):
            for _ in range(a.shape[0] if self.repeats else 2):
                b = b + 1
            return torch.cat([a, a]) + b

    module, shapes = Twice().eval(), {"a": ("m<=6", 3), "b": ("n=2*m", 3)}
    net = tvmrt.load(module, shapes=shapes, cache=False)
    a, b = torch.randn(5, 3), torch.randn(10, 3)
    np.testing.assert_allclose(net(a.numpy(), b.numpy()), module(a, b).numpy(), 1e-5)
    module.repeats = True
    with pytest.raises(ValueError, match=r"other results .* of shape \(3, 3\), b = .* \(6, 3\)"):
        tvmrt.load(module, shapes=shapes, cache=False)


def test_torchscript_keeps_its_branches_and_loops(tmp_path):
    class Steps(nn.Module):
        def forward(self, x):
            if bool(x.sum() > 0):
                x = -x
            for _ in range(x.size(0)):
                x = x * 2
            return x

    script = torch.jit.script(Steps())
    script.save(str(tmp_path / "steps.pt"))
    with pytest.raises(ValueError, match=r"is a PyTorch file, which can run any code .*trusted=Tr"):
        tvmrt.load(tmp_path / "steps.pt", shapes=SHAPES)
    for model in (script, tmp_path / "steps.pt"):
        net = tvmrt.load(model, shapes=SHAPES, trusted=True, cache=False)
        for x in (torch.ones(3, 4), -torch.ones(1, 4), torch.randn(5, 4)):
            np.testing.assert_allclose(net(x.numpy()), script(x).numpy(), 1e-5)


def test_reduced_precision_is_compared_before_it_is_reduced():
    module = nn.Linear(64, 64).eval()
    x = torch.randn(3, 64)
    net = tvmrt.load(module, shapes={"x": ("batch<=8", 64)}, weights="int4", cache=False)
    assert not np.allclose(net(x.numpy()), module(x).detach().numpy(), 1e-4, 1e-4)


@pytest.mark.slow
def test_exported_programs_are_compared(tmp_path):
    needs_export()
    module = nn.Sequential(nn.Linear(4, 3), nn.Tanh()).eval()
    batch = torch.export.Dim("batch", min=1, max=8)
    program = torch.export.export(module, (torch.randn(2, 4),), dynamic_shapes=({0: batch},))
    torch.export.save(program, tmp_path / "net.pt2")
    x = torch.randn(5, 4)
    for model in (program, tmp_path / "net.pt2"):
        net = tvmrt.load(model, trusted=True, cache=False)
        np.testing.assert_allclose(net(x.numpy()), module(x).detach().numpy(), 1e-5, 1e-6)


def test_examples_on_the_command_line(tmp_path, capsys):
    table = nn.Embedding(60, 3)
    torch.jit.trace(table, IDS).save(str(tmp_path / "net.pt"))
    np.savez(tmp_path / "in.npz", input=IDS.numpy())
    command = ["compile", str(tmp_path / "net.pt"), "--trusted", "-o", str(tmp_path / "net.so")]
    assert main([*command, "--shape", "input=2,4"]) == 2
    assert "give an .npz file of inputs that it takes with --example" in capsys.readouterr().err
    (tmp_path / "text.npz").write_text("no arrays")
    assert main([*command, "--example", str(tmp_path / "text.npz")]) == 2
    assert "is not an .npz file of arrays" in capsys.readouterr().err
    assert main([*command, "--example", str(tmp_path / "in.npz"), "--shape", "input=n<=8,4"]) == 0
    ids = torch.randint(0, 60, (5, 4))
    found = tvmrt.load(tmp_path / "net.so")(ids.numpy())
    np.testing.assert_array_equal(found, table(ids).detach().numpy())


class _Chosen(nn.Module):
    def forward(self, x):
        return x[x[:, 0] > 0]


@pytest.mark.slow
def test_results_without_elements_agree():
    x = np.float32([[1, 2, 3], [-1, 2, 3], [4, 5, 6]])
    network = tvmrt.load(_Chosen().eval(), shapes={"x": ("batch<=8", 3)}, cache=False)
    np.testing.assert_array_equal(network(x), x[[0, 2]])
