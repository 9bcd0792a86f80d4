/* SPDX-License-Identifier: MIT */
/* Chooses the rung of a context; the only reader of the environment. */
#define _POSIX_C_SOURCE 200809L
#include "dispatch.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "../cpu/cpu.h"
#include "../cuda/cuda.h"
#include "status.h"

struct level_name {
    const char *name;
    int32_t level;
};

static const struct level_name cpu_levels[] = {{"ref", SEQMIX_LEVEL_CPU_REF},   {"generic", SEQMIX_LEVEL_CPU_GENERIC},
                                               {"avx2", SEQMIX_LEVEL_CPU_AVX2}, {"avx512", SEQMIX_LEVEL_CPU_AVX512},
                                               {"amx", SEQMIX_LEVEL_CPU_AMX},   {NULL, 0}};
static const struct level_name cuda_levels[] = {{"simple", SEQMIX_LEVEL_CUDA_SIMPLE},
                                                {"sm80", SEQMIX_LEVEL_CUDA_SM80},
                                                {"sm90", SEQMIX_LEVEL_CUDA_SM90},
                                                {NULL, 0}};

static pthread_once_t cpu_rungs = PTHREAD_ONCE_INIT, cuda_rungs = PTHREAD_ONCE_INIT;

/* Lowers *cap to what the environment allows; a name it does not know is an error, never ignored. */
static seqmix_status cap_from_environment(const char *variable, const struct level_name *levels, int32_t *cap,
                                          char *why, size_t why_len)
{
    const char *name = getenv(variable);
    if (name == NULL || *name == '\0') return SEQMIX_OK;
    for (; levels->name != NULL; levels++) {
        if (strcmp(levels->name, name) != 0) continue;
        if (*cap == SEQMIX_LEVEL_BEST || levels->level < *cap) *cap = levels->level;
        return SEQMIX_OK;
    }
    return seqmix_fail_text(why, why_len, SEQMIX_ERR_INVALID_ARG, "%s=%s is no level", variable, name);
}

seqmix_status seqmix_choose_rung(const seqmix_ctx_desc *desc, const struct seqmix_kernels **rung, char *why,
                                 size_t why_len)
{
    int32_t cap = desc->level_cap;
    if (desc->backend == SEQMIX_BACKEND_CUDA) {
        SEQMIX_TRY(cap_from_environment("SEQMIX_CUDA_LEVEL", cuda_levels, &cap, why, why_len));
        pthread_once(&cuda_rungs, seqmix_cuda_build_rungs);
        return seqmix_cuda_open(desc->device, cap, rung, why, why_len);
    }
    SEQMIX_TRY(cap_from_environment("SEQMIX_LEVEL", cpu_levels, &cap, why, why_len));
    pthread_once(&cpu_rungs, seqmix_cpu_build_rungs);
    *rung = seqmix_cpu_rung(cap);
    return SEQMIX_OK;
}

/* No struct of ours will come near this size: a larger one is a mistake, not a newer version. */
enum { ABSURD_STRUCT = 4096 };

seqmix_status seqmix_copy_struct(void *to, size_t size, const void *from, const char *what, char *why, size_t why_len)
{
    uint32_t given;
    memcpy(&given, from, sizeof given);
    if (given < sizeof given || given > ABSURD_STRUCT)
        return seqmix_fail_text(why, why_len, SEQMIX_ERR_INVALID_ARG,
                                "%s.struct_size=%u is not set (this library's is %zu)", what, given, size);
    for (size_t i = size; i < given; i++)
        if (((const unsigned char *)from)[i] != 0)
            return seqmix_fail_text(why, why_len, SEQMIX_ERR_STRUCT_TOO_NEW,
                                    "%s.struct_size=%u and byte %zu is not 0: this library knows %zu bytes", what,
                                    given, i, size);
    memset(to, 0, size);
    memcpy(to, from, given < size ? given : size);
    return SEQMIX_OK;
}
