// SPDX-License-Identifier: Apache-2.0
// Code of the fake driver: PTX text, read as the simulator reads it, "cubins" that are that text
// behind a magic word, launches that are checked as a device would and handed to the host function
// registered for the kernel's name, or to the simulator.
#include "test/fake_cuda/fake_private.h"
#include "test/fake_cuda/ptx_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CUDA_SYM(name, symbol, params) FAKE_API dt_cu_result_t symbol params;
#include "backend_cuda/driver/driver_syms.def"

#define MAX_MODULES 256
#define MAX_FUNCTIONS 4096
#define MAX_KERNELS 256
#define MAX_ACCESSES 256
#define MAGIC "FAKECUBIN\n"

static struct CUfunc_st {
  bool live;
  uint32_t module;
  const ptx_function_t *entry; // the module's
  int max_shared;
} functions[MAX_FUNCTIONS];

static struct CUmod_st {
  bool live;
  uint64_t id;
  ptx_module_t *ptx;
} modules[MAX_MODULES];
static uint64_t n_loaded;
static char ptx_error[512];

static struct CUlinkState_st {
  bool live;
  char *text;
  size_t bytes;
  uint32_t n; // options, which stay the caller's
  int *options;
  void **values;
} links[MAX_MODULES];

static struct {
  char name[128];
  fake_kernel_t kernel;
} kernels[MAX_KERNELS];
static uint32_t n_kernels;
static fake_kernel_t any_kernel;
static bool any_is_set;

void fake_code_reset(void) {
  for (uint32_t k = 0; k < MAX_MODULES; k++)
    free(links[k].text), ptx_module_destroy(modules[k].ptx);
  memset(functions, 0, sizeof(functions));
  memset(modules, 0, sizeof(modules));
  memset(links, 0, sizeof(links));
  memset(kernels, 0, sizeof(kernels));
  memset(&any_kernel, 0, sizeof(any_kernel));
  n_kernels = 0;
  any_is_set = false;
  ptx_error[0] = 0;
}

uint32_t fake_code_held(void) {
  uint32_t held = 0;
  for (uint32_t k = 0; k < MAX_MODULES; k++)
    held += (uint32_t)modules[k].live + (uint32_t)links[k].live;
  return held;
}

void fake_cuda_kernel(const char *name, const fake_kernel_t *kernel) {
  if (!name) {
    any_kernel = *kernel;
    any_is_set = true;
  } else if (n_kernels < MAX_KERNELS) {
    (void)snprintf(kernels[n_kernels].name, sizeof(kernels[0].name), "%s", name);
    kernels[n_kernels++].kernel = *kernel;
  }
}

const fake_kernel_t *fake_find_kernel(const char *name) {
  for (uint32_t k = n_kernels; k-- > 0;)
    if (strcmp(kernels[k].name, name) == 0)
      return &kernels[k].kernel;
  return any_is_set ? &any_kernel : NULL;
}

// ---- PTX ------------------------------------------------------------------------------------------

const char *fake_ptx_error(void) { return ptx_error; }

// NULL: refused, and `ptx_error` says why.
static ptx_module_t *read_ptx(const char *text) {
  ptx_module_t *ptx = ptx_module_create(text);
  (void)snprintf(ptx_error, sizeof(ptx_error), "%s", ptx ? ptx->error : "no memory");
  bool complete = strstr(text, ".version") && strstr(text, ".target");
  if (!ptx_error[0] && !complete)
    (void)snprintf(ptx_error, sizeof(ptx_error), "no .version or no .target");
  if (!ptx_error[0])
    return ptx;
  ptx_module_destroy(ptx);
  return NULL;
}

static bool add_functions(uint32_t module, const ptx_module_t *ptx) {
  uint32_t next = 0;
  for (uint32_t f = 0; f < ptx->n_functions; f++) {
    if (!ptx->functions[f].entry)
      continue;
    while (next < MAX_FUNCTIONS && functions[next].live)
      next++;
    if (next == MAX_FUNCTIONS)
      return false;
    functions[next] = (struct CUfunc_st){
        .live = true, .module = module, .entry = &ptx->functions[f], .max_shared = 49152};
  }
  return true;
}

