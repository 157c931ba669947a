// SPDX-License-Identifier: Apache-2.0
// Code of the fake driver: PTX text whose entries are found by their declarations, "cubins" that
// are that text behind a magic word, launches that are checked as a device would and handed to the
// host function registered for the kernel's name.
#include "tests/fake_cuda/fake_private.h"

#include <ctype.h>
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
  char name[128];
  size_t param_bytes; // of its one parameter
  int max_shared;
} functions[MAX_FUNCTIONS];

static struct CUmod_st {
  bool live;
} modules[MAX_MODULES];

static struct CUlinkState_st {
  bool live;
  char *text;
  size_t bytes;
} links[MAX_MODULES];

static struct {
  char name[128];
  fake_kernel_t kernel;
} kernels[MAX_KERNELS];
static uint32_t n_kernels;
static fake_kernel_t any_kernel;

void fake_code_reset(void) {
  for (uint32_t k = 0; k < MAX_MODULES; k++)
    free(links[k].text);
  memset(functions, 0, sizeof(functions));
  memset(modules, 0, sizeof(modules));
  memset(links, 0, sizeof(links));
  memset(kernels, 0, sizeof(kernels));
  memset(&any_kernel, 0, sizeof(any_kernel));
  n_kernels = 0;
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
  } else if (n_kernels < MAX_KERNELS) {
    (void)snprintf(kernels[n_kernels].name, sizeof(kernels[0].name), "%s", name);
    kernels[n_kernels++].kernel = *kernel;
  }
}

static const fake_kernel_t *find_kernel(const char *name) {
  for (uint32_t k = n_kernels; k-- > 0;)
    if (strcmp(kernels[k].name, name) == 0)
      return &kernels[k].kernel;
  return &any_kernel;
}

// ---- PTX ------------------------------------------------------------------------------------------

// Bytes of the parameter declared in [text, end): ".param .align 8 .b8 name[64]" or ".param .u64
// x".
static size_t param_bytes(const char *text, const char *end) {
  size_t bytes = 0;
  for (const char *at = text; at < end; at++) {
    if (strncmp(at, ".param", 6) != 0)
      continue;
    const char *stop = at;
    while (stop < end && *stop != ',' && *stop != ')')
      stop++;
    const char *bracket = memchr(at, '[', (size_t)(stop - at));
    const char *type = at + 6;
    while (type < stop &&
           !(*type == '.' &&
             (type[1] == 'b' || type[1] == 'u' || type[1] == 's' || type[1] == 'f') &&
             isdigit((unsigned char)type[2])))
      type++;
    size_t one = type < stop ? (size_t)strtoul(type + 2, NULL, 10) / 8 : 8;
    bytes += bracket ? (size_t)strtoul(bracket + 1, NULL, 10) * (one ? one : 1) : one;
    at = stop;
  }
  return bytes;
}

static bool add_functions(uint32_t module, const char *text) {
  uint32_t found = 0;
  for (const char *at = text; (at = strstr(at, ".entry ")) != NULL; at++) {
    const char *name = at + 7, *stop = name + strcspn(name, "( \n\t");
    const char *close = strchr(stop, ')');
    struct CUfunc_st *function = NULL;
    for (uint32_t k = 0; k < MAX_FUNCTIONS && !function; k++)
      function = functions[k].live ? NULL : &functions[k];
    if (!close || !function || (size_t)(stop - name) >= sizeof(function->name))
      return false;
    *function = (struct CUfunc_st){.live = true, .module = module, .max_shared = 49152};
    memcpy(function->name, name, (size_t)(stop - name));
    function->param_bytes = param_bytes(stop, close);
    found++;
  }
  return found > 0;
}

static bool is_ptx(const char *text) {
  return strstr(text, ".version") && strstr(text, ".target") && strstr(text, ".entry ");
}

// ---- Linking and loading ----------------------------------------------------------------------------

static bool is_link(dt_cu_link_t link) {
  return link >= links && link < links + MAX_MODULES && link->live;
}

dt_cu_result_t cuLinkCreate_v2(uint32_t n, int *options, void **values, dt_cu_link_t *out) {
  FAKE_ENTER(link_create, FAKE_IN_CONTEXT);
  (void)n, (void)options, (void)values;
  for (uint32_t k = 0; k < MAX_MODULES; k++) {
    if (links[k].live)
      continue;
    links[k] = (struct CUlinkState_st){.live = true};
    *out = &links[k];
    return fake_leave(DT_CU_SUCCESS);
  }
  return fake_leave(DT_CU_OUT_OF_MEMORY);
}

dt_cu_result_t cuLinkAddData_v2(dt_cu_link_t link, int type, void *data, size_t bytes,
                                const char *name, uint32_t n, int *options, void **values) {
  FAKE_ENTER(link_add, FAKE_IN_CONTEXT);
  (void)name, (void)n, (void)options, (void)values;
  if (!is_link(link) || type != DT_CU_JIT_PTX || bytes == 0)
    return fake_leave(DT_CU_INVALID_VALUE);
  const char *text = data; // NUL-terminated by contract, which the driver counts in `bytes`
  if (text[bytes - 1] != 0 || !is_ptx(text))
    return fake_leave(DT_CU_INVALID_PTX);
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
  if (strncmp(text, MAGIC, sizeof(MAGIC) - 1) != 0 && !is_ptx(text))
    return fake_leave(200);
  for (uint32_t k = 0; k < MAX_MODULES; k++) {
    if (modules[k].live)
      continue;
    if (!add_functions(k, text))
      return fake_leave(DT_CU_OUT_OF_MEMORY);
    fake_drain(); // loading waits for running kernels
    modules[k].live = true;
    *out = &modules[k];
    return fake_leave(DT_CU_SUCCESS);
  }
  return fake_leave(DT_CU_OUT_OF_MEMORY);
}

