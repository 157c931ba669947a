// SPDX-License-Identifier: Apache-2.0
// The library's two functions, its factory, and the runtimes that sessions share.
#include "onnxruntime/provider.h"

#include <stdlib.h>

DT_API ort_status_t *CreateEpFactories(const char *name, const ort_base_t *base,
                                       const ort_logger_t *logger, ort_ep_factory_t **out,
                                       size_t most, size_t *out_n);
DT_API ort_status_t *ReleaseEpFactory(ort_ep_factory_t *self);

// ---- Runtimes ---------------------------------------------------------------------------------------
static dt_status_t make_runtime(ep_factory_t *factory, uint32_t threads, dt_runtime_t **out) {
  dt_executor_t executor = {
      .struct_size = sizeof(executor), .run = ep_run_parts, .user = &factory->api};
  dt_runtime_options_t options = {
      .struct_size = sizeof(options), .threads = threads, .executor = threads ? NULL : &executor};
  return dt_runtime_create(&options, out);
}

// The factory's lock held.
static ort_status_t *find_runtime(ep_factory_t *factory, uint32_t threads, ep_runtime_t **out) {
  ep_runtime_t *found = factory->runtimes;
  while (found && found->threads != threads)
    found = found->next;
  if (!found) {
    found = calloc(1, sizeof(*found));
    if (!found)
      return ep_no_memory(&factory->api);
    found->threads = threads;
    dt_status_t status = make_runtime(factory, threads, &found->runtime);
    if (status) {
      free(found);
      return ep_status(&factory->api, status, "making a runtime");
    }
    found->next = factory->runtimes;
    factory->runtimes = found;
  }
  found->users++;
  *out = found;
  return NULL;
}

static ort_status_t *take_runtime(ep_factory_t *factory, uint32_t threads, ep_runtime_t **out) {
  (void)pthread_mutex_lock(&factory->lock);
  ort_status_t *status = find_runtime(factory, threads, out);
  (void)pthread_mutex_unlock(&factory->lock);
  return status;
}

static void give_runtime(ep_factory_t *factory, ep_runtime_t *runtime) {
  (void)pthread_mutex_lock(&factory->lock);
  bool last = --runtime->users == 0;
  ep_runtime_t **at = &factory->runtimes;
  while (last && *at != runtime)
    at = &(*at)->next;
  if (last)
    *at = runtime->next;
  (void)pthread_mutex_unlock(&factory->lock);
  if (last) {
    dt_runtime_release(runtime->runtime);
    free(runtime);
  }
}

// ---- Shares -----------------------------------------------------------------------------------------
// Sessions may outlive the registration.
static void give_share(ep_factory_t *factory) {
  if (atomic_fetch_sub(&factory->shares, 1) != 1)
    return;
  (void)pthread_mutex_destroy(&factory->lock);
  free(factory);
}

// ---- Providers --------------------------------------------------------------------------------------
static const char *ep_name(const ort_ep_t *self) {
  (void)self;
  return EP_NAME;
}

static void release_ep(ort_ep_factory_t *self, ort_ep_t *head) {
  ep_t *ep = (ep_t *)head;
  if (!ep)
    return;
  if (ep->runtime)
    give_runtime(ep->factory, ep->runtime);
  ep_free(&ep->refusal);
  free(ep);
  give_share((ep_factory_t *)self);
}

static ort_status_t *create_ep(ort_ep_factory_t *self, const ort_device_t *const *devices,
                               const ort_pairs_t *const *metadata, size_t n,
                               const ort_options_t *options, const ort_logger_t *logger,
                               ort_ep_t **out) {
  ep_factory_t *factory = (ep_factory_t *)self;
  (void)devices;
  (void)metadata;
  (void)n;
  *out = NULL;
  ep_t *ep = calloc(1, sizeof(*ep));
  if (!ep)
    return ep_no_memory(&factory->api);
  ep->head = (ort_ep_t){.version = ORT_VERSION,
                        .GetName = ep_name,
                        .GetCapability = ep_capability,
                        .Compile = ep_compile,
                        .ReleaseNodeComputeInfos = ep_release_computes};
  (void)atomic_fetch_add(&factory->shares, 1);
  ep->factory = factory;
  ep->api = &factory->api;
  ep->logger = logger;
  ort_status_t *status = ep_keep_refusal(ep, ep_options_read(ep->api, options, &ep->options));
  if (!status)
    status = take_runtime(factory, ep->options.threads, &ep->runtime);
  if (status)
    release_ep(self, &ep->head);
  else
    *out = &ep->head;
  return status;
}

