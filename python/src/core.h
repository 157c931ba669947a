// SPDX-License-Identifier: Apache-2.0
// The Python extension: what its files share. Every object of the library has a Python object over
// it; the interpreter's lock is held outside of the library, and let go wherever a call of the
// library may compute, trace, compile or wait.
#ifndef DUCTILE_PYTHON_CORE_H
#define DUCTILE_PYTHON_CORE_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#define DT_NO_SOURCE_LINES // programs note the lines of their Python code
#include <Python.h>

#include "ductile/ductile.h"
#include "ductile/onnx.h"
#include "ductile/package.h"

// ---- Objects ------------------------------------------------------------------------------------

typedef struct dt_py_runtime_t {
  PyObject_HEAD dt_runtime_t *runtime;
  uint64_t id; // never that of another one: sessions of threads are found by it
} dt_py_runtime_t;

typedef struct dt_py_session_t {
  PyObject_HEAD dt_session_t *session; // NULL once closed
  PyObject *runtime;
  uint32_t calls; // that are in it
  dt_device_t device;
} dt_py_session_t;

typedef struct dt_py_tensor_t {
  PyObject_HEAD dt_tensor_t *tensor;
  PyObject *session; // whose queued work makes the elements; NULL: nobody's
  bool read_only;
} dt_py_tensor_t;

typedef struct dt_py_function_t {
  PyObject_HEAD dt_function_t *function;
  PyObject *runtime;
  PyObject *program;   // the traced callable; NULL of a model's or a package's
  PyObject *constants; // of a program: {id of an array: (name, array, Tensor)}
  PyObject *names;     // a tuple of inputs' names
  PyObject *labels;    // the same as messages name them
  uint32_t n_inputs, n_outputs;
} dt_py_function_t;

typedef struct dt_py_cancel_t {
  PyObject_HEAD dt_cancel_t flag;
} dt_py_cancel_t;

// A trace that is under way on this thread.
typedef struct dt_py_trace_t {
  dt_trace_t *trace;
  dt_py_function_t *function;
  struct dt_py_trace_t *outer; // the one that this one was begun in
  PyObject *subgraphs;         // closures of subgraphs by what they are of, until the trace ends
} dt_py_trace_t;

// The types, made when the module is imported.
typedef struct dt_py_types_t {
  PyTypeObject *runtime, *session, *tensor, *function, *cancel, *package, *profile, *value, *size;
} dt_py_types_t;
extern dt_py_types_t dt__py_types;

// A new object of a type, zeroed; NULL with an exception.
void *dt__py_new(PyTypeObject *type);
// Frees an object whose fields have been given back.
void dt__py_free(PyObject *self);
// Makes a type and adds it to the module under its name; false with an exception.
bool dt__py_add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **out);

// Each adds its types or functions to the module; -1 with an exception.
int dt__py_add_errors(PyObject *module);
int dt__py_add_tensor(PyObject *module);
int dt__py_add_runtime(PyObject *module);
int dt__py_add_session(PyObject *module);
int dt__py_add_function(PyObject *module);
int dt__py_add_package(PyObject *module);
int dt__py_add_profile(PyObject *module);
int dt__py_add_trace(PyObject *module);
int dt__py_add_control(PyObject *module);
int dt__py_add_size(PyObject *module);
int dt__py_add_builders(PyObject *module);

// ---- Failures -----------------------------------------------------------------------------------

// Raises a failure of the library as the exception of its code, and frees it: false. NULL: true.
bool dt__py_ok(dt_status_t status);
// A status that tells of an exception, for callers in other threads.
dt_status_t dt__py_status(PyObject *type, PyObject *error);
// Raises the exception of `code`; a false for convenience.
bool dt__py_raise(dt_code_t code, const char *format, ...);

// ---- Options ------------------------------------------------------------------------------------

typedef enum dt_py_option_kind_t {
  DT_PY_U32,
  DT_PY_U64,
  DT_PY_I64,
  DT_PY_BOOL,
  DT_PY_TEXT,     // borrowed from the str
  DT_PY_CHOICE,   // an enum of 32 bits: its names in order
  DT_PY_CHOICE64, // the same of 64 bits
  DT_PY_DTYPE,
  DT_PY_TIMEOUT, // seconds from now: a deadline
  DT_PY_CANCEL,  // a Cancel, or None
} dt_py_option_kind_t;

// A keyword and the field that it sets.
typedef struct dt_py_option_t {
  const char *name;
  dt_py_option_kind_t kind;
  size_t offset;
  const char *choices; // separated by spaces
} dt_py_option_t;

// Rows, and the struct that they are of.
typedef struct dt_py_options_t {
  const dt_py_option_t *rows;
  void *target;
} dt_py_options_t;

#define DT_PY_END {NULL, DT_PY_U32, 0, NULL}

extern const dt_py_option_t dt__py_function_options[], dt__py_dim_options[],
    dt__py_prepare_options[], dt__py_call_options[];

// Sets fields by a dict, which may be NULL, in whichever of `n` structs has the keyword. Keywords
// that none has are TypeError, which names `what`.
bool dt__py_options(PyObject *keywords, const dt_py_options_t *groups, size_t n, const char *what);
// One value into a field.
bool dt__py_option(PyObject *value, const dt_py_option_t *row, void *target);
// A dim's declaration: None, a number, a name, or an object with `fields`. Its texts are those of
// objects in the list `kept`, and of `object`.
bool dt__py_dim(PyObject *object, PyObject *kept, dt_dim_decl_t *out);

