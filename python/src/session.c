// SPDX-License-Identifier: Apache-2.0
// Sessions: each thread has one of its own for each runtime, on the CPU, and those that it enters
// by `with`. A thread's own end with the thread or with the runtime, whichever is first.
#include "python/src/core.h"

#include <pthread.h>
#include <stdlib.h>

#include "ductile/device.h"

// ---- Sessions of threads ---------------------------------------------------------------------------

// A thread's own session of one runtime.
typedef struct owned_t {
  uint64_t runtime, thread;
  dt_session_t *session;
  struct owned_t *next;
} owned_t;

static owned_t *all;                                     // under `lock`
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // held for a few instructions
static pthread_key_t at_end;                             // ends a thread's sessions with it

static _Thread_local struct {
  uint64_t thread;  // from 1; 0: it has none yet
  uint64_t runtime; // whose session was last asked for
  dt_session_t *session;
  PyObject *entered; // a list of Sessions, the innermost last; NULL: none was entered
} here;

// Takes out and destroys the sessions of a runtime or, where that is 0, of a thread.
static void end(uint64_t runtime, uint64_t thread) {
  owned_t *taken = NULL;
  (void)pthread_mutex_lock(&lock);
  for (owned_t **at = &all; *at;) {
    owned_t *owned = *at;
    if (runtime ? owned->runtime != runtime : owned->thread != thread) {
      at = &owned->next;
      continue;
    }
    *at = owned->next;
    owned->next = taken;
    taken = owned;
  }
  (void)pthread_mutex_unlock(&lock);
  while (taken) {
    owned_t *next = taken->next;
    dt_session_destroy(taken->session);
    free(taken);
    taken = next;
  }
}

void dt__py_forget(uint64_t runtime) { end(runtime, 0); }

static void end_thread(void *thread) { end(0, (uint64_t)(uintptr_t)thread); }
static void before_fork(void) { (void)pthread_mutex_lock(&lock); }
static void after_fork(void) { (void)pthread_mutex_unlock(&lock); }

static uint64_t this_thread(void) {
  static uint64_t last; // under the interpreter's lock
  if (!here.thread) {
    here.thread = ++last;
    (void)pthread_setspecific(at_end, (void *)(uintptr_t)here.thread);
  }
  return here.thread;
}

static dt_session_t *find(uint64_t runtime, uint64_t thread) {
  (void)pthread_mutex_lock(&lock);
  const owned_t *at = all;
  while (at && (at->runtime != runtime || at->thread != thread))
    at = at->next;
  dt_session_t *found = at ? at->session : NULL;
  (void)pthread_mutex_unlock(&lock);
  return found;
}

static dt_session_t *make(dt_py_runtime_t *runtime, uint64_t thread) {
  owned_t *owned = malloc(sizeof(*owned));
  if (!owned) {
    PyErr_NoMemory();
    return NULL;
  }
  *owned = (owned_t){.runtime = runtime->id, .thread = thread};
  dt_status_t status;
  Py_BEGIN_ALLOW_THREADS;
  status = dt_session_create(runtime->runtime, NULL, &owned->session);
  Py_END_ALLOW_THREADS;
  if (!dt__py_ok(status)) {
    free(owned);
    return NULL;
  }
  (void)pthread_mutex_lock(&lock);
  owned->next = all;
  all = owned;
  (void)pthread_mutex_unlock(&lock);
  return owned->session;
}

static dt_session_t *own_of(dt_py_runtime_t *runtime) {
  if (here.runtime == runtime->id)
    return here.session;
  uint64_t thread = this_thread();
  dt_session_t *session = find(runtime->id, thread);
  if (!session)
    session = make(runtime, thread);
  if (session) {
    here.runtime = runtime->id;
    here.session = session;
  }
  return session;
}

// ---- The type Session ------------------------------------------------------------------------------

static dt_py_session_t *of(PyObject *self) { return (dt_py_session_t *)self; }

dt_session_t *dt__py_current(PyObject *runtime, dt_py_session_t **out_object) {
  *out_object = NULL;
  for (Py_ssize_t k = here.entered ? PyList_Size(here.entered) : 0; k-- > 0;) {
    dt_py_session_t *session = of(PyList_GetItem(here.entered, k));
    if (session->runtime != runtime)
      continue;
    *out_object = session;
    if (!session->session)
      dt__py_raise(DT_E_STATE, "the session is closed");
    return session->session;
  }
  return own_of((dt_py_runtime_t *)runtime);
}

static PyObject *create(PyTypeObject *type, PyObject *args, PyObject *keywords) {
  static char *names[] = {"device", "runtime", "stream", "priority", NULL};
  static const dt_py_option_t row = {
      "priority", DT_PY_CHOICE, offsetof(dt_session_options_t, priority), "normal urgent later"};
  const char *device = "cpu";
  PyObject *runtime_object = Py_None, *priority = NULL;
  unsigned long long stream = 0;
  dt_session_options_t options = {.struct_size = sizeof(options)};
  dt_session_t *session = NULL;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "|s$OKO:Session", names, &device,
                                   &runtime_object, &stream, &priority))
    return NULL;
  dt_py_runtime_t *runtime = dt__py_runtime(runtime_object);
  if (!runtime || (priority && !dt__py_option(priority, &row, &options)) ||
      !dt__py_ok(dt_device_parse(device, &options.device, &options.ordinal)))
    return NULL;
  options.stream = (void *)(uintptr_t)stream;
  dt_status_t status;
  Py_BEGIN_ALLOW_THREADS;
  status = dt_session_create(runtime->runtime, &options, &session);
  Py_END_ALLOW_THREADS;
  if (!dt__py_ok(status))
    return NULL;
  dt_py_session_t *self = dt__py_new(type);
  if (!self) {
    dt_session_destroy(session);
    return NULL;
  }
  self->session = session;
  self->runtime = Py_NewRef((PyObject *)runtime);
  self->device = options.device;
  return (PyObject *)self;
}

