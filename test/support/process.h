// SPDX-License-Identifier: Apache-2.0
// What this process holds, as the system tells it: for tests after which nothing may be left. A
// negative count: it cannot be told.
#ifndef DT_TESTS_SUPPORT_PROCESS_H
#define DT_TESTS_SUPPORT_PROCESS_H

long process_descriptors(void);
long process_mappings(void);

// The threads, once there are at most `expected` of them or after some seconds: a thread that was
// joined is listed for a moment yet.
long process_threads(long expected);

#endif // DT_TESTS_SUPPORT_PROCESS_H
