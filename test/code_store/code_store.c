// SPDX-License-Identifier: Apache-2.0
// Keeps what LLVM makes of a module of ours, so that the suites and presets of one run have it make
// each distinct module once (scripts/test preloads this; DUCTILE_CODE_STORE names the folder).
//
// It stands between our code and the two functions of LLVM that take time: LLVMRunPasses and
// LLVMTargetMachineEmitToMemoryBuffer. An entry's key is the module as bitcode, the machine with
// its level, the passes and the kind of output, so that what comes back is what LLVM made of just
// that. All of our own code runs as it would without. Nothing is kept of a module that LLVM has
// complained about, and anything unexpected (a module of other names, a machine of another thread,
// no folder) is left to LLVM.
#include <llvm-c/BitWriter.h>
#include <llvm-c/Core.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define EXPORT __attribute__((visibility("default")))

static atomic_uint n_found, n_made;

// ---- LLVM ---------------------------------------------------------------------------------------

// LLVM is there when one of these functions is called; other processes never load it.
static void *llvm(const char *name) {
  static _Atomic(void *) library;
  void *handle = atomic_load(&library);
  if (!handle) {
    handle = dlopen(LLVM_FILE, RTLD_LAZY | RTLD_NOLOAD);
    if (!handle) {
      (void)fprintf(stderr, "FAIL code_store: no %s in this process\n", LLVM_FILE);
      abort();
    }
    atomic_store(&library, handle);
  }
  return dlsym(handle, name);
}
#define LLVM(name) ((__typeof__(&name))llvm(#name))

// ---- Keys ---------------------------------------------------------------------------------------

typedef XXH128_hash_t hash_t;

// What this thread works at. A machine belongs to the thread that has made it, and a module goes
// from its passes to its code before the thread begins with another.
typedef struct work_t {
  LLVMTargetMachineRef machine;
  hash_t machine_key;
  LLVMModuleRef module; // that passes were asked for
  hash_t key;
  bool put_off; // passes, since the code is there
  char passes[1024];
} work_t;
static _Thread_local work_t work;

static const char *folder(void) {
  const char *path = getenv("DUCTILE_CODE_STORE");
  return path && path[0] ? path : NULL;
}

static bool is_ours(LLVMModuleRef module) {
  size_t n = 0;
  const char *name = LLVM(LLVMGetModuleIdentifier)(module, &n);
  return n > 8 && memcmp(name, "ductile.", 8) == 0;
}

static void add(XXH3_state_t *state, const char *text) {
  XXH3_128bits_update(state, text ? text : "", strlen(text ? text : "") + 1);
}

static hash_t key_of(LLVMModuleRef module, const char *passes) {
  LLVMMemoryBufferRef code = LLVM(LLVMWriteBitcodeToMemoryBuffer)(module);
  XXH3_state_t state;
  XXH3_128bits_reset(&state);
  XXH3_128bits_update(&state, &work.machine_key, sizeof(work.machine_key));
  add(&state, passes);
  XXH3_128bits_update(&state, LLVM(LLVMGetBufferStart)(code), LLVM(LLVMGetBufferSize)(code));
  LLVM(LLVMDisposeMemoryBuffer)(code);
  return XXH3_128bits_digest(&state);
}

EXPORT LLVMTargetMachineRef LLVMCreateTargetMachine(LLVMTargetRef target, const char *triple,
                                                    const char *cpu, const char *features,
                                                    LLVMCodeGenOptLevel level, LLVMRelocMode reloc,
                                                    LLVMCodeModel model) {
  work = (work_t){0};
  work.machine = LLVM(LLVMCreateTargetMachine)(target, triple, cpu, features, level, reloc, model);
  unsigned version[3], how[3] = {level, reloc, model};
  LLVM(LLVMGetVersion)(&version[0], &version[1], &version[2]);
  XXH3_state_t state;
  XXH3_128bits_reset(&state);
  XXH3_128bits_update(&state, version, sizeof(version));
  XXH3_128bits_update(&state, how, sizeof(how));
  add(&state, triple);
  add(&state, cpu);
  add(&state, features);
  work.machine_key = XXH3_128bits_digest(&state);
  return work.machine;
}

// ---- Entries ------------------------------------------------------------------------------------

static bool path_of(hash_t key, int type, char out[PATH_MAX]) {
  const char *at = folder();
  int n = at ? snprintf(out, PATH_MAX - 32, "%s/%02x/%016llx%016llx.%d", at,
                        (unsigned)(key.high64 >> 56), (unsigned long long)key.high64,
                        (unsigned long long)key.low64, type)
             : -1;
  return n > 0 && n < PATH_MAX - 32;
}

// The kinds of output are asked for after the passes; ours has one a machine.
static bool is_kept(hash_t key) {
  char path[PATH_MAX];
  for (int type = LLVMAssemblyFile; type <= LLVMObjectFile; type++)
    if (path_of(key, type, path) && access(path, R_OK) == 0)
      return true;
  return false;
}

static LLVMMemoryBufferRef find(hash_t key, LLVMCodeGenFileType type) {
  char path[PATH_MAX], *message = NULL;
  LLVMMemoryBufferRef mapped = NULL, copy = NULL;
  if (!path_of(key, (int)type, path) || access(path, R_OK) != 0)
    return NULL;
  if (LLVM(LLVMCreateMemoryBufferWithContentsOfFile)(path, &mapped, &message)) {
    LLVM(LLVMDisposeMessage)(message);
    return NULL;
  }
  copy = LLVM(LLVMCreateMemoryBufferWithMemoryRangeCopy)(LLVM(LLVMGetBufferStart)(mapped),
                                                         LLVM(LLVMGetBufferSize)(mapped), "code");
  LLVM(LLVMDisposeMemoryBuffer)(mapped);
  return copy;
}

