// SPDX-License-Identifier: Apache-2.0
// The check of a unit's text (early.h). Each entry is walked from its first line, along all
// branches, as far as nothing has waited:
//
//   wait                       the path is all right from here on
//   branch                     goes on at its label too; or only there
//   marked copy, known others  goes on
//   end, anything else         refused
//
// What is known is a list, so that an instruction which nobody has thought of is refused. Code has
// one instruction a line, as code generators and our own texts write it.
#include "backend_cuda/emit/early_text.h"
#include "backend_cuda/emit/early.h"

#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"

#include <string.h>

#define ENTRY ".entry "

typedef struct walk_t {
  const char *name, *body, *end; // the entry's code is [body, end)
  int name_len;
  const char **labels; // lines that paths come to; those from `next` on have not been walked
  uint32_t n, next, room;
} walk_t;

static bool begins(const char *text, const char *with) {
  return strncmp(text, with, strlen(with)) == 0;
}

// By hand: checkers of memory measure the whole text at each call of a function on strings.
static size_t until(const char *text, char a, char b) { // either, or the end
  size_t n = 0;
  while (text[n] && text[n] != a && text[n] != b)
    n++;
  return n;
}

static const char *next_line(const char *line) {
  line += until(line, '\n', '\n');
  return line + (*line != 0);
}

static const char *skip_blanks(const char *line) {
  while (*line == ' ' || *line == '\t')
    line++;
  return line;
}

static const char *skip_word(const char *line) {
  while (*line && *line != ' ' && *line != '\t' && *line != '\n')
    line++;
  return line;
}

static dt_status_t refuse(const walk_t *w, const char *line) {
  return DT_FAIL(DT_E_INTERNAL, "%.*s does not wait for the work before it on the way to \"%.*s\"",
                 w->name_len, w->name, (int)until(line, '\n', '\n'), line);
}

// ---- Labels ---------------------------------------------------------------------------------------

static size_t name_length(const char *text) {
  size_t n = 0;
  for (;; n++) {
    char c = text[n];
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!letter && !(c >= '0' && c <= '9') && c != '$' && c != '_' && c != '%')
      return n;
  }
}

static bool is_label(const char *line) {
  size_t n = name_length(line);
  return n && line[n] == ':';
}

static const char *find_label(const walk_t *w, const char *name) {
  size_t n = name_length(name);
  for (const char *line = w->body; n && line < w->end; line = next_line(line)) {
    const char *at = skip_blanks(line);
    if (strncmp(at, name, n) == 0 && at[n] == ':')
      return at;
  }
  return NULL;
}

static dt_status_t go_to(walk_t *w, const char *label) {
  for (uint32_t k = 0; k < w->n; k++)
    if (w->labels[k] == label)
      return NULL;
  if (w->n == w->room) {
    uint32_t room = w->room ? 2 * w->room : 32;
    const char **labels = dt__realloc(w->labels, room * sizeof(*labels));
    if (!labels)
      return DT_NO_MEMORY();
    w->labels = labels;
    w->room = room;
  }
  w->labels[w->n++] = label;
  return NULL;
}

// ---- Instructions ---------------------------------------------------------------------------------

// What touches nothing that another kernel may: how such instructions begin, each with a blank.
static const char harmless[] =
    "ld.param ld.shared ld.local st.shared st.local ldmatrix. cp.async.commit_group; mov. cvt. "
    "cvta. isspacep. add. addc. sub. subc. mul. mul24. mad. mad24. madc. sad. div. rem. abs. neg. "
    "min. max. fma. rcp. sqrt. rsqrt. sin. cos. lg2. ex2. tanh. copysign. testp. and. or. xor. "
    "not. cnot. lop3. shl. shr. shf. prmt. bfe. bfi. bfind. bmsk. brev. clz. fns. popc. szext. "
    "dp2a. dp4a. set. setp. selp. slct. bar. barrier. shfl. vote. match. redux. elect. activemask. "
    "nanosleep. griddepcontrol.launch_dependents; ";

static bool is_harmless(const char *op) {
  for (const char *known = harmless; *known; known++) {
    size_t n = until(known, ' ', ' ');
    if (strncmp(op, known, n) == 0)
      return true;
    known += n;
  }
  return false;
}

// No code: directives, comments, braces of scopes.
static bool is_silent(const char *line) {
  return *line == '\n' || *line == '.' || begins(line, "//") || begins(line, "{\n") ||
         begins(line, "}\n") || begins(line, "{ //") || begins(line, "} //");
}

// One instruction, and a remark at most.
static bool is_alone(const char *line) {
  size_t n = until(line, ';', '\n');
  const char *rest = skip_blanks(line + n + (line[n] == ';'));
  return line[n] == ';' && (*rest == '\n' || *rest == 0 || begins(rest, "//"));
}

