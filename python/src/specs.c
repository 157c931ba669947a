// SPDX-License-Identifier: Apache-2.0
// What functions say of their inputs and results: (name, dtype, dims, kind), where a dim is a
// number or a text.
#include "python/src/core.h"

// The type Spec.
static PyTypeObject *spec_type;

static PyObject *make(PyObject *name, PyObject *dtype, PyObject *dims, const char *kind) {
  PyObject *fields[] = {name, dtype, dims, PyUnicode_FromString(kind)};
  PyObject *spec = PyStructSequence_New(spec_type);
  bool whole = spec != NULL;
  for (Py_ssize_t k = 0; k < 4; k++) {
    whole = whole && fields[k];
    if (spec)
      PyStructSequence_SetItem(spec, k, fields[k]);
    else
      Py_XDECREF(fields[k]);
  }
  if (!whole)
    Py_CLEAR(spec);
  return spec;
}

static PyObject *text_or_none(const char *text) {
  return text && text[0] ? PyUnicode_FromString(text) : Py_NewRef(Py_None);
}

static PyObject *dtype_name(dt_dtype_t dtype) {
  return dtype ? PyUnicode_FromString(dt_dtype_name(dtype)) : Py_NewRef(Py_None);
}

// Dim `dim` of input `index`: its size or name, else a text that names the place.
static PyObject *input_dim(const dt_function_t *function, uint32_t index, uint32_t dim,
                           PyObject *label) {
  const dt_dim_decl_t *decl = dt_function_input_dim(function, index, dim);
  if (decl && decl->is_static)
    return PyLong_FromLongLong(decl->value);
  if (decl && decl->name && decl->name[0])
    return PyUnicode_FromString(decl->name);
  return PyUnicode_FromFormat("%U.size(%u)", label, dim);
}

static PyObject *input_spec(dt_py_function_t *self, uint32_t index) {
  static const char *const kinds[] = {"tensor", "integer", "boolean", "integers", "donated"};
  const dt_input_decl_t *decl = dt_function_input(self->function, index);
  PyObject *name = PyTuple_GetItem(self->names, index);
  PyObject *dims = PyTuple_New(decl->rank);
  for (uint32_t k = 0; dims && k < decl->rank; k++) {
    PyObject *dim = input_dim(self->function, index, k, name);
    if (!dim || PyTuple_SetItem(dims, k, dim) < 0)
      Py_CLEAR(dims);
  }
  return make(Py_NewRef(name), dtype_name(decl->dtype), dims, kinds[decl->kind]);
}

PyObject *dt__py_specs(PyObject *object, void *unused) {
  (void)unused;
  dt_py_function_t *self = (dt_py_function_t *)object;
  PyObject *tuple = PyTuple_New(self->n_inputs);
  for (uint32_t k = 0; tuple && k < self->n_inputs; k++) {
    PyObject *spec = input_spec(self, k);
    if (!spec || PyTuple_SetItem(tuple, k, spec) < 0)
      Py_CLEAR(tuple);
  }
  return tuple;
}

static PyObject *result_spec(const dt_spec_t *spec) {
  PyObject *dims = spec->ranked ? PyTuple_New(spec->rank) : Py_NewRef(Py_None);
  for (uint32_t k = 0; dims && spec->ranked && k < spec->rank; k++) {
    PyObject *dim = spec->sizes[k] >= 0 ? PyLong_FromLongLong(spec->sizes[k])
                                        : PyUnicode_FromString(spec->dims[k]);
    if (!dim || PyTuple_SetItem(dims, k, dim) < 0)
      Py_CLEAR(dims);
  }
  return make(text_or_none(spec->name), dtype_name(spec->dtype), dims, "tensor");
}

PyObject *dt__py_results(PyObject *object, void *unused) {
  (void)unused;
  dt_py_function_t *self = (dt_py_function_t *)object;
  dt_specs_t *specs = NULL;
  dt_status_t status;
  Py_BEGIN_ALLOW_THREADS;
  status = dt_function_outputs(self->function, &specs);
  Py_END_ALLOW_THREADS;
  if (!dt__py_traced_ok(status))
    return NULL;
  PyObject *tuple = PyTuple_New(specs->n);
  for (uint32_t k = 0; tuple && k < specs->n; k++) {
    PyObject *spec = result_spec(specs->items[k]);
    if (!spec || PyTuple_SetItem(tuple, k, spec) < 0)
      Py_CLEAR(tuple);
  }
  dt_specs_free(specs);
  return tuple;
}

int dt__py_add_specs(PyObject *module) {
  static PyStructSequence_Field fields[] = {
      {"name", "Its name, or None."},
      {"dtype", "Such as \"f32\"; None where it is not known."},
      {"dims", "A number each, or a text over the names of dims; \"?\": the data decide."},
      {"kind", "\"tensor\", \"integer\", \"boolean\", \"integers\" or \"donated\"."},
      {NULL, NULL},
  };
  static PyStructSequence_Desc spec = {"ductile.Spec", "What is known of an input or a result.",
                                       fields, 4};
  spec_type = PyStructSequence_NewType(&spec);
  return spec_type ? PyModule_AddObjectRef(module, "Spec", (PyObject *)spec_type) : -1;
}
