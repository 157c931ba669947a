// SPDX-License-Identifier: Apache-2.0
// Makes a graph that shows a fault smaller. It works on the text, line by line: a line holds a
// leaf, a node (with its bodies), an assert, an update or the result. Each edit makes another text,
// which is run; it stands where the fault is the same. What the reader refuses shows another fault,
// so an edit need not ask whether it is allowed.
#include "cli/repro.h"

#include "cli/tensor_file.h"

#include <stdlib.h>
#include <string.h>

typedef enum kind_t { KIND_INPUT, KIND_CONSTANT, KIND_NODE, KIND_OTHER } kind_t;

typedef struct item_t {
  kind_t kind;
  uint32_t id;      // of its value; 0: none
  const char *text; // without "  %N = ", with its end of line; borrowed from `room`
  const char *call; // KIND_INPUT: "3x4@4x1"
} item_t;

// A graph taken apart. Copied freely; texts live in the room.
typedef struct graph_t {
  item_t *items;
  uint32_t n;
  const char *head;
  uint32_t *results;
  uint32_t n_results;
} graph_t;

typedef struct reducer_t {
  const cli_replay_t *replay;
  const cli_fault_t *fault;
  graph_t best;
  uint32_t tries, most_tries;
  void (*told)(void *user, uint32_t tries, uint32_t nodes);
  void *user;
  char *message;
  void **room; // everything, freed at the end
  uint32_t n_room, cap_room;
  bool failed; // no memory, or no process
} reducer_t;

// ---- Memory -------------------------------------------------------------------------------------
static void *keep(reducer_t *r, void *memory) {
  if (memory && r->n_room == r->cap_room) {
    uint32_t cap = r->cap_room ? 2 * r->cap_room : 256;
    void **room = realloc(r->room, cap * sizeof(*room));
    if (!room) {
      free(memory);
      memory = NULL;
    } else {
      r->room = room;
      r->cap_room = cap;
    }
  }
  if (!memory) {
    r->failed = true;
    (void)cli_wrong(r->message, "no memory");
    return NULL;
  }
  r->room[r->n_room++] = memory;
  return memory;
}

static const char *keep_text(reducer_t *r, const char *text, size_t len) {
  char *copy = malloc(len + 1);
  if (copy) {
    memcpy(copy, text, len);
    copy[len] = '\0';
  }
  return keep(r, copy);
}

static bool copy_graph(reducer_t *r, const graph_t *from, graph_t *out) {
  *out = *from;
  out->items = keep(r, malloc((from->n + 1) * sizeof(*out->items)));
  out->results = keep(r, malloc((from->n_results + 1) * sizeof(*out->results)));
  if (r->failed)
    return false;
  memcpy(out->items, from->items, from->n * sizeof(*out->items));
  memcpy(out->results, from->results, from->n_results * sizeof(*out->results));
  return true;
}

// ---- Taking apart -------------------------------------------------------------------------------
static bool begins(const char *text, const char *word) {
  return strncmp(text, word, strlen(word)) == 0;
}

// The end of the item that begins at `at`: of its line, or of the line that closes its last body.
static const char *item_end(const char *at) {
  int depth = 0;
  for (bool quoted = false; *at; at++) {
    if (*at == '\\' && quoted && at[1])
      at++;
    else if (*at == '"')
      quoted = !quoted;
    else if (!quoted && (*at == '{' || *at == '}'))
      depth += *at == '{' ? 1 : -1;
    else if (*at == '\n' && depth == 0)
      return at + 1;
  }
  return at;
}

static void take_item(reducer_t *r, const char *at, const char *end, graph_t *out) {
  item_t *item = &out->items[out->n++];
  *item = (item_t){.kind = KIND_OTHER};
  at += strspn(at, " ");
  if (*at == '%') {
    char *rest = NULL;
    item->id = (uint32_t)strtoul(at + 1, &rest, 10);
    item->kind = KIND_NODE;
    at = rest + strspn(rest, " =");
  }
  if (begins(at, "input \""))
    item->kind = KIND_INPUT;
  else if (begins(at, "constant \""))
    item->kind = KIND_CONSTANT;
  item->text = keep_text(r, at, (size_t)(end - at));
}

