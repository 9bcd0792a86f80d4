/* SPDX-License-Identifier: MIT */
/* Levels, not features: avx2 is x86-64-v3 whole. Built without -m flags, like everything that runs before the choice. */
#include "cpu_level.h"

#if defined(__x86_64__)
#    include <cpuid.h>
#    include <stdbool.h>

/* Registers that the operating system saves (XCR0); only to be read where OSXSAVE is set. */
static uint32_t enabled_state(void)
{
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

static bool has_avx2_level(void)
{
    const uint32_t sse3_to_f16c = bit_SSE3 | bit_SSSE3 | bit_FMA | bit_SSE4_1 | bit_SSE4_2 | bit_MOVBE | bit_POPCNT |
                                  bit_OSXSAVE | bit_AVX | bit_F16C;
    const uint32_t leaf7 = bit_AVX2 | bit_BMI | bit_BMI2, xmm_and_ymm = 6;
    uint32_t a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & sse3_to_f16c) != sse3_to_f16c) return false;
    if ((enabled_state() & xmm_and_ymm) != xmm_and_ymm) return false;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (b & leaf7) != leaf7) return false;
    return __get_cpuid(0x80000001u, &a, &b, &c, &d) && (c & bit_LZCNT) != 0;
}

int32_t seqmix_cpu_level(void)
{
    return has_avx2_level() ? SEQMIX_LEVEL_CPU_AVX2 : SEQMIX_LEVEL_CPU_GENERIC;
}
#else
int32_t seqmix_cpu_level(void)
{
    return SEQMIX_LEVEL_CPU_GENERIC;
}
#endif
