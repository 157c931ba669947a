// SPDX-License-Identifier: Apache-2.0
// XXH3 behind two calls. A hash finds candidates; identity is always a comparison of full keys.
#ifndef DT_RUNTIME_BASE_HASH_H
#define DT_RUNTIME_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t dt__hash(const void *data, size_t bytes, uint64_t seed);
uint64_t dt__hash_mix(uint64_t a, uint64_t b); // order matters

#endif // DT_RUNTIME_BASE_HASH_H
