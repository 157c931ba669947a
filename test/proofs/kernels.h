// SPDX-License-Identifier: Apache-2.0
// What must hold of the loops and the memory plan of a program, for all sizes its guards let in:
// every access is inside its buffer, no address wraps, and what lives at the same time never shares
// memory. Each claim is put to the simplifier first and to Z3 where that has no answer; of what the
// simplifier answers, Z3 repeats a share.
#ifndef DT_TESTS_PROOFS_KERNELS_H
#define DT_TESTS_PROOFS_KERNELS_H

#include "lower/loop/loop.h"
#include "runtime/trace/trace.h"
#include "test/proofs/kernels_z3.h"

typedef struct kp_options_t {
  uint32_t share;     // every share-th access that the simplifier answers is repeated by Z3; 1: all
  unsigned limit_ms;  // of a query
  unsigned repeat_ms; // of one that repeats what the simplifier answered
  bool quiet;         // what is not proved is counted only: controls
} kp_options_t;

typedef struct kp_counts_t {
  uint32_t programs, kernels, accesses, obligations;
  uint32_t by_ranges; // proved by the simplifier
  uint32_t by_z3;
  uint32_t checked;                        // proved from the check that a BIND makes at run time
  uint32_t open;                           // not proved: refuted, or no answer
  uint32_t refuted;                        // of these, with a counterexample
  uint32_t repeated, unsure, contradicted; // Z3 on what the simplifier answered
  double seconds;
} kp_counts_t;
void kp_add(kp_counts_t *sum, const kp_counts_t *counts);

typedef struct kp_t {
  const char *name;
  dt_program_t *program;
  kz_t *kz;
  const kp_options_t *options;
  kp_counts_t counts;
  uint32_t sampled; // accesses seen, for the share
} kp_t;

// A program with what it was made from; `drop` is an assumption to forget (a control), or
// UINT32_MAX.
typedef struct kp_made_t {
  const dt_trace_request_t *request; // borrowed
  dt_traced_t *traced;
  dt_symenv_t *env; // a clone of the traced one
  dt_arena_t arena;
  dt_program_t *program;
  uint32_t drop;
} kp_made_t;
// The program of `request` after `stage`; false says why. kp_unmake in any case.
bool kp_make(const dt_trace_request_t *request, const char *stage, kp_made_t *out);
// After the last stage, for a GPU.
bool kp_make_on_gpu(const dt_trace_request_t *request, kp_made_t *out);
void kp_unmake(kp_made_t *made);
// Proves what must hold of it.
void kp_prove_made(const char *name, const kp_made_t *made, const kp_options_t *options,
                   kp_counts_t *counts);

// ---- Its parts ------------------------------------------------------------------------------------
void kp_prove_kernel(kp_t *kp, uint32_t kernel); // kernels_access.c
void kp_prove_plan(kp_t *kp);                    // kernels_plan.c
// ---- kernels_place.c
// What the host's loop over slices says while the kernel runs: where its slice begins and how long
// it is. Nothing for a kernel that runs whole.
void kp_given_slice(kp_t *kp, uint32_t kernel);
// That the host's loop over slices is one (its step is 1 or more, and its end does not wrap), and
// that of temporaries of one slice no kernel touches rows beyond those of the slice at work.
void kp_prove_slices(kp_t *kp);
// Buffer `b` (an index) is a temporary that only kernels of the slices use, stored before it is
// loaded: what one slice leaves there no other one reads.
bool kp_of_slice(const dt_program_t *program, uint32_t b, const dt_program_slices_t *slices);
// Buffer `fresh` may have the very memory of `old` in kernel k, which reads `old` last and is the
// first to write `fresh`, by their kinds and by the order in which the kernel is run.
bool kp_may_replace(const kp_t *kp, uint32_t old, uint32_t fresh, uint32_t k);
// That kernel k stores no element of `fresh` before all its loads of the same element of `old`.
void kp_prove_in_place(kp_t *kp, uint32_t old, uint32_t fresh, uint32_t k);
// Counts a claim that Z3 was asked about, and says what is not proved. `text` names it.
void kp_judge(kp_t *kp, verdict_t verdict, bool checked, const char *text, char *model);

// ---- Programs -------------------------------------------------------------------------------------
// Traces `request`, once for contiguous arguments and once for strided ones, runs the pipeline up
// to "lower" and to its end, and proves all that come out.
void kp_prove_request(const dt_trace_request_t *request, const kp_options_t *options,
                      kp_counts_t *counts);

// Every known program, and random ones of the seeds 1 … n_random; printed as a table. `only`: part
// of the name of a row, or NULL. Returns the sum; a program that could not be made counts as open.
kp_counts_t kp_prove_all(const kp_options_t *options, const char *only, uint32_t n_random);
// Programs with a fault put in: each must be refuted. Returns how many were not.
uint32_t kp_controls(void);
// The facts that turn an index inside its sizes into an address inside its buffer. Returns how many
// were not proved.
uint32_t kp_lemmas(void);

#endif // DT_TESTS_PROOFS_KERNELS_H