static void destroy(dt_py_session_t *self) {
  dt_session_t *session = self->session;
  self->session = NULL;
  Py_BEGIN_ALLOW_THREADS;
  // Whoever takes a result of it from now on has nothing to wait for.
  if (session && self->device != DT_CPU)
    dt_status_free(dt_session_wait(session));
  dt_session_destroy(session);
  Py_END_ALLOW_THREADS;
}

static void dealloc(PyObject *self) {
  destroy(of(self));
  Py_XDECREF(of(self)->runtime);
  dt__py_free(self);
}

static PyObject *close_session(PyObject *self, PyObject *unused) {
  (void)unused;
  if (of(self)->calls > 0) {
    dt__py_raise(DT_E_STATE, "the session is in a call");
    return NULL;
  }
  destroy(of(self));
  Py_RETURN_NONE;
}

static PyObject *enter(PyObject *self, PyObject *unused) {
  (void)unused;
  if (!here.entered && !(here.entered = PyList_New(0)))
    return NULL;
  return PyList_Append(here.entered, self) < 0 ? NULL : Py_NewRef(self);
}

static PyObject *leave(PyObject *self, PyObject *args) {
  (void)args;
  Py_ssize_t n = here.entered ? PyList_Size(here.entered) : 0;
  if (n == 0 || PyList_GetItem(here.entered, n - 1) != self) {
    dt__py_raise(DT_E_STATE, "the session is not the one that this thread entered last");
    return NULL;
  }
  if (PyList_SetSlice(here.entered, n - 1, n, NULL) < 0)
    return NULL;
  if (n == 1)
    Py_CLEAR(here.entered);
  Py_RETURN_NONE;
}

// The session, if it is open: counted as in a call, until the caller counts down.
static dt_session_t *opened(PyObject *self) {
  if (!of(self)->session) {
    dt__py_raise(DT_E_STATE, "the session is closed");
    return NULL;
  }
  of(self)->calls++;
  return of(self)->session;
}

// What one function of the library does with the session.
static PyObject *with_session(PyObject *self, dt_status_t (*work)(dt_session_t *session)) {
  dt_session_t *session = opened(self);
  dt_status_t status;
  if (!session)
    return NULL;
  Py_BEGIN_ALLOW_THREADS;
  status = work(session);
  Py_END_ALLOW_THREADS;
  of(self)->calls--;
  return dt__py_ok(status) ? Py_NewRef(Py_None) : NULL;
}

static PyObject *wait_for(PyObject *self, PyObject *unused) {
  (void)unused;
  return with_session(self, dt_session_wait);
}
static PyObject *trim(PyObject *self, PyObject *unused) {
  (void)unused;
  return with_session(self, dt_session_trim);
}
static PyObject *step_begin(PyObject *self, PyObject *unused) {
  (void)unused;
  return with_session(self, dt_step_begin);
}

static PyObject *stats(PyObject *self, PyObject *unused) {
  (void)unused;
  dt_session_t *session = opened(self);
  char *text = NULL;
  if (!session)
    return NULL;
  dt_status_t status;
  Py_BEGIN_ALLOW_THREADS;
  status = dt_session_stats_json(session, &text);
  Py_END_ALLOW_THREADS;
  of(self)->calls--;
  bool told = dt__py_ok(status);
  return told ? dt__py_json(text, false) : NULL;
}

static PyObject *get_stream(PyObject *self, void *unused) {
  (void)unused;
  return PyLong_FromVoidPtr(of(self)->session ? dt_session_stream(of(self)->session) : NULL);
}

static PyMethodDef methods[] = {
    {"close", close_session, METH_NOARGS,
     "close($self)\n--\n\n"
     "Ends the session; results stay."},
    {"wait", wait_for, METH_NOARGS,
     "wait($self)\n--\n\n"
     "Waits for everything queued, and raises a failed check."},
    {"trim", trim, METH_NOARGS,
     "trim($self)\n--\n\n"
     "Frees memory that the session does not need at present."},
    {"step_begin", step_begin, METH_NOARGS,
     "step_begin($self)\n--\n\n"
     "Begins the next generation of graphs."},
    {"stats", stats, METH_NOARGS,
     "stats($self)\n--\n\n"
     "Counts since the session was made."},
    {"__enter__", enter, METH_NOARGS, "Calls of this thread are made in the session."},
    {"__exit__", leave, METH_VARARGS, "Calls are made in the session before again."},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef properties[] = {
    {"stream", get_stream, NULL, "The CUstream as a number; 0 on the CPU.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

int dt__py_add_session(PyObject *module) {
  static PyType_Slot slots[] = {
      {Py_tp_new, create},
      {Py_tp_dealloc, dealloc},
      {Py_tp_methods, methods},
      {Py_tp_getset, properties},
      {Py_tp_doc, "A caller's place: its device, and the memory that its calls work in."},
      {0, NULL},
  };
  static PyType_Spec spec = {"ductile.Session", sizeof(dt_py_session_t), 0, Py_TPFLAGS_DEFAULT,
                             slots};
  if (pthread_key_create(&at_end, end_thread) != 0 ||
      pthread_atfork(before_fork, after_fork, after_fork) != 0) {
    PyErr_NoMemory();
    return -1;
  }
  return dt__py_add_type(module, &spec, &dt__py_types.session) ? 0 : -1;
}
