// SPDX-License-Identifier: Apache-2.0
// A worker that does not do as it should. What it does wrong is its name: fake.ROW, of the table
// below. Up to there it is a good one.
#include "runtime/base/text.h"
#include "runtime/compile/worker.h"
#include "runtime/compile/worker_text.h"
#include "runtime/compile/worker_wire.h"

#include "backend_llvm/emit/compile.h"
#include "backend_llvm/host/target.h"
#include "runtime/base/status.h"

#include <elf.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const dt_wire_wait_t for_ever = {.until_ns = INT64_MAX};

static void say(dt_frame_kind_t kind, const void *data, size_t bytes) {
  (void)dt__wire_send(DT_WORKER_FD, kind, data, bytes, 0, &for_ever);
}

static void put(const void *data, size_t bytes) {
  (void)!send(DT_WORKER_FD, data, bytes, MSG_NOSIGNAL);
}

// ---- What an answer may be ----------------------------------------------------------------------------
static void garbage(void) {
  char bytes[4096];
  for (size_t k = 0; k < sizeof(bytes); k++)
    bytes[k] = (char)(k * 37 + 11);
  put(bytes, sizeof(bytes));
}

static void truncated(void) {
  char object[1000] = {0};
  dt_frame_head_t head = dt__wire_head(DT_FRAME_DONE, object, sizeof(object), 0);
  put(&head, sizeof(head));
  put(object, sizeof(object) / 2);
  _exit(0);
}

static void half_a_head(void) {
  dt_frame_head_t head = dt__wire_head(DT_FRAME_DONE, "", 0, 0);
  put(&head, sizeof(head) / 2);
  _exit(0);
}

static void bad_hash(void) {
  char object[1000] = {0};
  dt_frame_head_t head = dt__wire_head(DT_FRAME_DONE, object, sizeof(object), 0);
  head.hash ^= 1;
  put(&head, sizeof(head));
  put(object, sizeof(object));
}

static void huge(void) {
  dt_frame_head_t head = dt__wire_head(DT_FRAME_DONE, "", 0, 0);
  head.bytes = (uint64_t)1 << 62;
  put(&head, sizeof(head));
}

static void large_and_silent(void) { // announces as much as is allowed
  dt_frame_head_t head = dt__wire_head(DT_FRAME_DONE, "", 0, 0);
  head.bytes = DT_WORKER_MOST_BYTES;
  put(&head, sizeof(head));
  (void)pause();
}

static void wrong_kind(void) { say(DT_FRAME_HELLO, "again", 5); }
static void no_object(void) { say(DT_FRAME_DONE, "", 0); }
static void no_elf(void) { say(DT_FRAME_DONE, "this is no object", 17); }

static void wild_elf(void) { // the head of one, and nothing true behind it
  unsigned char object[4096];
  memset(object, 0xff, sizeof(object));
  memcpy(object, "\177ELF\2\1\1\0\0\0\0\0\0\0\0\0\1\0\76\0\1\0\0\0", 24);
  say(DT_FRAME_DONE, object, sizeof(object));
}

// An object that is one, with no function in it.
enum { NO_SECTION, STRINGS, SYMBOLS, SECTIONS };
typedef struct object_t {
  Elf64_Ehdr header;
  Elf64_Shdr sections[SECTIONS];
  Elf64_Sym none;
  char strings[8];
} object_t;

static void no_function(void) {
  object_t object = {.header = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64,
                                            ELFDATA2LSB, EV_CURRENT},
                                .e_type = ET_REL,
                                .e_machine = EM_X86_64,
                                .e_version = EV_CURRENT,
                                .e_shoff = sizeof(object.header),
                                .e_ehsize = sizeof(object.header),
                                .e_shentsize = sizeof(object.sections[0]),
                                .e_shnum = SECTIONS,
                                .e_shstrndx = STRINGS}};
  object.sections[STRINGS] = (Elf64_Shdr){.sh_type = SHT_STRTAB,
                                          .sh_offset = offsetof(object_t, strings),
                                          .sh_size = sizeof(object.strings)};
  object.sections[SYMBOLS] = (Elf64_Shdr){.sh_type = SHT_SYMTAB,
                                          .sh_offset = offsetof(object_t, none),
                                          .sh_size = sizeof(object.none),
                                          .sh_link = STRINGS,
                                          .sh_entsize = sizeof(object.none)};
  say(DT_FRAME_DONE, &object, sizeof(object));
}

static void no_code(void) { say(DT_FRAME_FAILED, "999 no such code", 16); }
static void ok_code(void) { say(DT_FRAME_FAILED, "0 all is well", 13); }
static void words(void) { say(DT_FRAME_DIED, "nothing that was agreed on", 26); }
static void silent(void) { (void)pause(); }
static void hangs(void) {
  for (volatile unsigned k = 0;; k++) {
  }
}
static void gone(void) { _exit(3); }
static void killed(void) { (void)raise(SIGKILL); }
static void shut(void) {
  (void)shutdown(DT_WORKER_FD, SHUT_RDWR);
  (void)pause();
}

typedef struct row_t {
  const char *name;
  void (*answer)(void);
} row_t;

static const row_t rows[] = {{"garbage", garbage},
                             {"truncated", truncated},
                             {"half_a_head", half_a_head},
                             {"bad_hash", bad_hash},
                             {"huge", huge},
                             {"large_and_silent", large_and_silent},
                             {"wrong_kind", wrong_kind},
                             {"no_object", no_object},
                             {"no_elf", no_elf},
                             {"wild_elf", wild_elf},
                             {"no_function", no_function},
                             {"no_code", no_code},
                             {"ok_code", ok_code},
                             {"words", words},
                             {"silent", silent},
                             {"hangs", hangs},
                             {"gone", gone},
                             {"killed", killed},
                             {"shut", shut}};

// ---- A good one ---------------------------------------------------------------------------------------
static void say_target(void) {
  dt_target_t target;
  dt_text_t text;
  dt__text_init(&text);
  dt_status_free(dt__host_target("x86-64-v2", 1, &target));
  dt__target_write(&target, &text);
  say(DT_FRAME_DONE, dt__text_str(&text), text.len);
  dt__text_fini(&text);
}

static void serve(void (*answer)(void)) {
  dt_wire_frame_t frame;
  while (dt__wire_receive(DT_WORKER_FD, DT_WORKER_MOST_BYTES, &for_ever, &frame) == DT_WIRE_OK) {
    if (frame.kind == DT_FRAME_TARGET)
      say_target();
    else if (frame.kind == DT_FRAME_UNIT || frame.kind == DT_FRAME_DECIDE)
      answer();
    dt__wire_free(&frame);
  }
}

int main(int argc, char **argv) {
  (void)argc;
  const char *name = strrchr(argv[0], '.');
  dt_text_t hello;
  dt__text_init(&hello);
  dt__worker_hello(&hello);
  if (name && strcmp(name, ".mute") == 0)
    return 0;
  if (name && strcmp(name, ".foreign") == 0)
    dt__text_put(&hello, " of another kind");
  say(DT_FRAME_HELLO, dt__text_str(&hello), hello.len);
  for (size_t k = 0; name && k < sizeof(rows) / sizeof(rows[0]); k++)
    if (strcmp(rows[k].name, name + 1) == 0)
      serve(rows[k].answer);
  dt__text_fini(&hello);
  return 0;
}
