/* SPDX-License-Identifier: MIT */
/* The CPU rungs, best first. */
#include "cpu.h"

static const struct seqmix_kernels *const rungs[] = {&seqmix_kernels__ref};

const struct seqmix_kernels *seqmix_cpu_rung(int32_t level_cap)
{
    const size_t last = sizeof rungs / sizeof *rungs - 1;
    for (size_t i = 0; i < last; i++)
        if (level_cap == SEQMIX_LEVEL_BEST || rungs[i]->level <= level_cap) return rungs[i];
    return rungs[last];
}