static bool is_early_copy(const char *op, const char *before) {
  return begins(op, "cp.async.cg.shared.global ") && before && begins(before, DT_EARLY_MARK "\n");
}

// An instruction; *on: whether the path goes on in the next line.
static dt_status_t step(walk_t *w, const char *line, const char *before, bool *on) {
  bool guarded = *line == '@';
  const char *op = guarded ? skip_blanks(skip_word(line)) : line;
  *on = true;
  if (!is_alone(line))
    return refuse(w, line);
  if (begins(op, DT_EARLY_WAIT)) {
    *on = guarded;
    return NULL;
  }
  if (begins(op, "bra ") || begins(op, "bra\t") || begins(op, "bra.uni")) {
    const char *label = find_label(w, skip_blanks(skip_word(op)));
    *on = guarded;
    return label ? go_to(w, label) : refuse(w, line);
  }
  return is_harmless(op) || is_early_copy(op, before) ? NULL : refuse(w, line);
}

// From `line` to where something has waited, or where another path goes on.
static dt_status_t walk(walk_t *w, const char *line) {
  const char *before = NULL;
  for (bool on = true; on; line = next_line(line)) {
    if (line >= w->end)
      return refuse(w, line);
    line = skip_blanks(line);
    if (is_label(line))
      return go_to(w, line);
    if (!is_silent(line))
      DT_TRY(step(w, line, before, &on));
    before = line;
  }
  return NULL;
}

// ---- Entries --------------------------------------------------------------------------------------

// The line with the brace that closes the body which begins at `line`; operands' braces are closed
// in their line.
static const char *find_end(const char *line) {
  int depth = 1;
  for (; *line; line = next_line(line)) {
    for (const char *at = line; *at && *at != '\n' && !begins(at, "//"); at++)
      depth += (*at == '{') - (*at == '}');
    if (depth <= 0)
      break;
  }
  return line;
}

// The body begins behind the first line that is an opening brace.
static const char *find_body(const char *name) {
  const char *line = name;
  while (*line && *line != '{' && *line != '}')
    line = next_line(line);
  return line;
}

static dt_status_t check_entry(const char *name) {
  walk_t w = {.name = name, .name_len = (int)until(name, '(', '\n')};
  const char *line = find_body(name);
  w.body = next_line(line);
  w.end = find_end(w.body);
  dt_status_t status = *line == '{' ? walk(&w, w.body) : refuse(&w, line);
  while (!status && w.next < w.n)
    status = walk(&w, next_line(w.labels[w.next++]));
  dt__free(w.labels);
  return status;
}

static bool in_remark(const char *ptx, const char *at) {
  while (at > ptx && at[-1] != '\n')
    at--;
  return begins(skip_blanks(at), "//");
}

// The name of the first entry from `at` on, NULL where there is none.
static const char *next_entry(const char *ptx, const char *at) {
  for (at = strstr(at, ENTRY); at; at = strstr(at + 1, ENTRY))
    if (!in_remark(ptx, at))
      return at + sizeof(ENTRY) - 1;
  return NULL;
}

dt_status_t dt__cuda_check_waits(const char *ptx) {
  for (const char *name = next_entry(ptx, ptx); name; name = next_entry(ptx, name))
    DT_TRY(check_entry(name));
  return NULL;
}

// `at`: where in the text it is put in, and then where it went on.
static dt_status_t insert_wait(char **ptx, size_t *bytes, size_t *at) {
  static const char wait[] = "\t" DT_EARLY_WAIT "\n";
  size_t more = sizeof(wait) - 1;
  char *text = dt__realloc(*ptx, *bytes + more + 1);
  if (!text)
    return DT_NO_MEMORY();
  memmove(text + *at + more, text + *at, *bytes - *at + 1);
  memcpy(text + *at, wait, more);
  *ptx = text;
  *bytes += more;
  *at += more;
  return NULL;
}

dt_status_t dt__cuda_settle_waits(char **ptx, size_t *bytes) {
  const char *name = next_entry(*ptx, *ptx);
  while (name) {
    size_t at = (size_t)(name - *ptx);
    dt_status_t status = check_entry(name);
    const char *line = find_body(name);
    if (dt_status_code(status) == DT_E_INTERNAL && *line == '{') {
      DT_LOG(DT_LOG_COMPILE, 1, "%s: it waits first of all", dt_status_message(status));
      dt_status_free(status);
      at = (size_t)(next_line(line) - *ptx);
      status = insert_wait(ptx, bytes, &at);
    }
    DT_TRY(status);
    name = next_entry(*ptx, *ptx + at);
  }
  return NULL;
}
