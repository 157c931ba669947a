// SPDX-License-Identifier: Apache-2.0
// Places: what the runtime needs of a kind of device. All differences between devices at run time
// are behind dt_place_kind_t. The CPU is the first place (place_cpu.c). Other places have folders
// of their own, and no file here names them; a new one is a row in dt__place_kinds.
//
// call.c, and inline functions in call.h, have the steps of a call that all places share. A place
// uses them to plan and run the segments of a variant. It adds where memory comes from and how
// kernels are launched. Places that queue their calls share queued.h (segments, readbacks, failed
// checks) and staged.h (inputs on the host).
#ifndef DT_RUNTIME_EXEC_PLACE_H
#define DT_RUNTIME_EXEC_PLACE_H

#include "ductile/device.h"
#include "ductile/experimental.h"
#include "runtime/base/params.h"
#include "runtime/base/pool.h"
#include "runtime/compile/compile.h"
#include "runtime/exec/budget.h"

struct dt_call_t;
struct dt_variant_t;
struct dt_bindings_t;
struct dt_output_info_t;
struct dt_place_kind_t;

// A device that a runtime has opened. It lives as long as the runtime. A place that needs more has
// this as the first member of its own.
typedef struct dt_place_t {
  const struct dt_place_kind_t *kind;
  dt_device_t number;          // runtime/tensor/tensor.h
  const dt_codegen_t *codegen; // that makes code for it
  void *device;                // as the code generator knows it; NULL on the CPU
} dt_place_t;

// How a place that queues its work times it: by marks in the queue of a session. What was opened
// has its own `n` marks, and outlives the session.
typedef struct dt_place_timer_t {
  void *(*open)(dt_session_t *session, uint32_t n); // NULL: there is no memory
  void (*close)(void *own);                         // nobody marks any more
  // In a call: sets mark `index` behind all that is queued. False: that failed.
  bool (*mark)(void *own, dt_session_t *session, uint32_t index);
  // By any thread: around what follows; false: the device cannot be asked.
  bool (*enter)(void *own);
  void (*leave)(void *own);
  bool (*wait)(void *own, uint32_t index); // until the mark is passed
  // Between two marks that are passed.
  bool (*between)(void *own, uint32_t from, uint32_t to, double *out_ns);
} dt_place_timer_t;

