/* SPDX-License-Identifier: MIT */
/* The first n lanes of 16-bit loads and stores, for ISAs without masks on 16-bit elements. */
#ifndef SEQMIX_CPU_VEC_VEC_HALF_TAILS_H
#define SEQMIX_CPU_VEC_VEC_HALF_TAILS_H

static inline vf v_load_bf16_n(const uint16_t *p, int n)
{
    uint16_t lanes[V_LANES] = {0};
    memcpy(lanes, p, (size_t)n * sizeof *lanes);
    return v_load_bf16(lanes);
}

static inline vf v_load_f16_n(const uint16_t *p, int n)
{
    uint16_t lanes[V_LANES] = {0};
    memcpy(lanes, p, (size_t)n * sizeof *lanes);
    return v_load_f16(lanes);
}

static inline void v_store_bf16_n(uint16_t *p, vf a, int n)
{
    uint16_t lanes[V_LANES];
    v_store_bf16(lanes, a);
    memcpy(p, lanes, (size_t)n * sizeof *lanes);
}

static inline void v_store_f16_n(uint16_t *p, vf a, int n)
{
    uint16_t lanes[V_LANES];
    v_store_f16(lanes, a);
    memcpy(p, lanes, (size_t)n * sizeof *lanes);
}

#endif
