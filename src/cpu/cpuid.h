/* SPDX-License-Identifier: MIT */
#ifndef SEQMIX_CPU_CPUID_H
#define SEQMIX_CPU_CPUID_H

#include <seqmix/seqmix.h>

/* The highest SEQMIX_LEVEL_CPU_* whose instructions this machine and its operating system have. */
int32_t seqmix_cpu_level(void);

#endif