static void drop_functions(uint32_t module) {
  for (uint32_t k = 0; k < MAX_FUNCTIONS; k++)
    if (functions[k].live && functions[k].module == module)
      functions[k].live = false;
}

// The log that a caller has given for errors: its text and the size that was given for it, which
// becomes the size of what was written.
static void write_log(uint32_t n, const int *options, void **values) {
  char *log = NULL;
  size_t room = 0;
  for (uint32_t k = 0; k < n; k++) {
    if (options[k] == DT_CU_JIT_ERROR_LOG)
      log = values[k];
    if (options[k] == DT_CU_JIT_ERROR_LOG_BYTES)
      room = (size_t)(uintptr_t)values[k];
  }
  if (log && room)
    (void)snprintf(log, room, "ptxas fatal: %s", ptx_error);
}

// ---- Linking and loading ----------------------------------------------------------------------------

static bool is_link(dt_cu_link_t link) {
  return link >= links && link < links + MAX_MODULES && link->live;
}

dt_cu_result_t cuLinkCreate_v2(uint32_t n, int *options, void **values, dt_cu_link_t *out) {
  FAKE_ENTER(link_create, FAKE_IN_CONTEXT);
  for (uint32_t k = 0; k < MAX_MODULES; k++) {
    if (links[k].live)
      continue;
    links[k] = (struct CUlinkState_st){.live = true, .n = n, .options = options, .values = values};
    *out = &links[k];
    return fake_leave(DT_CU_SUCCESS);
  }
  return fake_leave(DT_CU_OUT_OF_MEMORY);
}

dt_cu_result_t cuLinkAddData_v2(dt_cu_link_t link, int type, void *data, size_t bytes,
                                const char *name, uint32_t n, int *options, void **values) {
  FAKE_ENTER(link_add, FAKE_IN_CONTEXT);
  (void)name;
  if (!is_link(link) || type != DT_CU_JIT_PTX || bytes == 0)
    return fake_leave(DT_CU_INVALID_VALUE);
  const char *text = data; // NUL-terminated by contract, which the driver counts in `bytes`
  ptx_module_t *ptx = text[bytes - 1] == 0 ? read_ptx(text) : NULL;
  if (!ptx) {
    write_log(n, options, values);
    write_log(link->n, link->options, link->values);
    return fake_leave(DT_CU_INVALID_PTX);
  }
  ptx_module_destroy(ptx);
  fake_keep(text);
  char *grown = realloc(link->text, link->bytes + bytes + sizeof(MAGIC));
  if (!grown)
    return fake_leave(DT_CU_OUT_OF_MEMORY);
  if (link->bytes == 0) {
    memcpy(grown, MAGIC, sizeof(MAGIC) - 1);
    link->bytes = sizeof(MAGIC) - 1;
  }
  memcpy(grown + link->bytes, text, bytes);
  link->bytes += bytes - 1;
  link->text = grown;
  return fake_leave(DT_CU_SUCCESS);
}

dt_cu_result_t cuLinkComplete(dt_cu_link_t link, void **out, size_t *out_bytes) {
  FAKE_ENTER(link_complete, FAKE_IN_CONTEXT);
  if (!is_link(link) || !link->text)
    return fake_leave(DT_CU_INVALID_VALUE);
  *out = link->text; // the link's memory: gone with cuLinkDestroy
  *out_bytes = link->bytes + 1;
  return fake_leave(DT_CU_SUCCESS);
}

dt_cu_result_t cuLinkDestroy(dt_cu_link_t link) {
  FAKE_ENTER(link_destroy, FAKE_IN_CONTEXT);
  if (!is_link(link)) {
    fake_violation("cuLinkDestroy: no such link");
    return fake_leave(DT_CU_INVALID_VALUE);
  }
  free(link->text);
  *link = (struct CUlinkState_st){0};
  return fake_leave(DT_CU_SUCCESS);
}