// Other processes may write the same entry: each a file of its own first.
static void keep(hash_t key, LLVMCodeGenFileType type, LLVMMemoryBufferRef code) {
  char path[PATH_MAX], own[PATH_MAX + 32];
  if (!path_of(key, (int)type, path))
    return;
  char *slash = strrchr(path, '/');
  *slash = 0;
  (void)mkdir(path, 0700);
  *slash = '/';
  (void)snprintf(own, sizeof(own), "%s.%d.%p", path, (int)getpid(), (void *)&work);
  int file = open(own, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0)
    return;
  size_t n = LLVM(LLVMGetBufferSize)(code);
  bool good = write(file, LLVM(LLVMGetBufferStart)(code), n) == (ssize_t)n;
  good &= close(file) == 0;
  if (!good || rename(own, path) != 0)
    (void)unlink(own);
}

// ---- Complaints ---------------------------------------------------------------------------------

typedef struct watch_t {
  LLVMDiagnosticHandler handler;
  void *context;
  unsigned n; // errors
} watch_t;

static void on_diagnostic(LLVMDiagnosticInfoRef info, void *context) {
  watch_t *watch = context;
  watch->n += LLVM(LLVMGetDiagInfoSeverity)(info) == LLVMDSError; // our code heeds no others
  if (watch->handler)
    watch->handler(info, watch->context);
}

static void begin_watch(LLVMContextRef context, watch_t *out) {
  *out = (watch_t){LLVM(LLVMContextGetDiagnosticHandler)(context),
                   LLVM(LLVMContextGetDiagnosticContext)(context), 0};
  LLVM(LLVMContextSetDiagnosticHandler)(context, on_diagnostic, out);
}

static void end_watch(LLVMContextRef context, const watch_t *watch) {
  LLVM(LLVMContextSetDiagnosticHandler)(context, watch->handler, watch->context);
}

// ---- The functions ------------------------------------------------------------------------------

static LLVMErrorRef run_passes(LLVMModuleRef module, const char *passes,
                               LLVMTargetMachineRef machine, LLVMPassBuilderOptionsRef options) {
  LLVMContextRef context = LLVM(LLVMGetModuleContext)(module);
  watch_t watch;
  begin_watch(context, &watch);
  LLVMErrorRef error = LLVM(LLVMRunPasses)(module, passes, machine, options);
  end_watch(context, &watch);
  if (error || watch.n)
    work.module = NULL; // nothing of it is kept
  return error;
}

EXPORT LLVMErrorRef LLVMRunPasses(LLVMModuleRef module, const char *passes,
                                  LLVMTargetMachineRef machine, LLVMPassBuilderOptionsRef options) {
  if (!folder() || machine != work.machine || !is_ours(module) ||
      strlen(passes) >= sizeof(work.passes))
    return LLVM(LLVMRunPasses)(module, passes, machine, options);
  work.module = module;
  work.key = key_of(module, passes);
  work.put_off = is_kept(work.key);
  (void)snprintf(work.passes, sizeof(work.passes), "%s", passes);
  return work.put_off ? NULL : run_passes(module, passes, machine, options);
}

// Passes that were put off are run after all.
static void catch_up(LLVMModuleRef module) {
  if (module != work.module || !work.put_off)
    return;
  work.put_off = false;
  LLVMPassBuilderOptionsRef options = LLVM(LLVMCreatePassBuilderOptions)();
  LLVMErrorRef error = run_passes(module, work.passes, work.machine, options);
  LLVM(LLVMDisposePassBuilderOptions)(options);
  if (error) {
    (void)fprintf(stderr, "FAIL code_store: passes that went well before fail\n");
    abort();
  }
}

EXPORT char *LLVMPrintModuleToString(LLVMModuleRef module) {
  catch_up(module);
  return LLVM(LLVMPrintModuleToString)(module);
}

EXPORT LLVMBool LLVMTargetMachineEmitToMemoryBuffer(LLVMTargetMachineRef machine,
                                                    LLVMModuleRef module, LLVMCodeGenFileType type,
                                                    char **out_message,
                                                    LLVMMemoryBufferRef *out_code) {
  bool knows = folder() && machine == work.machine && is_ours(module);
  if (!knows)
    return LLVM(LLVMTargetMachineEmitToMemoryBuffer)(machine, module, type, out_message, out_code);
  if (module != work.module) { // no passes
    work.module = module;
    work.key = key_of(module, "");
    work.put_off = false;
  }
  *out_code = find(work.key, type);
  if (*out_code) {
    atomic_fetch_add(&n_found, 1);
    work.module = NULL;
    return 0;
  }
  catch_up(module);
  LLVMContextRef context = LLVM(LLVMGetModuleContext)(module);
  watch_t watch;
  begin_watch(context, &watch);
  LLVMBool failed =
      LLVM(LLVMTargetMachineEmitToMemoryBuffer)(machine, module, type, out_message, out_code);
  end_watch(context, &watch);
  atomic_fetch_add(&n_made, 1);
  if (!failed && !watch.n && work.module)
    keep(work.key, type, *out_code);
  work.module = NULL;
  return failed;
}

// A line a process in the folder's log: how many were found there, how many were made.
__attribute__((destructor)) static void tell(void) {
  char path[PATH_MAX], line[64];
  unsigned found = atomic_load(&n_found), made = atomic_load(&n_made);
  if (!folder() || found + made == 0 ||
      snprintf(path, sizeof(path), "%s/log", folder()) >= (int)sizeof(path))
    return;
  int n = snprintf(line, sizeof(line), "%u\t%u\n", found, made);
  int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (file < 0)
    return;
  (void)!write(file, line, (size_t)n);
  (void)close(file);
}