// "f32" and such, or an object whose name is one of numpy's; DT_DTYPE_NONE with an exception.
dt_dtype_t dt__py_dtype(PyObject *object);

// ---- Tensors ------------------------------------------------------------------------------------

// Memory of an array that a call reads or writes, for as long as that runs.
typedef struct dt_py_borrowed_t {
  dt_tensor_t *tensor;
  Py_buffer view; // view.obj is NULL where there is none
  int64_t number; // the element, where the argument is a Python number
} dt_py_borrowed_t;

// A tensor over what `object` has: a Tensor, a buffer, DLPack, or a number, if `dtype` is not
// DT_DTYPE_NONE. `what` names it in messages; `stream`: the stream of the session that reads it.
bool dt__py_borrow(PyObject *object, dt_dtype_t dtype, bool writable, const char *what,
                   void *stream, dt_py_borrowed_t *out);
void dt__py_give_back(dt_py_borrowed_t *borrowed, size_t n);
// A Tensor that keeps what it is over; NULL with an exception.
PyObject *dt__py_keep(PyObject *object, const char *what);
// A Tensor of a reference, which it takes, also on failure.
PyObject *dt__py_tensor(dt_tensor_t *tensor, PyObject *session);
// The same of elements that DLPack gave, which may be read-only.
PyObject *dt__py_tensor_taken(dt_tensor_t *tensor);
// The same as an array of numpy, where that has the dtype and the memory is the host's; else
// itself.
PyObject *dt__py_array(PyObject *tensor);
// DLPack (dlpack.c).
dt_tensor_t *dt__py_from_dlpack(PyObject *object, const char *what, void *stream);
PyObject *dt__py_to_dlpack(PyObject *self, PyObject *args, PyObject *keywords);
PyObject *dt__py_dlpack_device(PyObject *self, PyObject *unused);

// ---- Runtimes and sessions ------------------------------------------------------------------------

// `object`, or the process's own runtime where it is NULL or None; borrowed.
dt_py_runtime_t *dt__py_runtime(PyObject *object);
// The session of a call: the innermost of this thread's `with` of that runtime, else the thread's
// own. *out_object is the Session, borrowed, or NULL.
dt_session_t *dt__py_current(PyObject *runtime, dt_py_session_t **out_object);
// Ends the sessions of all threads that are of a runtime.
void dt__py_forget(uint64_t runtime);

// ---- Functions ------------------------------------------------------------------------------------

// A Function over a reference, which it takes, also on failure.
PyObject *dt__py_function(dt_function_t *function, PyObject *runtime);
// Tuples that describe inputs, and results (specs.c).
PyObject *dt__py_specs(PyObject *self, void *unused);
PyObject *dt__py_results(PyObject *self, void *unused);
// The arguments of a call in order; a new tuple, NULL with an exception (call.c).
PyObject *dt__py_arguments(dt_py_function_t *self, PyObject *args, PyObject *keywords);
// The same of inputs as a sequence in order, or as a mapping by name.
PyObject *dt__py_inputs(dt_py_function_t *self, PyObject *inputs);
PyObject *dt__py_call(PyObject *self, PyObject *args, PyObject *keywords);
PyObject *dt__py_run(PyObject *self, PyObject *args, PyObject *keywords);
PyObject *dt__py_output_sizes(PyObject *self, PyObject *args, PyObject *keywords);
PyObject *dt__py_tune(PyObject *self, PyObject *args, PyObject *keywords); // (tune.c)
PyObject *dt__py_explain(PyObject *self, PyObject *args, PyObject *keywords);
PyObject *dt__py_report(PyObject *self, PyObject *args, PyObject *keywords);
// What a text of JSON says, or a list of what each of its lines says; frees the text, which may be
// NULL.
PyObject *dt__py_json(char *text, bool lines);
// A text of the library's as a str; frees it, which may be NULL. What is no UTF-8 is replaced.
PyObject *dt__py_text(char *text);
int dt__py_add_specs(PyObject *module);

// ---- Traces ---------------------------------------------------------------------------------------

// What the library calls to trace a function; the closure is the Function.
dt_status_t dt__py_program(dt_trace_t *trace, const dt_value_t *in, dt_value_t *out, void *closure);
// Runs a Python function as a program or a body; what it raises is kept.
dt_status_t dt__py_body(PyObject *program, dt_trace_t *trace, uint32_t n_in, const dt_value_t *in,
                        uint32_t n_out, dt_value_t *out);
// True where `status` is NULL. Else raises it, or what a program of this thread raised instead.
bool dt__py_traced_ok(dt_status_t status);
// The trace of this thread, with the caller's line noted; NULL with an exception, which names
// `what` was asked for.
dt_trace_t *dt__py_trace(const char *what);
// What is known of the trace of this thread; NULL: there is none.
dt_py_trace_t *dt__py_tracing(void);
// Whether the trace has not failed; else its failure is raised.
bool dt__py_trace_ok(dt_trace_t *trace);
PyObject *dt__py_value(dt_trace_t *trace, dt_value_t value);
// Of an object that is a value; of a number, a Size or an array with the dtype of another operand.
bool dt__py_as_value(dt_trace_t *trace, PyObject *object, dt_dtype_t dtype, dt_value_t *out);
PyObject *dt__py_size(dt_trace_t *trace, dt_sym_t size);
bool dt__py_as_size(dt_trace_t *trace, PyObject *object, dt_sym_t *out);
// A builder of the module `ops`, by its name; borrowed.
PyObject *dt__py_builder(const char *name);

#endif // DUCTILE_PYTHON_CORE_H
