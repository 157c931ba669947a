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

// Runs a child and gives what its run returned, at most 255. One that does not end within the
// seconds writes its stack and is -1. The allocator of the address sanitizer takes no lock while a
// process forks, so a child of several threads may wait for one that is not there: in such a build
// one that did not end is made again, at most three times, and what it wrote stands in the log.
int process_child(int (*run)(void *arg), void *arg, unsigned seconds);

#endif // DT_TESTS_SUPPORT_PROCESS_H