dt_cu_result_t cuModuleUnload(dt_cu_module_t module) {
  FAKE_ENTER(module_unload, FAKE_IN_CONTEXT);
  if (module < modules || module >= modules + MAX_MODULES || !module->live) {
    fake_violation("cuModuleUnload: no such module");
    return fake_leave(DT_CU_INVALID_VALUE);
  }
  fake_drain();
  for (uint32_t k = 0; k < MAX_FUNCTIONS; k++)
    if (functions[k].live && functions[k].module == (uint32_t)(module - modules))
      functions[k].live = false;
  module->live = false;
  return fake_leave(DT_CU_SUCCESS);
}

dt_cu_result_t cuModuleGetFunction(dt_cu_function_t *out, dt_cu_module_t module, const char *name) {
  FAKE_ENTER(module_function, FAKE_IN_CONTEXT);
  if (module < modules || module >= modules + MAX_MODULES || !module->live)
    return fake_leave(DT_CU_INVALID_VALUE);
  for (uint32_t k = 0; k < MAX_FUNCTIONS; k++) {
    if (functions[k].live && functions[k].module == (uint32_t)(module - modules) &&
        strcmp(functions[k].name, name) == 0) {
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

dt_cu_result_t cuFuncGetAttribute(int *out, int attribute, dt_cu_function_t function) {
  FAKE_ENTER(function_attribute, FAKE_IN_CONTEXT);
  if (!is_function(function))
    return fake_leave(400);
  *out = attribute == DT_CU_FUNC_REGISTERS            ? 32
         : attribute == DT_CU_FUNC_MAX_DYNAMIC_SHARED ? function->max_shared
                                                      : 0;
  return fake_leave(DT_CU_SUCCESS);
}

dt_cu_result_t cuFuncSetAttribute(dt_cu_function_t function, int attribute, int value) {
  FAKE_ENTER(function_set, FAKE_IN_CONTEXT);
  if (!is_function(function) || attribute != DT_CU_FUNC_MAX_DYNAMIC_SHARED || value < 0 ||
      value > 232448)
    return fake_leave(DT_CU_INVALID_VALUE);
  function->max_shared = value;
  return fake_leave(DT_CU_SUCCESS);
}

dt_cu_result_t cuOccupancyMaxActiveBlocksPerMultiprocessor(int *out, dt_cu_function_t function,
                                                           int threads, size_t shared) {
  FAKE_ENTER(occupancy, FAKE_IN_CONTEXT);
  if (!is_function(function) || threads <= 0)
    return fake_leave(DT_CU_INVALID_VALUE);
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

static bool fits(const dt_cu_launch_config_t *config, const struct CUfunc_st *function) {
  uint64_t threads = (uint64_t)config->block[0] * config->block[1] * config->block[2];
  return threads > 0 && threads <= 1024 && config->block[2] <= 64 && config->grid[0] > 0 &&
         config->grid[1] > 0 && config->grid[2] > 0 && config->grid[0] <= 0x7fffffff &&
         config->grid[1] <= 65535 && config->grid[2] <= 65535 &&
         config->shared_bytes <= (uint32_t)function->max_shared;
}

dt_cu_result_t cuLaunchKernelEx(const dt_cu_launch_config_t *config, dt_cu_function_t function,
                                void **params, void **extra) {
  FAKE_ENTER(launch, FAKE_IN_CONTEXT);
  if (!is_function(function) || extra || !fake_is_stream(config->stream))
    return fake_leave(400);
  if (!fits(config, function)) {
    fake_violation("%s: a launch that no device takes", function->name);
    return fake_leave(DT_CU_INVALID_VALUE);
  }
  fake_launch_t launch = {.name = function->name,
                          .shared_bytes = config->shared_bytes,
                          .param = function->param_bytes ? params[0] : NULL,
                          .param_bytes = function->param_bytes};
  memcpy(launch.grid, config->grid, sizeof(launch.grid));
  memcpy(launch.block, config->block, sizeof(launch.block));
  for (uint32_t k = 0; k < config->n_attrs; k++)
    launch.programmatic |=
        config->attrs[k].id == DT_CU_LAUNCH_PROGRAMMATIC && config->attrs[k].value.programmatic;
  const fake_kernel_t *kernel = find_kernel(function->name);
  fake_access_t accesses[MAX_ACCESSES];
  uint32_t n =
      kernel->accesses ? kernel->accesses(&launch, accesses, MAX_ACCESSES, kernel->user) : 0;
  if (n > MAX_ACCESSES)
    n = MAX_ACCESSES;
  fake_work_t *work = fake_queue(config->stream, accesses, n, launch.param_bytes, launch.name);
  if (!work)
    return fake_leave(DT_CU_OUT_OF_MEMORY);
  work->run = run_kernel;
  work->kernel = kernel;
  work->launch = launch;
  if (launch.param_bytes)
    memcpy(work->param, launch.param, launch.param_bytes);
  work->launch.param = work->param;
  return fake_leave(DT_CU_SUCCESS);
}
