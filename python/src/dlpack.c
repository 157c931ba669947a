// SPDX-License-Identifier: Apache-2.0
// DLPack's capsules, of version 1 and those before it.
#include "python/src/core.h"

#include <stdlib.h>
#include <string.h>

#define GIVEN "dltensor_versioned"
#define TAKEN "used_dltensor_versioned"
#define OLD_GIVEN "dltensor"
#define OLD_TAKEN "used_dltensor"

// DLManagedTensor, which had no version.
typedef struct old_t {
  dt_dlpack_tensor_t tensor;
  void *context;
  void (*deleter)(struct old_t *self);
} old_t;

// ---- Giving ---------------------------------------------------------------------------------------

// A capsule that nobody took.
static void drop(PyObject *capsule) {
  if (!PyCapsule_IsValid(capsule, GIVEN))
    return;
  dt_dlpack_managed_t *managed = PyCapsule_GetPointer(capsule, GIVEN);
  managed->deleter(managed);
}

static void drop_old(PyObject *capsule) {
  if (!PyCapsule_IsValid(capsule, OLD_GIVEN))
    return;
  old_t *old = PyCapsule_GetPointer(capsule, OLD_GIVEN);
  old->deleter(old);
}

static void delete_old(old_t *old) {
  dt_dlpack_managed_t *managed = old->context;
  managed->deleter(managed);
  free(old);
}

static PyObject *old_capsule(dt_dlpack_managed_t *managed) {
  old_t *old = malloc(sizeof(*old));
  if (!old) {
    managed->deleter(managed);
    return PyErr_NoMemory();
  }
  *old = (old_t){.tensor = managed->tensor, .context = managed, .deleter = delete_old};
  PyObject *capsule = PyCapsule_New(old, OLD_GIVEN, drop_old);
  if (!capsule)
    delete_old(old);
  return capsule;
}

static dt_dlpack_device_t place_of(const dt_tensor_t *tensor) {
  return (dt_dlpack_device_t){dt_tensor_device(tensor) == DT_CPU ? DT_DLPACK_CPU : DT_DLPACK_GPU,
                              dt_tensor_ordinal(tensor)};
}

PyObject *dt__py_dlpack_device(PyObject *self, PyObject *unused) {
  (void)unused;
  dt_dlpack_device_t place = place_of(((dt_py_tensor_t *)self)->tensor);
  return Py_BuildValue("(ii)", place.kind, place.ordinal);
}

// What the taker asks for that this one cannot do is BufferError, as the protocol wants.
static bool can_give(dt_py_tensor_t *self, PyObject *device, PyObject *copy, PyObject *version,
                     long *out_major) {
  dt_dlpack_device_t place = place_of(self->tensor);
  long minor = 0;
  int kind = place.kind, ordinal = place.ordinal;
  *out_major = 0;
  if (copy == Py_True) {
    PyErr_SetString(PyExc_BufferError, "a Tensor is given without a copy; copy what is taken");
    return false;
  }
  if (version != Py_None && !PyArg_ParseTuple(version, "ll", out_major, &minor))
    return false;
  if (device != Py_None && !PyArg_ParseTuple(device, "ii", &kind, &ordinal))
    return false;
  if (kind != place.kind || ordinal != place.ordinal) {
    PyErr_SetString(PyExc_BufferError, "a Tensor is given where it is, not on another device");
    return false;
  }
  if (*out_major < 1 && self->read_only) {
    PyErr_SetString(PyExc_BufferError, "DLPack before version 1 has no read-only tensors");
    return false;
  }
  return true;
}

// What orders the taker behind the session's work: a stream's number, or None.
static bool order(dt_py_tensor_t *self, PyObject *stream, dt_dlpack_options_t *options) {
  dt_py_session_t *session = (dt_py_session_t *)self->session;
  long long number = 0;
  if (stream != Py_None) {
    number = PyLong_AsLongLong(stream);
    if (PyErr_Occurred())
      return false;
  }
  if (number == -1 || !session) // the taker wants no order
    return true;
  options->session = session->session;
  options->stream = (void *)(uintptr_t)number;
  return true;
}

PyObject *dt__py_to_dlpack(PyObject *self, PyObject *args, PyObject *keywords) {
  static char *names[] = {"stream", "max_version", "dl_device", "copy", NULL};
  PyObject *stream = Py_None, *version = Py_None, *device = Py_None, *copy = Py_None;
  dt_py_tensor_t *tensor = (dt_py_tensor_t *)self;
  dt_dlpack_managed_t *managed = NULL;
  dt_dlpack_options_t options = {.struct_size = sizeof(options), .read_only = tensor->read_only};
  long major;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "|$OOOO:__dlpack__", names, &stream, &version,
                                   &device, &copy) ||
      !can_give(tensor, device, copy, version, &major) || !order(tensor, stream, &options) ||
      !dt__py_ok(dt_tensor_to_dlpack(tensor->tensor, &options, &managed)))
    return NULL;
  if (major < 1)
    return old_capsule(managed);
  PyObject *capsule = PyCapsule_New(managed, GIVEN, drop);
  if (!capsule)
    managed->deleter(managed);
  return capsule;
}

