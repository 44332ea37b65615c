"""The positions of onnxruntime's functions against the behaviour of the installed library."""

from __future__ import annotations

import ctypes
import importlib.util
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint32, c_void_p
from pathlib import Path

import pytest

onnxruntime = pytest.importorskip("onnxruntime", minversion="1.24")
from tvmrt.plugins import onnxruntime_ep  # noqa: E402

FOLDER = Path(__file__).parents[1]
INT, INTS, FLOAT, FLOATS, STRING, STRINGS = range(1, 7)  # types of attributes


def positions(file: str) -> dict:
    spec = importlib.util.spec_from_file_location("ep_generate", FOLDER / "generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.read_positions(FOLDER / file)


class Base(ctypes.Structure):
    _fields_ = [
        ("get_api", ctypes.CFUNCTYPE(c_void_p, c_uint32)),
        ("get_version", ctypes.CFUNCTYPE(c_void_p)),
    ]


class Table:
    """The functions of a table by the names in a file of positions."""

    def __init__(self, name: str, address, file: str = "positions.ini") -> None:
        self.rows = positions(file)[f"call {name}"]
        self.table = ctypes.cast(address, POINTER(c_void_p))

    def __call__(self, name: str, *args, result=c_void_p):
        """Call a function; a status that reports an error is returned as its text."""
        simple = (c_int, c_size_t, c_char_p, c_void_p)
        types = [type(each) if isinstance(each, simple) else c_void_p for each in args]
        found = ctypes.CFUNCTYPE(result, *types)(self.table[self.rows[name][0]])(*args)
        if result is not c_void_p or found is None or name == "GetErrorMessage":
            return found
        if not self.rows[name][2].startswith("ort_status*"):
            return found
        text = self("GetErrorMessage", c_void_p(found), result=c_char_p).decode()
        self("ReleaseStatus", c_void_p(found), result=None)
        return text


@pytest.fixture(scope="module")
def api() -> Table:
    (library,) = Path(onnxruntime.__file__).parent.glob("capi/libonnxruntime.so.*")
    get_base = ctypes.CDLL(str(library)).OrtGetApiBase
    get_base.restype = POINTER(Base)
    return Table("OrtApi", get_base().contents.get_api(24))


def attribute(api: Table, data, count: int, kind: int) -> c_void_p:
    made = c_void_p()
    data = ctypes.cast(data, c_void_p)
    assert (
        api("CreateOpAttr", c_char_p(b"alpha"), data, c_int(count), c_int(kind), byref(made))
        is None
    )
    return made


def test_statuses_attributes_and_nodes_have_these_positions(api):
    assert api("CreateStatus", c_int(11), c_char_p(b"a text")) == "a text"

    numbers = (ctypes.c_int64 * 3)(5, -6, 7)
    made = attribute(api, numbers, 3, INTS)
    kind, name, size, back = c_int(), c_char_p(), c_size_t(), (ctypes.c_int64 * 3)()
    assert api("OpAttr_GetType", made, byref(kind)) is None and kind.value == INTS
    assert api("OpAttr_GetName", made, byref(name)) is None and name.value == b"alpha"
    api("ReadOpAttr", made, kind, c_void_p(), c_size_t(0), byref(size))  # some report an error
    assert size.value == 24
    assert api("ReadOpAttr", made, kind, byref(back), size, byref(size)) is None
    assert list(back) == [5, -6, 7]

    editor = Table("OrtModelEditorApi", api("GetModelEditorApi"))
    node, attributes = c_void_p(), (c_void_p * 1)(made)
    inputs, outputs = (c_char_p * 2)(b"x", b"y"), (c_char_p * 1)(b"z")
    words = [c_char_p(word) for word in (b"Toy", b"a.domain", b"the node")]
    ends = [inputs, c_size_t(2), outputs, c_size_t(1), attributes, c_size_t(1)]
    assert editor("CreateNode", *words, *ends, byref(node)) is None
    assert attributes[0] is None  # the node owns it
    for function, text in [
        ("Node_GetOperatorType", b"Toy"),
        ("Node_GetDomain", b"a.domain"),
        ("Node_GetName", b"the node"),
    ]:
        assert api(function, node, byref(name)) is None
        assert name.value == text


def test_type_and_shape_of_a_tensor_are_read_at_this_position(api):
    host = Table("HostApi", api.table, "tests/host_positions.ini")
    memory, value, kind = c_void_p(), c_void_p(), c_int()
    assert host("CreateCpuMemoryInfo", c_int(0), c_int(0), byref(memory)) is None
    data, given = (ctypes.c_float * 6)(), (ctypes.c_int64 * 2)(2, 3)
    tensor = [memory, data, c_size_t(24), given, c_size_t(2), c_int(1)]
    assert host("CreateTensorWithDataAsOrtValue", *tensor, byref(value)) is None
    extents, rank = POINTER(ctypes.c_int64)(), c_size_t()
    read = "GetTensorElementTypeAndShapeDataReference"
    assert api(read, value, byref(kind), byref(extents), byref(rank)) is None
    assert (kind.value, extents[: rank.value]) == (1, [2, 3])
    host("ReleaseValue", value, result=None)
    host("ReleaseMemoryInfo", memory, result=None)


def fake_base(version: bytes, texts: list[bytes]) -> tuple[Base, list]:
    """Return an OrtApiBase whose only function is CreateStatus, and what must stay alive."""

    @ctypes.CFUNCTYPE(c_void_p, c_int, c_char_p)
    def create_status(code, text):
        texts.append(text)
        return 1

    table = (c_void_p * 1)(ctypes.cast(create_status, c_void_p))
    get_api = Base._fields_[0][1](lambda wanted: ctypes.addressof(table) if wanted < 24 else None)
    text = ctypes.create_string_buffer(version)
    get_version = Base._fields_[1][1](lambda: ctypes.addressof(text))
    return Base(get_api, get_version), [create_status, table, get_api, get_version]


@pytest.mark.parametrize("version", [b"1.23.2", b"0.9"])
def test_an_onnxruntime_that_is_too_old_is_refused_in_one_sentence(version):
    library = ctypes.CDLL(onnxruntime_ep.library_path())
    library.CreateEpFactories.restype = c_void_p
    texts: list[bytes] = []
    base, alive = fake_base(version, texts)
    factories, made = (c_void_p * 4)(), c_size_t(9)
    status = library.CreateEpFactories(
        b"tvmrt", byref(base), None, factories, c_size_t(4), byref(made)
    )
    assert status == 1 and made.value == 0 and alive
    assert texts == [
        b"tvmrt: onnxruntime 1.24 or later is needed; this is onnxruntime "
        + version
        + b": install a newer one"
    ]