static void take_results(reducer_t *r, const char *at, graph_t *out) {
  out->results = keep(r, calloc(strlen(at) + 1, sizeof(*out->results)));
  for (; out->results && (at = strchr(at, '%')) != NULL; at++)
    out->results[out->n_results++] = (uint32_t)strtoul(at + 1, NULL, 10);
}

// The items of call, "0=3x4,1=7", to the inputs by their number; NULL: there is no call.
static bool take_call(reducer_t *r, const char *call, graph_t *out) {
  uint32_t input = 0;
  for (uint32_t k = 0; k < out->n; k++) {
    if (out->items[k].kind != KIND_INPUT)
      continue;
    char key[16];
    (void)snprintf(key, sizeof(key), "%u=", input++);
    const char *at = call;
    while (at && !begins(at, key)) {
      at = strchr(at, ',');
      at += at != NULL;
    }
    if (call && !at)
      return cli_wrong(r->message, "the call says nothing of input %u by its number", input - 1);
    at += call ? strlen(key) : 0;
    out->items[k].call = keep_text(r, at ? at : "", at ? strcspn(at, ",") : 0);
  }
  return !r->failed;
}

static bool take_graph(reducer_t *r, const char *text, const char *call, graph_t *out) {
  const char *at = strstr(text, "graph ("), *line = at ? strchr(at, '\n') : NULL;
  if (!line)
    return cli_wrong(r->message, "no graph");
  *out = (graph_t){.head = keep_text(r, at, (size_t)(line + 1 - at))};
  out->items = keep(r, calloc(strlen(line) / 4 + 2, sizeof(*out->items)));
  for (at = line + 1; !r->failed && *at && *at != '}';) {
    const char *end = item_end(at);
    const char *word = at + strspn(at, " ");
    if (begins(word, "return"))
      take_results(r, keep_text(r, word, (size_t)(end - word)), out);
    else
      take_item(r, at, end, out);
    at = end;
  }
  return !r->failed && take_call(r, call, out);
}

// ---- Putting together ---------------------------------------------------------------------------
typedef struct writer_t {
  char *data;
  size_t len, cap;
  bool failed;
} writer_t;

static void put(writer_t *w, const char *text, size_t len) {
  if (w->len + len + 1 > w->cap) {
    size_t cap = 2 * (w->len + len + 1) + 4096;
    char *more = realloc(w->data, cap);
    if (!more) {
      w->failed = true;
      return;
    }
    w->data = more;
    w->cap = cap;
  }
  memcpy(w->data + w->len, text, len);
  w->len += len;
  w->data[w->len] = '\0';
}

static void put_str(writer_t *w, const char *text) { put(w, text, strlen(text)); }

static void put_id(writer_t *w, uint32_t id) {
  char text[16];
  (void)snprintf(text, sizeof(text), "%%%u", id);
  put_str(w, text);
}

// The operands of an item end where its attributes, its bodies or its type begin.
static size_t operands_len(const item_t *item) {
  return item->kind == KIND_NODE || begins(item->text, "update ") ? strcspn(item->text, "{:\n") : 0;
}

// Copies the text; values have the numbers that `ids` says.
static void put_renamed(writer_t *w, const item_t *item, const uint32_t *ids) {
  size_t len = operands_len(item);
  const char *at = item->text, *end = at + len;
  while (at < end) {
    const char *sign = memchr(at, '%', (size_t)(end - at));
    if (!sign)
      break;
    char *rest = NULL;
    put(w, at, (size_t)(sign - at));
    put_id(w, ids[strtoul(sign + 1, &rest, 10)]);
    at = rest;
  }
  put_str(w, at);
}