// A function that is NULL has nothing to do at such a place. Sessions are held by who calls.
typedef struct dt_place_kind_t {
  const char *name;   // of a device in messages, before its ordinal
  const char *option; // what dt_device_parse takes for it
  int32_t dlpack;     // its number in DLPack (ductile/dlpack.h); 0: none
  dt_memory_t memory; // that code, constants and sessions take there
  // Calls are queued: they return before their work has ended, and use their session until then.
  // Where they are not, tensors are made and copied while the session is in a call.
  bool queues;
  // Its own tunables, which `begin` reads (runtime/base/params.h).
  const dt_param_row_t *(*params)(size_t *out_n);

  // ---- Devices. What a runtime has for all devices of the kind is runtime->shared[device]: made
  // with the runtime, ended before its devices are closed; also where `begin` failed.
  dt_status_t (*begin)(dt_runtime_t *runtime);
  void (*end)(dt_runtime_t *runtime);
  void (*count_runtime)(dt_runtime_t *runtime, dt_runtime_stats_t *all);
  dt_status_t (*count)(const dt_runtime_t *runtime, int32_t *out); // NULL: 1
  // The runtime's lock of its places is held. NULL: there is one device, which is a plain
  // dt_place_t with the kind's code generator.
  dt_status_t (*open)(dt_runtime_t *runtime, int32_t ordinal, dt_place_t **out);
  void (*close)(dt_place_t *place); // nothing uses it. NULL: it is freed
  // Besides the kind's name. NULL: there is no more to say.
  void (*describe)(const dt_place_t *place, const dt_runtime_t *runtime, dt_device_info_t *out);
  // Of profiles: bytes a second that the device's memory can give, and bytes that are kept nearer.
  // Both 0: not known. NULL: the host's, which are measured.
  void (*rates)(const dt_place_t *place, double *out_bytes_per_s, int64_t *out_near_bytes);
  const dt_place_timer_t *timer; // NULL: calls do not queue, or are not timed

  // ---- Sessions. session->own is the place's: `session_size` bytes, zeroed before session_open and
  // freed after session_close.
  size_t session_size;
  dt_status_t (*session_open)(dt_session_t *session, const dt_session_options_t *options);
  void (*session_close)(dt_session_t *session); // also where session_open failed
  // Bytes of memory that it leases.
  uint64_t (*session_bytes)(const dt_session_t *session);
  // Waits for all that is queued, and gives the failure of a check.
  dt_status_t (*settle)(dt_session_t *session);
  // Gives back what it does not need at present, where that needs no wait.
  void (*give)(dt_session_t *session);
  // The same after a wait; the session's results stay. NULL: there is nothing to wait for.
  dt_status_t (*trim)(dt_session_t *session);
  void (*step)(dt_session_t *session);                // a generation begins (ductile/graphs.h)
  void (*freeze)(dt_session_t *session, bool frozen); // nothing more is assembled or leased
  void *(*stream)(const dt_session_t *session);       // that it queues on
  void (*count_session)(dt_session_t *session, dt_session_counters_t *all); // *all is zeroed

  // ---- Calls.
  // Around everything that a call does there. `enter` gives the failures of calls before and may
  // replace call->inputs, by tensors that stay as they are until the session's next call. `leave`
  // follows where it succeeded.
  dt_status_t (*enter)(struct dt_call_t *call);
  void (*leave)(struct dt_call_t *call);
  // Runs the code of a variant for session->symbols, and fills session->results.
  dt_status_t (*call)(struct dt_call_t *call, struct dt_variant_t *variant,
                      const struct dt_bindings_t *bindings);
  // The same of a call with a recorder, which notes its launches (timing.h). NULL: `call`.
  dt_status_t (*call_recorded)(struct dt_call_t *call, struct dt_variant_t *variant,
                               const struct dt_bindings_t *bindings);
  // Memory for result `index` of a call; NULL: memory as all.
  dt_status_t (*result)(const struct dt_call_t *call, uint32_t index, size_t bytes,
                        dt_storage_t **out);

  // Whether a result may share the storage of an argument that is at the place: it is used, and
  // freed, in the session's order. NULL: any may.
  bool (*may_share)(const dt_session_t *session, const dt_storage_t *storage);

  // ---- Memory and tensors. Everything was checked before: places, dtypes, sizes.
  // Memory of the place, in the order of a session's work; session NULL: it is nobody's work that
  // uses it first. NULL: the heap's.
  dt_status_t (*allocate)(const dt_place_t *place, dt_session_t *session, size_t bytes,
                          dt_storage_t **out);
  // Copies `bytes`, at least one, of which one end is at the place, in the session's order.
  dt_status_t (*copy)(dt_session_t *session, dt_device_t from_place, void *from,
                      dt_device_t to_place, void *to, size_t bytes);
  // Whether `read` may wait; DT_E_UNSUPPORTED says why not.
  dt_status_t (*may_wait)(const dt_session_t *session);
  // NULL, both: the heap's.
  dt_status_t (*host_alloc)(dt_session_t *session, size_t bytes, void **out);
  void (*host_free)(dt_session_t *session, void *ptr);

  // ---- Variants and their constants. The function's mutex held for the first two.
  // Copies a constant to new memory of the place, by threads of the pool where that is sooner done;
  // `uploaded` waits for all copies, before anything uses them, and after a failure, too. Bindings
  // of the same tensors share them. NULL, both: kernels read constants where they are.
  dt_status_t (*upload)(const struct dt_variant_t *variant, dt_pool_t *pool,
                        const dt_tensor_t *tensor, dt_storage_t **out);
  dt_status_t (*uploaded)(const struct dt_variant_t *variant);
  // Computes what depends on constants alone, of which there is some, at the addresses of
  // bindings->once: in memory of the place that is there, or where that is the heap's (allocate is
  // NULL), in memory that this finds or makes (dt__host_once).
  dt_status_t (*once)(const struct dt_variant_t *variant, struct dt_bindings_t *bindings);
  // A variant was compiled for the place: loads what no call should wait for.
  dt_status_t (*adopt)(struct dt_variant_t *variant);
  // A variant left its list, and nobody is inside: takes over its reference. NULL: it is released.
  void (*retire)(struct dt_variant_t *variant);
  // Waits for launches that may not have been done, and unloads the variant's code.
  void (*unload)(struct dt_variant_t *variant);

  // ---- Events. The place's own struct, whose first member is a dt_event_t. NULL: it has no more,
  // and work that is recorded is waited for (settle).
  dt_status_t (*event_create)(dt_session_t *session, dt_event_t **out);
  dt_status_t (*event_record)(dt_session_t *session, dt_event_t *event);
  dt_status_t (*event_wait)(dt_session_t *session, dt_event_t *event); // a session at that place
  dt_status_t (*event_settle)(dt_event_t *event);                      // the host waits
  dt_status_t (*event_query)(dt_event_t *event, bool *out_done);
  void (*event_destroy)(dt_event_t *event);
  // What is queued from now on, by others, on `stream` runs behind all work of the session. NULL:
  // the host waits for that work (settle).
  dt_status_t (*hand_over)(dt_session_t *session, void *stream);
} dt_place_kind_t;

// By dt_device_t; NULL: this program has no such device. The library's stands in an
// object of its own, so that a test may have another.
extern const dt_place_kind_t *const dt__place_kinds[DT_DEVICES];
extern const dt_place_kind_t dt__cpu_place;

struct dt_event_t {
  const dt_place_kind_t *kind;
};

// device.c. The device of that number, opened at the first use; the runtime's. DT_E_ARGUMENT: no
// such kind, or ordinal; DT_E_UNSUPPORTED: no driver, no such device.
dt_status_t dt__runtime_place(dt_runtime_t *runtime, dt_device_t device, int32_t ordinal,
                              dt_place_t **out) DT_MUST_USE;
dt_status_t dt__places_begin(dt_runtime_t *runtime) DT_MUST_USE; // the CPU's among them
void dt__places_end(dt_runtime_t *runtime);
void dt__places_count(dt_runtime_t *runtime, dt_runtime_stats_t *all);
// tensors.c. A new tensor where the session runs, without gaps in the order that `info` has.
dt_status_t dt__place_tensor(dt_session_t *session, const struct dt_output_info_t *info,
                             const int64_t *sizes, dt_tensor_t **out) DT_MUST_USE;
// The same for result `index` of a call.
dt_status_t dt__place_result(const struct dt_call_t *call, uint32_t index,
                             const struct dt_output_info_t *info, const int64_t *sizes,
                             dt_tensor_t **out) DT_MUST_USE;
// Memory of the host for copies of the session.
dt_status_t dt__place_host_alloc(dt_session_t *session, size_t bytes, void **out) DT_MUST_USE;
void dt__place_host_free(dt_session_t *session, void *ptr);

#endif // DT_RUNTIME_EXEC_PLACE_H
