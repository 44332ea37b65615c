/* Objects that own one reference of a C handle: Object and Module.

   The classes that people see are derived in Python. A handle is NULL before a constructor has given
   the object one, and after it was moved into a call. */
#include "core.h"

/* Takes the handle over, also on failure. None stands for NULL. */
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

/* By address, so that Python code can make objects of handles which it got as numbers. */
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

/* An object without a handle; subclasses take theirs over by adopt() or move_from(). */
static PyObject* object_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  (void)args;
  (void)kwargs;
  return type->tp_alloc(type, 0);
}

/* The handle may be NULL, where a constructor in Python has failed. */
static void object_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  TVMObjectFree(((HandleObject*)self)->handle);
  type->tp_free(self);
}

/* As for functions: the reference stays the object's. */
static PyObject* object_get_handle(PyObject* self, void* closure) {
  (void)closure;
  return PyLong_FromVoidPtr(((HandleObject*)self)->handle);
}

/* A constructor in Python makes the object that a function returns its own by this. The old handle
   goes last: its end may run Python code that sees this object. */
static PyObject* object_move_from(PyObject* self, PyObject* other) {
  HandleObject* to = (HandleObject*)self;
  HandleObject* from = (HandleObject*)other;
  void* old = to->handle;
  if (!PyObject_TypeCheck(other, &ObjectType)) {
    return PyErr_Format(PyExc_TypeError, "an Object is needed, not a %s", Py_TYPE(other)->tp_name);
  }
  to->handle = from->handle;
  from->handle = NULL;
  TVMObjectFree(old);
  Py_RETURN_NONE;
}

/* Identity of the C object: two Python objects may show one. */
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

/* A module's handle is an object's; the type of its own tells the two apart as arguments. */
PyTypeObject ModuleType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tvmrt.runtime._core.Module",
    .tp_doc = "Base of tvmrt.runtime.Module.",
    .tp_basicsize = sizeof(HandleObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_base = &ObjectType,
};