dt_cu_result_t cuModuleLoadData(dt_cu_module_t *out, const void *image) {
  FAKE_ENTER(module_load, FAKE_IN_CONTEXT);
  const char *text = image;
  bool is_cubin = strncmp(text, MAGIC, sizeof(MAGIC) - 1) == 0;
  if (!is_cubin && !strstr(text, ".version"))
    return fake_leave(200);
  ptx_module_t *ptx = read_ptx(is_cubin ? text + sizeof(MAGIC) - 1 : text);
  if (!ptx && is_cubin) // each part of it was read before
    fake_violation("cuModuleLoadData: what was linked does not go together: %s", ptx_error);
  if (!ptx)
    return fake_leave(DT_CU_INVALID_PTX);
  if (!is_cubin) // else each part of it was kept
    fake_keep(text);
  for (uint32_t k = 0; k < MAX_MODULES; k++) {
    if (modules[k].live)
      continue;
    if (!add_functions(k, ptx)) {
      drop_functions(k);
      break;
    }
    fake_drain(); // loading waits for running kernels
    modules[k].live = true;
    modules[k].id = ++n_loaded;
    modules[k].ptx = ptx;
    *out = &modules[k];
    return fake_leave(DT_CU_SUCCESS);
  }
  ptx_module_destroy(ptx);
  return fake_leave(DT_CU_OUT_OF_MEMORY);
}

dt_cu_result_t cuModuleUnload(dt_cu_module_t module) {
  FAKE_ENTER(module_unload, FAKE_IN_CONTEXT);
  if (module < modules || module >= modules + MAX_MODULES || !module->live) {
    fake_violation("cuModuleUnload: no such module");
    return fake_leave(DT_CU_INVALID_VALUE);
  }
  if (fake_graph_flies(module->id))
    fake_violation("cuModuleUnload: a graph in flight uses the module");
  else if (fake_is_queued(module->ptx, module->id))
    fake_violation("cuModuleUnload: a launch that is queued uses the module");
  fake_drain();
  drop_functions((uint32_t)(module - modules));
  ptx_module_destroy(module->ptx);
  *module = (struct CUmod_st){0};
  return fake_leave(DT_CU_SUCCESS);
}

dt_cu_result_t cuModuleGetFunction(dt_cu_function_t *out, dt_cu_module_t module, const char *name) {
  FAKE_ENTER(module_function, FAKE_IN_CONTEXT);
  if (module < modules || module >= modules + MAX_MODULES || !module->live)
    return fake_leave(DT_CU_INVALID_VALUE);
  for (uint32_t k = 0; k < MAX_FUNCTIONS; k++) {
    if (functions[k].live && functions[k].module == (uint32_t)(module - modules) &&
        strcmp(functions[k].entry->name, name) == 0) {
      *out = &functions[k];
      return fake_leave(DT_CU_SUCCESS);
    }
  }
  return fake_leave(DT_CU_NOT_FOUND);
}

// ---- Functions --------------------------------------------------------------------------------------

static bool is_function(dt_cu_function_t function) {
  return function >= functions && function < functions + MAX_FUNCTIONS && function->live;
}

// Of the entry, and of all functions that it may call.
static int local_bytes(const ptx_module_t *ptx, const ptx_function_t *entry) {
  uint32_t bytes = 0;
  for (uint32_t k = 0; k < ptx->n_functions; k++)
    if (&ptx->functions[k] == entry || !ptx->functions[k].entry)
      bytes += ptx->functions[k].local_end - ptx->functions[k].local_begin;
  return (int)bytes;
}

dt_cu_result_t cuFuncGetAttribute(int *out, int attribute, dt_cu_function_t function) {
  FAKE_ENTER(function_attribute, FAKE_IN_CONTEXT);
  if (!is_function(function))
    return fake_leave(400);
  const ptx_function_t *entry = function->entry;
  const ptx_module_t *ptx = modules[function->module].ptx;
  uint32_t registers = 16 + entry->registers / 4; // what is live at a time is some part
  *out = attribute == DT_CU_FUNC_REGISTERS            ? (int)(registers < 255 ? registers : 255)
         : attribute == DT_CU_FUNC_SHARED_BYTES       ? (int)entry->shared_bytes
         : attribute == DT_CU_FUNC_LOCAL_BYTES        ? local_bytes(ptx, entry)
         : attribute == DT_CU_FUNC_MAX_DYNAMIC_SHARED ? function->max_shared
                                                      : 0;
  return fake_leave(DT_CU_SUCCESS);
}

