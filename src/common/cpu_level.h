/* SPDX-License-Identifier: MIT */
#ifndef SEQMIX_COMMON_CPU_LEVEL_H
#define SEQMIX_COMMON_CPU_LEVEL_H

#include <seqmix/seqmix.h>

/* The highest SEQMIX_LEVEL_CPU_* whose instructions this machine and its operating system have. */
int32_t seqmix_cpu_level(void);

#endif
