/* SPDX-License-Identifier: MIT */
/* Levels, not features: avx2 is x86-64-v3 whole, avx512 is x86-64-v4. Built without -m flags, like everything that runs before
 * the choice. */
#define _GNU_SOURCE
#include "cpu_level.h"

#include <stdbool.h>

#if defined(__x86_64__)
#    include <cpuid.h>

#    if defined(__linux__)
#        include <sys/syscall.h>
#        include <unistd.h>
#    endif

/* Registers that the operating system saves (XCR0). */
enum { STATE_AVX = 0x6, STATE_AVX512 = 0xe6, STATE_AMX = 0x60000 };

static bool saves_state(uint32_t wanted)
{
    uint32_t a, b, c, d, high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & bit_OSXSAVE) == 0) return false;
    __asm__ volatile("xgetbv" : "=a"(a), "=d"(high) : "c"(0));
    return (a & wanted) == wanted;
}

static bool has_avx2_level(void)
{
    const uint32_t sse3_to_f16c =
        bit_SSE3 | bit_SSSE3 | bit_FMA | bit_SSE4_1 | bit_SSE4_2 | bit_MOVBE | bit_POPCNT | bit_AVX | bit_F16C;
    const uint32_t leaf7 = bit_AVX2 | bit_BMI | bit_BMI2;
    uint32_t a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & sse3_to_f16c) != sse3_to_f16c || !saves_state(STATE_AVX)) return false;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (b & leaf7) != leaf7) return false;
    return __get_cpuid(0x80000001u, &a, &b, &c, &d) && (c & bit_LZCNT) != 0;
}

static bool has_avx512_level(void)
{
    const uint32_t leaf7 = bit_AVX512F | bit_AVX512BW | bit_AVX512CD | bit_AVX512DQ | bit_AVX512VL;
    uint32_t a, b, c, d;
    return has_avx2_level() && saves_state(STATE_AVX512) && __get_cpuid_count(7, 0, &a, &b, &c, &d) &&
           (b & leaf7) == leaf7;
}

/* Linux lets a process use tiles only once it has asked, since they enlarge what every signal saves. */
static bool may_use_tiles(void)
{
#    if defined(__linux__)
    const long request_permission = 0x1023, tile_data = 18; /* ARCH_REQ_XCOMP_PERM, the bit of XCR0 */
    return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
#    else
    return false;
#    endif
}

/* AMX for bf16, and the AVX-512 conversions to bf16 that every such machine has. */
static bool has_amx_level(void)
{
    const uint32_t amx_bf16 = 1u << 22, amx_tile = 1u << 24, avx512_bf16 = 1u << 5;
    uint32_t a, b, c, d;
    if (!has_avx512_level() || !saves_state(STATE_AMX)) return false;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & amx_bf16) == 0 || (d & amx_tile) == 0) return false;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & avx512_bf16) != 0 && may_use_tiles();
}

#else
static bool has_avx2_level(void)
{
    return false;
}

static bool has_avx512_level(void)
{
    return false;
}

static bool has_amx_level(void)
{
    return false;
}
#endif

int32_t seqmix_cpu_level(int32_t cap)
{
    if (cap == SEQMIX_LEVEL_BEST) cap = INT32_MAX;
    if (cap >= SEQMIX_LEVEL_CPU_AMX && has_amx_level()) return SEQMIX_LEVEL_CPU_AMX;
    if (cap >= SEQMIX_LEVEL_CPU_AVX512 && has_avx512_level()) return SEQMIX_LEVEL_CPU_AVX512;
    if (cap >= SEQMIX_LEVEL_CPU_AVX2 && has_avx2_level()) return SEQMIX_LEVEL_CPU_AVX2;
    return cap >= SEQMIX_LEVEL_CPU_GENERIC ? SEQMIX_LEVEL_CPU_GENERIC : SEQMIX_LEVEL_CPU_REF;
}
