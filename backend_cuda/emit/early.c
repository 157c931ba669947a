// SPDX-License-Identifier: Apache-2.0
// See early.h.
#include "backend_cuda/emit/early.h"

#include "backend_cuda/driver/driver.h"
#include "runtime/base/status.h"

#include <stdlib.h>
#include <string.h>

#define WAIT "griddepcontrol.wait;"
#define ENTRY ".entry "

bool dt__cuda_waits(const dt_target_t *target) {
  return strncmp(target->cpu, "sm_", 3) == 0 && atoi(target->cpu + 3) >= 10 * DT_CUDA_EARLY_MAJOR;
}

// LLVM says of its own intrinsics for these that they touch no memory; a wait that loads may pass
// is none.
static void instruction(dt_emit_t *m, const char *text) {
  static const char memory[] = "~{memory}";
  LLVMTypeRef type = LLVMFunctionType(m->t_void, NULL, 0, 0);
  LLVMValueRef code = LLVMGetInlineAsm(type, text, strlen(text), memory, sizeof(memory) - 1, true,
                                       false, LLVMInlineAsmDialectATT, false);
  (void)LLVMBuildCall2(m->b, type, code, NULL, 0, "");
}

void dt__cuda_wait_for_work(dt_emit_t *m) {
  if (!dt__cuda_waits(m->target))
    return;
  instruction(m, WAIT);
  instruction(m, "griddepcontrol.launch_dependents;");
}

// ---- The text -------------------------------------------------------------------------------------

static bool begins(const char *text, const char *with) {
  return strncmp(text, with, strlen(with)) == 0;
}

// Directives, comments, and instructions that compute from parameters what the thread alone sees.
static bool may_precede(const char *line) {
  static const char *const known[] = {"ld.param.", "mov.", "cvt.", "cvta.", "add.",
                                      "and.",      "shl.", "shr.", "mul.",  "mad."};
  if (*line && strchr(".{()/\n", *line))
    return true;
  for (size_t k = 0; k < sizeof(known) / sizeof(known[0]); k++)
    if (begins(line, known[k]))
      return true;
  return false;
}

static const char *next_line(const char *line) {
  const char *end = strchr(line, '\n');
  return end ? end + 1 : line + strlen(line);
}

// From the line of an entry's name to its wait.
static dt_status_t check_entry(const char *entry) {
  const char *name = strstr(entry, ENTRY) + sizeof(ENTRY) - 1;
  int name_len = (int)strcspn(name, "(\n");
  const char *line = next_line(entry);
  while (*line) {
    line += strspn(line, " \t");
    if (begins(line, WAIT))
      return NULL;
    if (!may_precede(line))
      break;
    line = next_line(line);
  }
  return DT_FAIL(DT_E_INTERNAL,
                 "%.*s does not wait for the work before it: it begins with \"%.*s\"", name_len,
                 name, (int)strcspn(line, "\n"), line);
}

dt_status_t dt__cuda_check_waits(const char *ptx) {
  for (const char *line = ptx; *line; line = next_line(line)) {
    const char *entry = strstr(line, ENTRY), *end = next_line(line);
    if (entry && entry < end && !begins(line + strspn(line, " \t"), "//"))
      DT_TRY(check_entry(line));
  }
  return NULL;
}