static uint32_t most_id(const graph_t *g) {
  uint32_t most = 0;
  for (uint32_t k = 0; k < g->n; k++)
    most = g->items[k].id > most ? g->items[k].id : most;
  return most;
}

static void mark_operands(const item_t *item, bool *live) {
  const char *at = item->text, *end = at + operands_len(item);
  while (at < end && (at = memchr(at, '%', (size_t)(end - at))) != NULL) {
    live[strtoul(at + 1, NULL, 10)] = true;
    at++;
  }
}

// What a text binds or says by itself stays: inputs, captures, asserts, updates, items.
static bool is_kept(const item_t *item, const bool *live) {
  return item->kind == KIND_INPUT || item->kind == KIND_OTHER || live[item->id];
}

// Drops what nothing needs.
static void sweep(graph_t *g, bool *live) {
  for (uint32_t k = 0; k < g->n_results; k++)
    live[g->results[k]] = true;
  for (uint32_t k = g->n; k-- > 0;)
    if (is_kept(&g->items[k], live))
      mark_operands(&g->items[k], live);
  uint32_t n = 0;
  for (uint32_t k = 0; k < g->n; k++)
    if (is_kept(&g->items[k], live))
      g->items[n++] = g->items[k];
  g->n = n;
}

static void put_items(writer_t *w, const graph_t *g, uint32_t *ids, writer_t *call) {
  uint32_t next = 1, input = 0;
  for (uint32_t k = 0; k < g->n; k++) {
    const item_t *item = &g->items[k];
    put_str(w, "  ");
    if (item->id) {
      ids[item->id] = next++;
      put_id(w, ids[item->id]);
      put_str(w, " = ");
    }
    put_renamed(w, item, ids);
    if (item->kind == KIND_INPUT) {
      char key[16];
      (void)snprintf(key, sizeof(key), input ? ",%u=" : "%u=", input);
      input++;
      put_str(call, key);
      put_str(call, item->call);
    }
  }
  put_str(w, "  return");
  for (uint32_t k = 0; k < g->n_results; k++) {
    put_str(w, k ? ", " : " ");
    put_id(w, ids[g->results[k]]);
  }
  put_str(w, "\n}\n");
}

// The graph's text and call, both the caller's; false without memory.
static bool write_graph(reducer_t *r, const graph_t *g, char **out_text, char **out_call) {
  writer_t text = {0}, call = {0};
  uint32_t *ids = calloc((size_t)most_id(g) + 1, sizeof(*ids));
  if (ids) {
    put_str(&text, g->head);
    put_str(&call, "");
    put_items(&text, g, ids, &call);
  }
  bool good = ids && !text.failed && !call.failed;
  free(ids);
  if (!good) {
    free(text.data);
    free(call.data);
    r->failed = true;
    return cli_wrong(r->message, "no memory");
  }
  *out_text = text.data;
  *out_call = call.data;
  return true;
}

// ---- Trying -------------------------------------------------------------------------------------
static uint32_t nodes_of(const graph_t *g) {
  uint32_t n = 0;
  for (uint32_t k = 0; k < g->n; k++)
    n += g->items[k].kind == KIND_NODE;
  return n;
}

static bool replay_graph(reducer_t *r, const graph_t *g, bool evaluate, cli_fault_t *out) {
  char *text = NULL, *call = NULL;
  if (r->tries >= r->most_tries || !write_graph(r, g, &text, &call))
    return false;
  cli_replay_t replay = *r->replay;
  replay.text = text;
  replay.len = strlen(text);
  replay.call = r->replay->call ? call : NULL;
  replay.evaluate = evaluate;
  r->tries++;
  bool good = cli_replay(&replay, out, r->message);
  r->failed |= !good;
  free(text);
  free(call);
  if (r->told)
    r->told(r->user, r->tries, nodes_of(&r->best));
  return good;
}

