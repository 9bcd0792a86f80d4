#ifdef SEQMIX_KERN
/* SPDX-License-Identifier: MIT */
/* The CPU rungs: each starts as a copy of the one below and overwrites what its level does better. */
#define _POSIX_C_SOURCE 200809L
#include "cpu.h"

#include <pthread.h>

#include "cpuid.h"

void seqmix_install__generic(struct seqmix_kernels *rung);
void seqmix_install__avx2(struct seqmix_kernels *rung);

/* One step of the ladder above rung 0. */
struct level {
    int32_t level;
    const char *name;
    void (*install)(struct seqmix_kernels *rung);
};

static const struct level levels[] = {{SEQMIX_LEVEL_CPU_GENERIC, "cpu-generic", seqmix_install__generic},
#if defined(__x86_64__)
                                      {SEQMIX_LEVEL_CPU_AVX2, "cpu-avx2", seqmix_install__avx2}
#endif
};

enum { N_LEVELS = sizeof levels / sizeof *levels };

static struct seqmix_kernels rungs[N_LEVELS];
static pthread_once_t built = PTHREAD_ONCE_INIT;

static void build(void)
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
    pthread_once(&built, build);
    for (int i = N_LEVELS - 1; i >= 0; i--)
        if (rungs[i].level <= machine && (level_cap == SEQMIX_LEVEL_BEST || rungs[i].level <= level_cap)) return &rungs[i];
    return &seqmix_kernels__ref;
}
#else
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
#endif
