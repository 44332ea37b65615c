/* Device and DataType: the values that Python code makes and C reads.

   C reads the structs and Python their members; all that people call is in the derived classes. */
#include "core.h"

/* By the Python class, past its __init__: values from C were checked there. */
PyObject* make_device(DLDevice device) {
  PyTypeObject* type = (PyTypeObject*)hooks.device_class;
  PyObject* self = type->tp_alloc(type, 0);
  if (self != NULL) ((DeviceObject*)self)->device = device;
  return self;
}

/* As Python's class calls it; numbers are looked at when a device is used. */
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

/* C reads the struct, so that an argument of this type costs no look-up of attributes. */
PyTypeObject DeviceType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tvmrt.runtime._core.Device",
    .tp_doc = "Base of tvmrt.runtime.Device.",
    .tp_basicsize = sizeof(DeviceObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_new = PyType_GenericNew,
    .tp_init = device_init,
    .tp_members = device_members,
};

/* Code, bits and lanes by position or name. */
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

/* A struct for the same reason. */
PyTypeObject DataTypeType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tvmrt.runtime._core.DataType",
    .tp_doc = "Base of tvmrt.runtime.DataType.",
    .tp_basicsize = sizeof(DataTypeObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_new = PyType_GenericNew,
    .tp_init = dtype_init,
    .tp_members = dtype_members,
};
