/* SPDX-License-Identifier: MIT */
/* Stands in for src/common/cpu_level.c where the levels above avx2 are emulated: with avx2, a machine has them all. */
#include "cpu_level.h"

int32_t seqmix_cpu_level(int32_t cap)
{
#ifdef SEQMIX_HAVE_AMX
    const int32_t top = SEQMIX_LEVEL_CPU_AMX;
#else
    const int32_t top = SEQMIX_LEVEL_CPU_AVX512;
#endif
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return SEQMIX_LEVEL_CPU_GENERIC;
    return cap == SEQMIX_LEVEL_BEST || cap > top ? top : cap;
}
