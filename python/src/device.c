/* Device and DataType: values created in Python and read by C.

   C reads the structs, Python their members; all public methods are in the derived classes. */
#include "core.h"

/* Create an object of the Python class without its __init__, since values from C are valid. */
PyObject* make_device(DLDevice device) {
  PyTypeObject* type = (PyTypeObject*)hooks.device_class;
  PyObject* self = type->tp_alloc(type, 0);
  if (self != NULL) ((DeviceObject*)self)->device = device;
  return self;
}

/* Called by the Python class; the numbers are checked when a device is used. */
static int device_init(PyObject* self, PyObject* args, PyObject* kwargs) {
  static char* names[] = {"device_type", "device_id", NULL};
  int device_type, device_id = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "i|i:Device", names, &device_type, &device_id)) {
    return -1;
  }
  ((DeviceObject*)self)->device = (DLDevice){(DLDeviceType)device_type, device_id};
  return 0;
}

static PyMemberDef device_members[] = {
    {"device_type", T_INT, offsetof(DeviceObject, device.device_type), 0,
     "DLDeviceType, a number."},
    {"device_id", T_INT, offsetof(DeviceObject, device.device_id), 0, "Which device of its type."},
    {NULL, 0, 0, 0, NULL},
};

/* C reads the struct, so arguments of this type need no attribute look-up. */
PyTypeObject DeviceType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tvmrt.runtime._core.Device",
    .tp_doc = "Base of tvmrt.runtime.Device.",
    .tp_basicsize = sizeof(DeviceObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_new = PyType_GenericNew,
    .tp_init = device_init,
    .tp_members = device_members,
};

/* Take code, bits and lanes by position or name. */
static int dtype_init(PyObject* self, PyObject* args, PyObject* kwargs) {
  static char* names[] = {"type_code", "bits", "lanes", NULL};
  unsigned char code, bits;
  unsigned short lanes = 1;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "bb|H:DataType", names, &code, &bits, &lanes)) {
    return -1;
  }
  ((DataTypeObject*)self)->dtype = (DLDataType){code, bits, lanes};
  return 0;
}

static PyMemberDef dtype_members[] = {
    {"type_code", T_UBYTE, offsetof(DataTypeObject, dtype.code), 0, "DLDataTypeCode, a number."},
    {"bits", T_UBYTE, offsetof(DataTypeObject, dtype.bits), 0, "Bits of one lane."},
    {"lanes", T_USHORT, offsetof(DataTypeObject, dtype.lanes), 0, "Lanes of one element."},
    {NULL, 0, 0, 0, NULL},
};

/* A struct as well, so that C needs no attribute look-up. */
PyTypeObject DataTypeType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tvmrt.runtime._core.DataType",
    .tp_doc = "Base of tvmrt.runtime.DataType.",
    .tp_basicsize = sizeof(DataTypeObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_new = PyType_GenericNew,
    .tp_init = dtype_init,
    .tp_members = dtype_members,
};
