// SPDX-License-Identifier: Apache-2.0
// The type Profile: what the calls of a runtime did between its making and its stop, as dicts, as
// text, and in files.
#include "python/src/core.h"

#include <string.h>

typedef struct dt_py_profile_t {
  PyObject_HEAD dt_profile_t *profile; // NULL once closed
  uint32_t uses;                       // methods that are in it, in any thread
  bool stopped;
} dt_py_profile_t;

static dt_py_profile_t *of(PyObject *self) { return (dt_py_profile_t *)self; }

// ---- Life ---------------------------------------------------------------------------------------

// Profile(runtime=None, *, most_events=0, whole_graphs=False)
static PyObject *create(PyTypeObject *type, PyObject *args, PyObject *keywords) {
  static char *names[] = {"runtime", "most_events", "whole_graphs", NULL};
  static const dt_py_option_t row = {"most_events", DT_PY_U32,
                                     offsetof(dt_profile_options_t, most_events), NULL};
  PyObject *object = Py_None, *most_events = NULL;
  int whole_graphs = 0;
  dt_profile_options_t options = {.struct_size = sizeof(options)};
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "|O$Op:Profile", names, &object, &most_events,
                                   &whole_graphs))
    return NULL;
  dt_py_runtime_t *runtime = dt__py_runtime(object);
  if (!runtime || (most_events && !dt__py_option(most_events, &row, &options)))
    return NULL;
  options.flags = whole_graphs ? DT_PROFILE_WHOLE_GRAPHS : 0;
  dt_py_profile_t *self = dt__py_new(type);
  if (!self)
    return NULL;
  dt_status_t status;
  Py_BEGIN_ALLOW_THREADS;
  status = dt_profile_start(runtime->runtime, &options, &self->profile);
  Py_END_ALLOW_THREADS;
  if (!dt__py_ok(status))
    Py_CLEAR(self);
  return (PyObject *)self;
}

static void destroy(dt_py_profile_t *self) {
  // The functions and variants that it kept may end with it, and they have arrays of Python's.
  dt_profile_t *profile = self->profile;
  self->profile = NULL;
  Py_BEGIN_ALLOW_THREADS;
  dt_profile_free(profile);
  Py_END_ALLOW_THREADS;
}

static void dealloc(PyObject *self) {
  destroy(of(self));
  dt__py_free(self);
}

// The profile, if it is open: counted as used, until the caller counts down.
static dt_profile_t *opened(PyObject *self) {
  if (!of(self)->profile) {
    dt__py_raise(DT_E_STATE, "the profile is closed");
    return NULL;
  }
  of(self)->uses++;
  return of(self)->profile;
}

static PyObject *close_profile(PyObject *self, PyObject *unused) {
  (void)unused;
  if (of(self)->uses > 0) {
    dt__py_raise(DT_E_STATE, "the profile is in use");
    return NULL;
  }
  destroy(of(self));
  Py_RETURN_NONE;
}

static PyObject *stop(PyObject *self, PyObject *unused) {
  (void)unused;
  dt_profile_t *profile = opened(self);
  dt_status_t status;
  if (!profile)
    return NULL;
  Py_BEGIN_ALLOW_THREADS;
  status = dt_profile_stop(profile);
  Py_END_ALLOW_THREADS;
  of(self)->uses--;
  of(self)->stopped |= !status;
  return dt__py_ok(status) ? Py_NewRef(Py_None) : NULL;
}

static PyObject *enter(PyObject *self, PyObject *unused) {
  (void)unused;
  if (of(self)->profile && !of(self)->stopped)
    return Py_NewRef(self);
  dt__py_raise(DT_E_STATE, "the profile %s", of(self)->profile ? "has stopped" : "is closed");
  return NULL;
}

static PyObject *leave(PyObject *self, PyObject *args) {
  (void)args;
  return of(self)->profile ? stop(self, NULL) : Py_NewRef(Py_None);
}

// ---- What it says -------------------------------------------------------------------------------