// ---- The factory ------------------------------------------------------------------------------------
static const char *factory_name(const ort_ep_factory_t *self) {
  (void)self;
  return EP_NAME;
}

static const char *vendor(const ort_ep_factory_t *self) {
  (void)self;
  return "Ductile";
}

static uint32_t vendor_id(const ort_ep_factory_t *self) {
  (void)self;
  return 0; // of PCI's: it has none
}

static const char *version(const ort_ep_factory_t *self) {
  (void)self;
  return dt_version();
}

static ort_status_t *list_devices(ort_ep_factory_t *self, const ort_device_t *const *devices,
                                  size_t n, ort_ep_device_t **out, size_t most, size_t *out_n) {
  ep_factory_t *factory = (ep_factory_t *)self;
  *out_n = 0;
  for (size_t k = 0; k < n && *out_n < most; k++) {
    if (factory->api.HardwareDevice_Type(devices[k]) != ORT_CPU)
      continue;
    EP_TRY(factory->ep_api.CreateEpDevice(self, devices[k], NULL, NULL, &out[*out_n]));
    ++*out_n;
  }
  return NULL;
}

// The CPU's own memory serves.
static ort_status_t *no_allocator(ort_ep_factory_t *self, const ort_memory_t *memory,
                                  const ort_pairs_t *options, ort_allocator_t **out) {
  (void)self;
  (void)memory;
  (void)options;
  *out = NULL;
  return NULL;
}

static void no_release(ort_ep_factory_t *self, ort_allocator_t *allocator) {
  (void)self;
  (void)allocator;
}

static ort_status_t *no_transfer(ort_ep_factory_t *self, void **out) {
  (void)self;
  *out = NULL;
  return NULL;
}

static bool no_streams(const ort_ep_factory_t *self) {
  (void)self;
  return false;
}

static ort_status_t *too_old(const ort_base_t *base) {
  // The first function of the first version makes statuses.
  ort_api_t api = {0};
  const ort_fn_t *table = base->GetApi(1);
  if (!table)
    return NULL;
  api.CreateStatus = (ort_status_t * (*)(ort_code_t, const char *)) table[0];
  return ep_fail(&api, ORT_NOT_IMPLEMENTED,
                 "Ductile's provider needs onnxruntime 1.%u or later; this is %s", ORT_VERSION,
                 base->GetVersionString());
}

ort_status_t *CreateEpFactories(const char *name, const ort_base_t *base,
                                const ort_logger_t *logger, ort_ep_factory_t **out, size_t most,
                                size_t *out_n) {
  ort_api_t api;
  (void)name;
  (void)logger;
  *out_n = 0;
  if (!ort_take(base, &api))
    return too_old(base);
  if (most < 1)
    return ep_fail(&api, ORT_INVALID_ARGUMENT, "Ductile: no room for a factory");
  ep_factory_t *factory = calloc(1, sizeof(*factory));
  if (!factory)
    return ep_no_memory(&api);
  factory->head = (ort_ep_factory_t){.version = ORT_VERSION,
                                     .GetName = factory_name,
                                     .GetVendor = vendor,
                                     .GetSupportedDevices = list_devices,
                                     .CreateEp = create_ep,
                                     .ReleaseEp = release_ep,
                                     .GetVendorId = vendor_id,
                                     .GetVersion = version,
                                     .CreateAllocator = no_allocator,
                                     .ReleaseAllocator = no_release,
                                     .CreateDataTransfer = no_transfer,
                                     .IsStreamAware = no_streams};
  factory->api = api;
  ort_take_ep(&factory->api, &factory->ep_api);
  (void)pthread_mutex_init(&factory->lock, NULL);
  atomic_init(&factory->shares, 1);
  out[0] = &factory->head;
  *out_n = 1;
  return NULL;
}

ort_status_t *ReleaseEpFactory(ort_ep_factory_t *self) {
  if (self)
    give_share((ep_factory_t *)self);
  return NULL;
}
