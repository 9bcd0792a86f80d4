/* SPDX-License-Identifier: MIT */
/*
 * What the plain chunk forms share: the second reference, f32, built for the tests only. Log decays are summed inside a chunk
 * as unevaluated pairs, and only differences, none positive, are exponentiated (docs/NUMERICS.md).
 */
#ifndef SEQMIX_CPU_REF_CHUNK_PLAIN_H
#define SEQMIX_CPU_REF_CHUNK_PLAIN_H

#include "ref.h"

enum { PLAIN_CHUNK = 64 }; /* when the options leave it open */

struct log_sum {
    float high, low;
};

/* The rule for a row's log decay: positive counts as 0, NaN stays, nothing below -1e4. */
static inline float clean_log_decay(float g)
{
    g = !(g > 0) ? g : 0;
    return g < -1e4f ? -1e4f : g;
}

/* sum + g, g cleaned; TwoSum keeps what the addition rounds away. */
static inline struct log_sum add_log_decay(struct log_sum sum, float g)
{
    const float total = sum.high + g, part = total - sum.high;
    const float lost = (sum.high - (total - part)) + (g - part);
    const struct log_sum out = {total, sum.low + lost};
    return out;
}

/* exp(to - from), at most 1. */
static inline float decay_between(struct log_sum from, struct log_sum to)
{
    const float difference = (to.high - from.high) + (to.low - from.low);
    return expf(!(difference > 0) ? difference : 0);
}

/* exp of a sum itself: the decay since the chunk's start. */
static inline float decay_since_start(struct log_sum sum)
{
    const struct log_sum start = {0, 0};
    return decay_between(start, sum);
}

/* One head's state [n_outer, n_inner] (axes 2 and 3 of the pool) between the pool and contiguous floats; slot -1 is zeros on
 * reading and nothing on writing. */
void seqmix_plain_load_state(const seqmix_tensor *pool, int64_t slot, int64_t head, int64_t count, float *state);
void seqmix_plain_store_state(const seqmix_tensor *pool, int64_t slot, int64_t head, const float *state);

seqmix_status seqmix_ssd_chunk_plain_plan(const struct seqmix_context *ctx, const seqmix_ssd_args *args,
                                          struct seqmix_plan *plan);
seqmix_status seqmix_ssd_chunk_plain(struct seqmix_context *ctx, const seqmix_ssd_args *args, void *workspace);
seqmix_status seqmix_deltanet_chunk_plain_plan(const struct seqmix_context *ctx, const seqmix_deltanet_args *args,
                                               struct seqmix_plan *plan);
seqmix_status seqmix_deltanet_chunk_plain(struct seqmix_context *ctx, const seqmix_deltanet_args *args,
                                          void *workspace);

#endif
