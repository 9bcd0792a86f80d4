/* SPDX-License-Identifier: MIT */
/*
 * The powers 2^(j/8) as bits from which j*2^20 is taken away: adding a count of eighths, 20 bits up, restores the fraction and
 * moves the exponent. Twice over, for ISAs that look up 16 entries at once.
 */
#ifndef SEQMIX_CPU_VEC_VEC_EIGHTHS_H
#define SEQMIX_CPU_VEC_VEC_EIGHTHS_H

#include <stdint.h>

static const int32_t v_eighths[16] = {
    0x3f800000, 0x3f7b95c2, 0x3f7837f0, 0x3f75fed7, 0x3f7504f3, 0x3f75672a, 0x3f7744fd, 0x3f7ac0c7,
    0x3f800000, 0x3f7b95c2, 0x3f7837f0, 0x3f75fed7, 0x3f7504f3, 0x3f75672a, 0x3f7744fd, 0x3f7ac0c7,
};

#endif