dt_cu_result_t cuFuncSetAttribute(dt_cu_function_t function, int attribute, int value) {
  FAKE_ENTER(function_set, FAKE_IN_CONTEXT);
  if (!is_function(function) || attribute != DT_CU_FUNC_MAX_DYNAMIC_SHARED || value < 0 ||
      value > fake_attribute(DT_CU_ATTR_SHARED_PER_BLOCK) - (int)function->entry->shared_bytes)
    return fake_leave(DT_CU_INVALID_VALUE);
  function->max_shared = value;
  return fake_leave(DT_CU_SUCCESS);
}

dt_cu_result_t cuOccupancyMaxActiveBlocksPerMultiprocessor(int *out, dt_cu_function_t function,
                                                           int threads, size_t shared) {
  FAKE_ENTER(occupancy, FAKE_IN_CONTEXT);
  if (!is_function(function) || threads <= 0)
    return fake_leave(DT_CU_INVALID_VALUE);
  shared += function->entry->shared_bytes;
  size_t by_shared = shared ? 233472 / (shared + 1024) : 32;
  size_t by_threads = 2048 / (size_t)threads;
  *out = (int)(by_shared < by_threads ? by_shared : by_threads);
  return fake_leave(DT_CU_SUCCESS);
}

// ---- Launches ---------------------------------------------------------------------------------------

static void run_kernel(fake_work_t *work) {
  if (work->kernel->run)
    work->kernel->run(&work->launch, work->kernel->user);
}

static bool fits_declaration(const uint32_t block[3], const ptx_function_t *entry) {
  const uint32_t *most = entry->max_threads, *required = entry->required;
  uint64_t threads = (uint64_t)block[0] * block[1] * block[2];
  if (required[0] &&
      (block[0] != required[0] || block[1] != required[1] || block[2] != required[2]))
    return false;
  return !most[0] || threads <= (uint64_t)most[0] * most[1] * most[2];
}

// The grid is whole clusters. Those along x alone are simulated, of blocks of whole warps.
static bool fits_cluster(const uint32_t grid[3], uint64_t threads, const ptx_function_t *entry) {
  uint32_t n = entry->cluster[0];
  if (n == 0)
    return true;
  return grid[0] % n == 0 && entry->cluster[1] == 1 && entry->cluster[2] == 1 && n <= PTX_BLOCKS &&
         (n == 1 || (threads % PTX_LANES == 0 && threads / PTX_LANES * n <= PTX_WARPS));
}

static bool fits(const dt_cu_launch_config_t *config, const struct CUfunc_st *function) {
  uint64_t threads = (uint64_t)config->block[0] * config->block[1] * config->block[2];
  uint64_t shared = (uint64_t)config->shared_bytes + function->entry->shared_bytes;
  return threads > 0 && threads <= 1024 && config->block[2] <= 64 && config->grid[0] > 0 &&
         config->grid[1] > 0 && config->grid[2] > 0 && config->grid[0] <= 0x7fffffff &&
         config->grid[1] <= 65535 && config->grid[2] <= 65535 &&
         fits_cluster(config->grid, threads, function->entry) &&
         config->shared_bytes <= (uint32_t)function->max_shared &&
         shared <= (uint64_t)fake_attribute(DT_CU_ATTR_SHARED_PER_BLOCK) &&
         fits_declaration(config->block, function->entry);
}

// The parameters one behind the other, each at its offset; NULL: no memory.
static unsigned char *gather_params(const ptx_function_t *entry, void **params) {
  unsigned char *all = calloc(1, (size_t)entry->param_bytes + 1);
  for (uint32_t k = 0; all && k < entry->n_params; k++)
    memcpy(all + entry->params[k].offset, params[k], entry->params[k].bytes);
  return all;
}

// Whether no path from instruction `k` of the entry to its end, or to where it sets a condition,
// goes around a wait. `seen`: where paths have been, from the entry's first on.
static bool path_waits(const ptx_module_t *ptx, const ptx_function_t *entry, uint32_t k,
                       bool *seen) {
  for (; k >= entry->begin && k < entry->end; k++) {
    const ptx_insn_t *in = &ptx->code[k];
    if (seen[k - entry->begin] || (in->exec == ptx_exec_grid_wait && in->guard < 0))
      return true;
    seen[k - entry->begin] = true;
    if (in->exec == ptx_exec_branch && !path_waits(ptx, entry, in->target, seen))
      return false;
    if (in->exec == ptx_exec_branch && in->guard < 0)
      return true;
    if (in->exec != ptx_exec_branch && (in->flow == PTX_JUMP || in->exec == ptx_exec_set_condition))
      return false;
  }
  return false;
}