// `g` stands if it shows the same fault.
static bool try_graph(reducer_t *r, graph_t *g) {
  cli_fault_t fault;
  bool *live = calloc((size_t)most_id(g) + 1, sizeof(*live));
  if (!live)
    return false;
  sweep(g, live);
  free(live);
  if (!replay_graph(r, g, false, &fault) || !cli_same_fault(&fault, r->fault))
    return false;
  r->best = *g;
  return true;
}

// ---- Edits --------------------------------------------------------------------------------------
// Each asserts and updates alone; true where any went.
static bool drop_others(reducer_t *r) {
  bool any = false;
  for (uint32_t k = r->best.n; k-- > 0 && !r->failed;) {
    graph_t g;
    const char *text = r->best.items[k].text;
    if (r->best.items[k].kind != KIND_OTHER || begins(text, "capture"))
      continue;
    if (!copy_graph(r, &r->best, &g))
      return false;
    g.n--;
    memmove(&g.items[k], &g.items[k + 1], (g.n - k) * sizeof(*g.items));
    any |= try_graph(r, &g);
  }
  return any;
}

// One result in place of many.
static bool keep_one_result(reducer_t *r) {
  for (uint32_t k = 0; r->best.n_results > 1 && k < r->best.n_results && !r->failed; k++) {
    graph_t g;
    if (!copy_graph(r, &r->best, &g))
      return false;
    g.results[0] = g.results[k];
    g.n_results = 1;
    if (try_graph(r, &g))
      return true;
  }
  return false;
}

static const item_t *find_item(const graph_t *g, uint32_t id) {
  for (uint32_t k = 0; k < g->n; k++)
    if (g->items[k].id == id)
      return &g->items[k];
  return NULL;
}

// An operand of the result in place of it.
static bool go_up(reducer_t *r) {
  const item_t *item = r->best.n_results == 1 ? find_item(&r->best, r->best.results[0]) : NULL;
  if (!item || item->kind != KIND_NODE)
    return false;
  const char *at = item->text, *end = at + operands_len(item);
  for (; at < end && (at = memchr(at, '%', (size_t)(end - at))) != NULL && !r->failed; at++) {
    graph_t g;
    if (!copy_graph(r, &r->best, &g))
      return false;
    g.results[0] = (uint32_t)strtoul(at + 1, NULL, 10);
    if (try_graph(r, &g))
      return true;
  }
  return false;
}

// "f32[s0, 4]" of a node: what stands behind its last " : ".
static const char *type_of(const item_t *item) {
  const char *type = NULL;
  for (const char *at = item->text; (at = strstr(at, " : ")) != NULL; at += 3)
    type = at + 3;
  return type;
}

// "(s1)*(4), (4), 1": contiguous strides of the sizes in `list`, "s0, s1, 4]".
static void put_strides(writer_t *w, const char *list) {
  const char *sizes[DT_MAX_RANK];
  size_t lens[DT_MAX_RANK];
  uint32_t rank = 0;
  int depth = 0;
  for (const char *at = list, *from = list; rank < DT_MAX_RANK && *at; at++) {
    depth += (*at == '(') - (*at == ')');
    if ((*at != ',' || depth) && *at != ']')
      continue;
    sizes[rank] = from;
    lens[rank] = (size_t)(at - from);
    rank += at > from;
    from = at + 1;
    if (*at == ']')
      break;
  }
  for (uint32_t d = 0; d < rank; d++) {
    put_str(w, d ? ", " : "");
    put_str(w, d + 1 == rank ? "1" : "");
    for (uint32_t e = d + 1; e < rank; e++) {
      put_str(w, e > d + 1 ? "*(" : "(");
      put(w, sizes[e], lens[e]);
      put_str(w, ")");
    }
  }
}

static const char *input_text(reducer_t *r, const item_t *node) {
  const char *type = type_of(node), *open = type ? strchr(type, '[') : NULL;
  if (!open)
    return NULL;
  writer_t w = {0};
  char name[32];
  (void)snprintf(name, sizeof(name), "input \"v%u\" ", node->id);
  put_str(&w, name);
  put(&w, type, strcspn(type, "\n"));
  put_str(&w, " strides [");
  put_strides(&w, open + 1);
  put_str(&w, "] contiguous\n");
  return w.failed ? NULL : keep(r, w.data);
}

