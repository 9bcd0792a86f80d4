/* SPDX-License-Identifier: MIT */
/*
 * Segments of sequences, for contexts with SEQMIX_CTX_FAST (deltanet_segments.cu): how rows are cut when sequences and heads are too few
 * for the device, and what deltanet.cu must know of it.
 */
#ifndef SEQMIX_CUDA_DELTANET_SEGMENTS_CUH
#define SEQMIX_CUDA_DELTANET_SEGMENTS_CUH

#include "ctx.h"
#include "deltanet_state.cuh"

/* Sequence i has segments i*count to i*count + count-1, `rows` rows each; those past its end are empty. One segment is the whole
 * sequence, and there is nothing else then. */
struct segments {
    int64_t count, rows;
    seqmix_tensor states;      /* f32, [segment, HV, DK, DV]: the state before each */
    seqmix_tensor transitions; /* f32, [segment, HV, DK, DK]: what each does to a state */
};

/* Rows of a cell: the kernel's own, or fewer where the caller asks. */
static inline int rows_of_cell(const seqmix_deltanet_args *a)
{
    return a->chunk > 0 && a->chunk < C ? a->chunk : C;
}

/* Whether all rows may be taken in pieces of 16 bytes. */
static inline bool all_in_pieces(const seqmix_deltanet_args *a)
{
    const seqmix_tensor *rows[4] = {&a->q, &a->k, &a->v, &a->o};
    bool fits = true;
    for (int i = 0; i < 4; i++) {
        const int64_t bytes = rows[i]->dtype == SEQMIX_F32 ? 4 : 2;
        fits = fits && reinterpret_cast<uintptr_t>(rows[i]->data) % 16 == 0 && rows[i]->stride[0] * bytes % 16 == 0 &&
               rows[i]->stride[1] * bytes % 16 == 0;
    }
    return fits;
}

/* Columns of a block, and the time of a cell, in tenths of that of a block of 128 columns alone on its processor. */
struct cut {
    int64_t width, time;
};

/* Blocks of at most `widest` columns for that many heads of sequences or segments: what ends first if a processor runs its blocks
 * one after the other. A block of half the width takes about 0.8 of the time: it prepares the same cells. */
static inline struct cut cut_of(const struct seqmix_context *ctx, int64_t heads, int64_t columns, int64_t widest)
{
    const int64_t processors = ctx->processors > 0 ? ctx->processors : 1;
    struct cut best = {widest, INT64_MAX};
    int64_t cost = widest == 128 ? 10 : 8;
    for (int64_t width = widest; width >= 32; width /= 2, cost -= 2) {
        const int64_t blocks = heads * ((columns + width - 1) / width),
                      time = (blocks + processors - 1) / processors * cost;
        if (time <= best.time) best = {width, time};
    }
    return best;
}

/* The widest block of a type. */
static inline int64_t widest_of(const seqmix_deltanet_args *a)
{
    return a->v.dtype == SEQMIX_BF16 ? 128 : 64;
}

/* Into how many segments a call's sequences are cut; workspace for any call of no more rows and sequences. */
extern "C" { /* so that their names keep the prefix */
int64_t seqmix_deltanet_segment_count(const struct seqmix_context *ctx, const seqmix_deltanet_args *a);
size_t seqmix_deltanet_segment_bytes(const struct seqmix_context *ctx, const seqmix_deltanet_args *a);
/* Gates per key channel are deltanet_kda.cu's. */
seqmix_status seqmix_deltanet_kda_plan(const struct seqmix_context *ctx, const seqmix_deltanet_args *a,
                                       struct seqmix_plan *plan);
int seqmix_deltanet_kda(const struct seqmix_context *ctx, const seqmix_deltanet_args *a);
/* The call's cut, and enqueued what makes the states before all segments, where there are several. */
int seqmix_deltanet_segment_states(const struct seqmix_context *ctx, const seqmix_deltanet_args *a, void *workspace,
                                   struct segments *out);
}

#endif