// ORDER(dt_profile_format_t)
static const dt_py_option_t form_row = {"form", DT_PY_CHOICE, 0, "text json trace html"};

static char *text_of(PyObject *self, dt_profile_format_t form) {
  dt_profile_t *profile = opened(self);
  char *text = NULL;
  dt_status_t status;
  if (!profile)
    return NULL;
  Py_BEGIN_ALLOW_THREADS;
  status = dt_profile_text(profile, form, &text);
  Py_END_ALLOW_THREADS;
  of(self)->uses--;
  return dt__py_ok(status) ? text : NULL;
}

static PyObject *report(PyObject *self, PyObject *unused) {
  (void)unused;
  return dt__py_json(text_of(self, DT_PROFILE_JSON), false);
}

// text(form="text")
static PyObject *text(PyObject *self, PyObject *args, PyObject *keywords) {
  static char *names[] = {"form", NULL};
  PyObject *name = NULL;
  dt_profile_format_t form = DT_PROFILE_TEXT;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "|O:text", names, &name) ||
      (name && !dt__py_option(name, &form_row, &form)))
    return NULL;
  return dt__py_text(text_of(self, form));
}

// write(path, form=None)
static PyObject *write_file(PyObject *self, PyObject *args, PyObject *keywords) {
  static char *names[] = {"path", "form", NULL};
  PyObject *path = NULL, *name = Py_None;
  dt_profile_format_t form;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "O&|O:write", names, PyUnicode_FSConverter,
                                   &path, &name))
    return NULL;
  const char *file = PyBytes_AsString(path);
  form = dt_profile_format_of(file);
  bool known = name == Py_None || dt__py_option(name, &form_row, &form), written = false;
  dt_profile_t *profile = known ? opened(self) : NULL;
  if (profile) {
    dt_status_t status;
    Py_BEGIN_ALLOW_THREADS;
    status = dt_profile_write(profile, form, file);
    Py_END_ALLOW_THREADS;
    of(self)->uses--;
    written = dt__py_ok(status);
  }
  Py_DECREF(path);
  return written ? Py_NewRef(Py_None) : NULL;
}

// ---- The module's part --------------------------------------------------------------------------

#define WITH_KEYWORDS(fn) (PyCFunction)(void (*)(void))(fn), METH_VARARGS | METH_KEYWORDS

static PyMethodDef methods[] = {
    {"stop", stop, METH_NOARGS,
     "stop($self)\n--\n\n"
     "Calls that begin later are not recorded."},
    {"close", close_profile, METH_NOARGS,
     "close($self)\n--\n\n"
     "Stops it, and gives back what it keeps: functions, variants, events."},
    {"report", report, METH_NOARGS,
     "report($self)\n--\n\n"
     "What was recorded so far, as a dict: variants, their parts and kernels; times in "
     "nanoseconds."},
    {"text", WITH_KEYWORDS(text),
     "text($self, form='text')\n--\n\n"
     "The same as text: a table, or 'json', 'trace' (a timeline), 'html' (a page)."},
    {"write", WITH_KEYWORDS(write_file),
     "write($self, path, form=None)\n--\n\n"
     "The same to a file; without a form its name says which: .html, .trace.json, .json, others."},
    {"__enter__", enter, METH_NOARGS, "The profile, which runs already."},
    {"__exit__", leave, METH_VARARGS, "Stops it."},
    {NULL, NULL, 0, NULL},
};

int dt__py_add_profile(PyObject *module) {
  static PyType_Slot slots[] = {
      {Py_tp_new, create},
      {Py_tp_dealloc, dealloc},
      {Py_tp_methods, methods},
      {Py_tp_doc, "What the calls of a runtime spend their time on, from now on until its stop."},
      {0, NULL},
  };
  static PyType_Spec spec = {"ductile.Profile", sizeof(dt_py_profile_t), 0, Py_TPFLAGS_DEFAULT,
                             slots};
  return dt__py_add_type(module, &spec, &dt__py_types.profile) ? 0 : -1;
}