// ---- Taking ---------------------------------------------------------------------------------------

// Python's objects are behind what others made: they want the interpreter's lock, or take it.
static void delete_wrapped(dt_dlpack_managed_t *managed) {
  old_t *old = managed->context;
  if (old->deleter)
    old->deleter(old);
  free(managed);
}

static dt_dlpack_managed_t *wrap(old_t *old) {
  dt_dlpack_managed_t *managed = calloc(1, sizeof(*managed));
  if (!managed)
    return NULL;
  managed->version = (dt_dlpack_version_t){DT_DLPACK_MAJOR, DT_DLPACK_MINOR};
  managed->context = old;
  managed->deleter = delete_wrapped;
  managed->tensor = old->tensor;
  return managed;
}

// The capsule of a giver: of version 1 where it knows that.
static PyObject *ask(PyObject *object, const char *what, void *stream) {
  PyObject *method = PyObject_GetAttrString(object, "__dlpack__");
  if (!method) {
    PyErr_Clear();
    dt__py_raise(DT_E_ARGUMENT, "%s: %R has neither a buffer nor __dlpack__", what,
                 (PyObject *)Py_TYPE(object));
    return NULL;
  }
  PyObject *none = PyTuple_New(0);
  PyObject *keywords = Py_BuildValue("{s(ii)}", "max_version", DT_DLPACK_MAJOR, DT_DLPACK_MINOR);
  PyObject *capsule = NULL;
  bool failed = !none || !keywords;
  if (!failed && stream) {
    PyObject *number = PyLong_FromVoidPtr(stream);
    failed = !number || PyDict_SetItemString(keywords, "stream", number) < 0;
    Py_XDECREF(number);
  }
  if (!failed)
    capsule = PyObject_Call(method, none, keywords);
  if (!failed && !capsule && PyErr_ExceptionMatches(PyExc_TypeError)) {
    PyErr_Clear();
    if (PyDict_DelItemString(keywords, "max_version") == 0)
      capsule = PyObject_Call(method, none, keywords);
  }
  Py_XDECREF(keywords);
  Py_XDECREF(none);
  Py_DECREF(method);
  return capsule;
}

static dt_tensor_t *take(PyObject *capsule, const char *what) {
  dt_tensor_t *tensor = NULL;
  bool old = PyCapsule_IsValid(capsule, OLD_GIVEN);
  if (!old && !PyCapsule_IsValid(capsule, GIVEN)) {
    dt__py_raise(DT_E_ARGUMENT, "%s: this capsule of DLPack was taken before, or is none", what);
    return NULL;
  }
  void *given = PyCapsule_GetPointer(capsule, old ? OLD_GIVEN : GIVEN);
  dt_dlpack_managed_t *managed = old ? wrap(given) : given;
  if (!managed) {
    PyErr_NoMemory();
    return NULL;
  }
  dt_status_t status = dt_tensor_from_dlpack(managed, &tensor);
  if (status) {
    dt__py_raise(dt_status_code(status), "%s: %s", what, dt_status_message(status));
    dt_status_free(status);
    if (old)
      free(managed);
    return NULL;
  }
  (void)PyCapsule_SetName(capsule, old ? OLD_TAKEN : TAKEN);
  return tensor;
}

dt_tensor_t *dt__py_from_dlpack(PyObject *object, const char *what, void *stream) {
  if (PyCapsule_CheckExact(object))
    return take(object, what);
  PyObject *capsule = ask(object, what, stream);
  dt_tensor_t *tensor = capsule ? take(capsule, what) : NULL;
  Py_XDECREF(capsule);
  return tensor;
}

PyObject *dt__py_tensor_taken(dt_tensor_t *tensor) {
  dt_dlpack_managed_t *given = NULL;
  PyObject *made = dt__py_tensor(tensor, NULL);
  if (!made)
    return NULL;
  if (!dt__py_ok(dt_tensor_to_dlpack(tensor, NULL, &given))) {
    Py_DECREF(made);
    return NULL;
  }
  ((dt_py_tensor_t *)made)->read_only = (given->flags & DT_DLPACK_READ_ONLY) != 0;
  given->deleter(given);
  return made;
}
