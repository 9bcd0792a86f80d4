/* SPDX-License-Identifier: MIT */
#ifndef SEQMIX_COMMON_CPU_LEVEL_H
#define SEQMIX_COMMON_CPU_LEVEL_H

#include <seqmix/seqmix.h>

/* The highest SEQMIX_LEVEL_CPU_* up to `cap` (0 = no cap) whose instructions this machine and its operating system have.
 * Where the answer is AMX, the process has been given leave to use it. */
int32_t seqmix_cpu_level(int32_t cap);

#endif
