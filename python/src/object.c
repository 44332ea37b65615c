/* Objects that own one reference of a C handle: Object and Module.

   The public classes are derived in Python. A handle is NULL until a constructor has set it, and
   after the object was moved into a call. */
#include "core.h"

/* Take ownership of the handle, also on failure. Returns None for NULL. */
PyObject* make_handle_object(PyTypeObject* type, void* handle) {
  PyObject* self;
  if (handle == NULL) Py_RETURN_NONE;
  self = type->tp_alloc(type, 0);
  if (self == NULL) {
    TVMObjectFree(handle);
    return NULL;
  }
  ((HandleObject*)self)->handle = handle;
  return self;
}

/* Take an address, so that Python code can create objects from handles that it has as integers. */
PyObject* core_adopt(PyObject* self, PyObject* args) {
  PyObject *type, *address;
  void* handle;
  (void)self;
  if (!PyArg_ParseTuple(args, "O!O:adopt", &PyType_Type, &type, &address)) return NULL;
  handle = PyLong_AsVoidPtr(address);
  if (handle == NULL && PyErr_Occurred()) return NULL;
  if (!PyType_IsSubtype((PyTypeObject*)type, &ObjectType)) {
    PyErr_SetString(PyExc_TypeError, "adopt() makes objects of classes derived from Object");
    return NULL;
  }
  return make_handle_object((PyTypeObject*)type, handle);
}

/* Create an object without a handle; subclasses set it by adopt() or _move_from(). */
static PyObject* object_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  (void)args;
  (void)kwargs;
  return type->tp_alloc(type, 0);
}

/* The handle may be NULL if a constructor in Python has failed. */
static void object_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  TVMObjectFree(((HandleObject*)self)->handle);
  type->tp_free(self);
}

/* The object keeps its reference; code that stores the address must retain the handle. */
static PyObject* object_get_handle(PyObject* self, void* closure) {
  (void)closure;
  return PyLong_FromVoidPtr(((HandleObject*)self)->handle);
}

/* Let a constructor in Python take over the object that a function returned. The old handle is
   released last, because its destructor may run Python code that sees this object. */
static PyObject* object_move_from(PyObject* self, PyObject* other) {
  HandleObject* to = (HandleObject*)self;
  HandleObject* from = (HandleObject*)other;
  void* old = to->handle;
  if (!PyObject_TypeCheck(other, &ObjectType)) {
    return PyErr_Format(PyExc_TypeError, "expected an Object, got a %s", Py_TYPE(other)->tp_name);
  }
  to->handle = from->handle;
  from->handle = NULL;
  TVMObjectFree(old);
  Py_RETURN_NONE;
}

/* Compare the identity of the C objects; two Python objects may have the same one. */
static PyObject* object_same_as(PyObject* self, PyObject* other) {
  if (!PyObject_TypeCheck(other, &ObjectType)) Py_RETURN_FALSE;
  return PyBool_FromLong(((HandleObject*)self)->handle == ((HandleObject*)other)->handle);
}

static PyMethodDef object_methods[] = {
    {"_move_from", object_move_from, METH_O, "Take over the handle of another object."},
    {"same_as", object_same_as, METH_O, "Whether both show the same C object."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef object_getset[] = {
    {"handle", object_get_handle, NULL, "Address of the C handle; the object owns one reference.",
     NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyTypeObject ObjectType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tvmrt.runtime._core.Object",
    .tp_doc = "Base of everything that owns one reference of a C object.",
    .tp_basicsize = sizeof(HandleObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_new = object_new,
    .tp_dealloc = object_dealloc,
    .tp_methods = object_methods,
    .tp_getset = object_getset,
};

/* Modules have the struct of objects; their own type shows C which kind an argument is. */
PyTypeObject ModuleType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tvmrt.runtime._core.Module",
    .tp_doc = "Base of tvmrt.runtime.Module.",
    .tp_basicsize = sizeof(HandleObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_base = &ObjectType,
};
