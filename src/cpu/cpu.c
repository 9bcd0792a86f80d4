/* SPDX-License-Identifier: MIT */
/* The CPU rungs: each starts as a copy of the one below and overwrites what its level does better. */
#include "cpu.h"

#include "cpu_level.h"

void seqmix_install__generic(struct seqmix_kernels *rung);
void seqmix_install__avx2(struct seqmix_kernels *rung);

/* One step of the ladder above rung 0. */
struct level {
    int32_t level;
    const char *name;
    void (*install)(struct seqmix_kernels *rung);
};

static const struct level levels[] = {
    {SEQMIX_LEVEL_CPU_GENERIC, "cpu-generic", seqmix_install__generic},
#ifdef SEQMIX_HAVE_AVX2
    {SEQMIX_LEVEL_CPU_AVX2, "cpu-avx2", seqmix_install__avx2},
#endif
};

enum { N_LEVELS = sizeof levels / sizeof *levels };

static struct seqmix_kernels rungs[N_LEVELS];

void seqmix_cpu_build_rungs(void)
{
    const struct seqmix_kernels *lower = &seqmix_kernels__ref;
    for (int i = 0; i < N_LEVELS; i++) {
        rungs[i] = *lower;
        rungs[i].lower = lower;
        rungs[i].level = levels[i].level;
        rungs[i].name = levels[i].name;
        levels[i].install(&rungs[i]);
        lower = &rungs[i];
    }
}

const struct seqmix_kernels *seqmix_cpu_rung(int32_t level_cap)
{
    const int32_t machine = seqmix_cpu_level();
    for (int i = N_LEVELS - 1; i >= 0; i--)
        if (rungs[i].level <= machine && (level_cap == SEQMIX_LEVEL_BEST || rungs[i].level <= level_cap))
            return &rungs[i];
    return &seqmix_kernels__ref;
}