// The sizes that a node has in the call, "3x4".
static const char *sizes_text(reducer_t *r, uint32_t id) {
  graph_t g;
  cli_fault_t fault;
  char text[CLI_MESSAGE];
  size_t len = 0;
  if (!copy_graph(r, &r->best, &g))
    return NULL;
  g.results[0] = id;
  g.n_results = 1;
  if (!replay_graph(r, &g, true, &fault) || fault.shown != CLI_SHOWN_NOTHING)
    return NULL;
  text[0] = '\0';
  for (uint32_t d = 0; d < fault.rank; d++)
    len += (size_t)snprintf(text + len, sizeof(text) - len, d ? "x%lld" : "%lld",
                            (long long)fault.sizes[d]);
  return keep_text(r, text, len);
}

// An input in place of each node that others read, the last first: all before it may go then.
static bool cut_nodes(reducer_t *r) {
  bool any = false;
  for (uint32_t k = r->best.n; k-- > 0 && !r->failed;) {
    graph_t g;
    if (k >= r->best.n || r->best.items[k].kind != KIND_NODE)
      continue;
    if (r->best.n_results == 1 && r->best.items[k].id == r->best.results[0])
      continue;
    const char *text = input_text(r, &r->best.items[k]);
    const char *sizes = text && r->replay->call ? sizes_text(r, r->best.items[k].id) : "";
    if (!text || !sizes || !copy_graph(r, &r->best, &g))
      continue;
    g.items[k].kind = KIND_INPUT;
    g.items[k].text = text;
    g.items[k].call = sizes;
    any |= try_graph(r, &g);
  }
  return any;
}

// Inputs that nothing reads, where they bind no symbol that something needs.
static bool drop_inputs(reducer_t *r) {
  bool any = false;
  for (uint32_t k = r->best.n; k-- > 0 && !r->failed;) {
    graph_t g;
    if (k >= r->best.n || r->best.items[k].kind != KIND_INPUT || !copy_graph(r, &r->best, &g))
      continue;
    bool *live = calloc((size_t)most_id(&g) + 1, sizeof(*live));
    for (uint32_t i = 0; live && i < g.n; i++)
      mark_operands(&g.items[i], live);
    for (uint32_t i = 0; live && i < g.n_results; i++)
      live[g.results[i]] = true;
    bool read = !live || live[g.items[k].id];
    free(live);
    if (read)
      continue;
    g.n--;
    memmove(&g.items[k], &g.items[k + 1], (g.n - k) * sizeof(*g.items));
    any |= try_graph(r, &g);
  }
  return any;
}

bool cli_reduce(const cli_replay_t *replay, const cli_fault_t *fault, uint32_t most_tries,
                void (*told)(void *user, uint32_t tries, uint32_t nodes), void *user,
                cli_reduced_t *out, char message[CLI_MESSAGE]) {
  reducer_t r = {.replay = replay,
                 .fault = fault,
                 .most_tries = most_tries,
                 .told = told,
                 .user = user,
                 .message = message};
  *out = (cli_reduced_t){0};
  bool good = take_graph(&r, replay->text, replay->call, &r.best);
  out->before = good ? nodes_of(&r.best) : 0;
  for (bool any = good; any && !r.failed && r.tries < most_tries;) {
    any = keep_one_result(&r);
    while (go_up(&r))
      any = true;
    any |= cut_nodes(&r);
    any |= drop_others(&r);
    any |= drop_inputs(&r);
  }
  good = good && !r.failed && write_graph(&r, &r.best, &out->text, &out->call);
  out->nodes = nodes_of(&r.best);
  out->tries = r.tries;
  if (good && !replay->call) {
    free(out->call);
    out->call = NULL;
  }
  for (uint32_t k = 0; k < r.n_room; k++)
    free(r.room[k]);
  free(r.room);
  return good;
}
