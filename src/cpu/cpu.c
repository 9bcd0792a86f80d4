/* SPDX-License-Identifier: MIT */
/* The CPU rungs: each starts as a copy of the one below and overwrites what its level does better. */
#include "cpu.h"

#include "cpu_level.h"

/* The slots of a level's own kernels, the others NULL: tables and not functions, whose code older machines could not run. */
extern const struct seqmix_kernels seqmix_kernels__generic;
extern const struct seqmix_kernels seqmix_kernels__avx2;
extern const struct seqmix_kernels seqmix_kernels__avx512;
extern const struct seqmix_kernels seqmix_kernels__amx;

/* One step of the ladder above rung 0. */
struct level {
    int32_t level;
    const char *name;
    const struct seqmix_kernels *kernels;
};

static const struct level levels[] = {
    {SEQMIX_LEVEL_CPU_GENERIC, "cpu-generic", &seqmix_kernels__generic},
#ifdef SEQMIX_HAVE_AVX2
    {SEQMIX_LEVEL_CPU_AVX2, "cpu-avx2", &seqmix_kernels__avx2},
#endif
#ifdef SEQMIX_HAVE_AVX512
    {SEQMIX_LEVEL_CPU_AVX512, "cpu-avx512", &seqmix_kernels__avx512},
#endif
#ifdef SEQMIX_HAVE_AMX
    {SEQMIX_LEVEL_CPU_AMX, "cpu-amx", &seqmix_kernels__amx},
#endif
};

enum { N_LEVELS = sizeof levels / sizeof *levels };

static struct seqmix_kernels rungs[N_LEVELS];

static void overwrite(struct seqmix_kernels *rung, const struct seqmix_kernels *kernels)
{
#define SEQMIX_OP(ID, op_name, family, step)                                                                           \
    if (kernels->op_name != NULL) {                                                                                    \
        rung->op_name = kernels->op_name;                                                                              \
        rung->op_name##_plan = kernels->op_name##_plan;                                                                \
    }
#include "ops.def"
}

void seqmix_cpu_build_rungs(void)
{
    const struct seqmix_kernels *lower = &seqmix_kernels__ref;
    for (int i = 0; i < N_LEVELS; i++) {
        rungs[i] = *lower;
        rungs[i].lower = lower;
        rungs[i].level = levels[i].level;
        rungs[i].name = levels[i].name;
        overwrite(&rungs[i], levels[i].kernels);
        lower = &rungs[i];
    }
}

const struct seqmix_kernels *seqmix_cpu_rung(int32_t level_cap)
{
    const int32_t level = seqmix_cpu_level(level_cap);
    for (int i = N_LEVELS - 1; i >= 0; i--)
        if (rungs[i].level <= level) return &rungs[i];
    return &seqmix_kernels__ref;
}
