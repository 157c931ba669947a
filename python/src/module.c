// SPDX-License-Identifier: Apache-2.0
// The module ductile._core: its types and functions, each added by the file that has them.
#include "python/src/core.h"

dt_py_types_t dt__py_types;

void *dt__py_new(PyTypeObject *type) { return PyType_GenericAlloc(type, 0); }

void dt__py_free(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  freefunc give = (freefunc)PyType_GetSlot(type, Py_tp_free);
  give(self);
  Py_DECREF(type);
}

bool dt__py_add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **out) {
  *out = (PyTypeObject *)PyType_FromSpec(spec);
  return *out && PyModule_AddType(module, *out) == 0;
}

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "ductile._core",
    .m_doc = "What ductile is made of; programs import ductile.",
    .m_size = -1,
};

PyMODINIT_FUNC PyInit__core(void);
PyMODINIT_FUNC PyInit__core(void) {
  static int (*const parts[])(PyObject *) = {
      dt__py_add_errors,   dt__py_add_runtime, dt__py_add_tensor, dt__py_add_session,
      dt__py_add_function, dt__py_add_package, dt__py_add_size,   dt__py_add_trace,
      dt__py_add_builders, dt__py_add_control, dt__py_add_specs,  dt__py_add_profile,
  };
  // Types, and the sessions of threads, are the process's own.
  if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0) {
    PyErr_SetString(PyExc_ImportError, "ductile works in the main interpreter alone");
    return NULL;
  }
  PyObject *module = PyModule_Create(&definition);
  for (size_t k = 0; module && k < sizeof(parts) / sizeof(parts[0]); k++) {
    if (parts[k](module) < 0)
      Py_CLEAR(module);
  }
  if (module && PyModule_AddStringConstant(module, "__version__", dt_version()) < 0)
    Py_CLEAR(module);
  return module;
}