static bool waits_always(const ptx_module_t *ptx, const ptx_function_t *entry) {
  bool *seen = calloc((size_t)(entry->end - entry->begin) + 1, sizeof(*seen));
  if (!seen)
    abort();
  bool waits = path_waits(ptx, entry, entry->begin, seen);
  free(seen);
  return waits;
}

bool fake_code_lives(uint64_t module) {
  for (uint32_t k = 0; k < MAX_MODULES; k++)
    if (modules[k].live && modules[k].id == module)
      return true;
  return false;
}

dt_cu_result_t fake_code_read(const dt_cu_launch_config_t *config, dt_cu_function_t function,
                              void **params, fake_code_t *out) {
  if (!is_function(function))
    return 400;
  const ptx_function_t *entry = function->entry;
  if (!fits(config, function)) {
    fake_violation("%s: a launch that no device takes", entry->name);
    return DT_CU_INVALID_VALUE;
  }
  if (entry->n_params && !params)
    return DT_CU_INVALID_VALUE;
  unsigned char *all = gather_params(entry, params);
  if (!all)
    return DT_CU_OUT_OF_MEMORY;
  const struct CUmod_st *module = &modules[function->module];
  *out = (fake_code_t){.ptx = module->ptx,
                       .entry = entry,
                       .module = module->id,
                       .waits = waits_always(module->ptx, entry),
                       .launch = {.name = entry->name,
                                  .shared_bytes = config->shared_bytes,
                                  .param = all,
                                  .param_bytes = entry->param_bytes}};
  memcpy(out->launch.grid, config->grid, sizeof(out->launch.grid));
  memcpy(out->launch.block, config->block, sizeof(out->launch.block));
  return DT_CU_SUCCESS;
}

static fake_work_t *queue_launch(dt_cu_stream_t stream, const fake_code_t *code) {
  const fake_launch_t *launch = &code->launch;
  const fake_kernel_t *kernel = fake_find_kernel(launch->name);
  fake_access_t accesses[MAX_ACCESSES];
  uint32_t n = kernel && kernel->accesses
                   ? kernel->accesses(launch, accesses, MAX_ACCESSES, kernel->user)
                   : 0;
  if (n > MAX_ACCESSES)
    n = MAX_ACCESSES;
  fake_work_t *work = fake_queue(stream, accesses, n, launch->param_bytes, launch->name);
  if (!work)
    return NULL;
  work->run = run_kernel;
  work->kernel = kernel;
  work->module = code->ptx;
  work->entry = code->entry;
  work->launch = *launch;
  if (launch->param_bytes)
    memcpy(work->param, launch->param, launch->param_bytes);
  work->launch.param = work->param;
  fake_last_waits(stream, work, code->waits);
  if (!kernel)
    fake_defer(work, fake_ptx_run);
  return work;
}

dt_cu_result_t cuLaunchKernelEx(const dt_cu_launch_config_t *config, dt_cu_function_t function,
                                void **params, void **extra) {
  FAKE_ENTER(launch, FAKE_IN_CONTEXT);
  if (extra || !fake_is_stream(config->stream))
    return fake_leave(400);
  fake_code_t code;
  dt_cu_result_t result = fake_code_read(config, function, params, &code);
  if (result)
    return fake_leave(result);
  for (uint32_t k = 0; k < config->n_attrs; k++)
    code.launch.programmatic |=
        config->attrs[k].id == DT_CU_LAUNCH_PROGRAMMATIC && config->attrs[k].value.programmatic;
  if (code.launch.programmatic)
    fake_may_be_early(config->stream, code.launch.name);
  const fake_work_t *work = queue_launch(config->stream, &code);
  free((void *)(uintptr_t)code.launch.param);
  return fake_leave(work ? DT_CU_SUCCESS : DT_CU_OUT_OF_MEMORY);
}
