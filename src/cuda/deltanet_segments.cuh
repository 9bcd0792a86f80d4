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

constexpr int KDA_ROWS = 16, KDA_WIDTH = 64; /* of deltanet_kda.cu: rows of a cell, columns of a block */

/* deltanet_kda.cu's case. */
static inline bool gates_per_channel(const seqmix_deltanet_args *a)
{
    return a->gate_kind != SEQMIX_GATE_NONE && a->gate.rank == 3;
}

/* Rows of a cell: the kernel's own, or fewer where the caller asks. */
static inline int rows_of_cell(const seqmix_deltanet_args *a)
{
    const int most = gates_per_channel(a) ? KDA_ROWS : C;
    return a->chunk > 0 && a->chunk < most ? a->chunk : most;
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

/* The widest block of a call's kernel, and the narrowest. */
static inline int64_t widest_of(const seqmix_deltanet_args *a)
{
    return gates_per_channel(a) ? KDA_WIDTH : a->v.dtype == SEQMIX_BF16 ? 128 : 64;
}
static inline int64_t narrowest_of(const seqmix_deltanet_args *a)
{
    return gates_per_channel(a) ? KDA_WIDTH : 32;
}

/* Blocks for that many heads of sequences or segments: what ends first if a processor runs its blocks one after the other. A block
 * of half the width takes about 0.8 of the time: it prepares the same cells. */
static inline struct cut cut_of(const struct seqmix_context *ctx, const seqmix_deltanet_args *a, int64_t heads)
{
    const int64_t processors = ctx->processors > 0 ? ctx->processors : 1, widest = widest_of(a);
    struct cut best = {widest, INT64_MAX};
    int64_t cost = widest == 128 ? 10 : 8;
    for (int64_t width = widest; width >= narrowest_of(a); width /= 2, cost -= 2) {
        const int64_t blocks = heads * ((a->v.shape[2] + width - 1) / width),
                      time = (blocks + processors - 1) / processors * cost;
        if (time <= best.time) best = {width, time};
    }
    return best;
}

/* A block's columns, head, segment and sequence, for outputs. */
template <int WIDTH>
DV_DEV void find_segment(const seqmix_deltanet_args &a, const seqmix_batch &batch, const segments &cut, int64_t task,
                         work &w)
{
    const int64_t tiles = (a.v.shape[2] + WIDTH - 1) / WIDTH, heads = a.v.shape[1], at = task / tiles / heads;
    find_work(a, batch, at / cut.count * heads + task / tiles % heads, task % tiles * WIDTH, WIDTH, a.v.shape[2], w);
    if (cut.count == 1) return;
    w.segment = at % cut.count;
    w.begin += w.segment * cut.rows;
    if (w.begin > w.seq.end) w.begin = w.seq.end;
    if (w.end > w.begin + cut.rows) w.end = w.begin + cut.rows;
    w.from = cut.states;
    w.read = (int32_t)at;
    if (w.end < w.seq.end) w.write = -1;
}

/* The same for what a segment leaves: tiles of E in the first segment, of E and T in others; heads, sequences. Nothing follows a
 * segment whose end is not before the sequence's. */
template <int WIDTH>
DV_DEV void find_end(const seqmix_deltanet_args &a, const seqmix_batch &batch, const segments &cut, int64_t task,
                     work &w)
{
    const int64_t of_values = (a.v.shape[2] + WIDTH - 1) / WIDTH, of_keys = (a.k.shape[2] + WIDTH - 1) / WIDTH;
    const int64_t each = of_values + of_keys, tiles = (cut.count - 1) * each - of_keys, heads = a.v.shape[1];
    const int64_t tile = task % tiles + (task % tiles < of_values ? 0 : of_keys);
    const bool ends = tile % each < of_values;
    find_work(a, batch, task / tiles, (ends ? tile % each : tile % each - of_values) * WIDTH, WIDTH,
              ends ? a.v.shape[2] : a.k.shape[2], w);
    w.segment = tile / each;
    w.begin += w.segment * cut.rows;
    w.end = w.begin + cut.rows;
    if (w.segment > 0) w.read = -1;
    w.to = ends ? cut.states : cut.transitions;
    w.write = (int32_t)(task / tiles / heads * cut.count + w.segment + (ends ? 1 : 0));
    w.identity = !ends;
}

/* Blocks that find_end knows. */
static inline int64_t end_tasks(const seqmix_deltanet_args *a, const segments &cut, int64_t width)
{
    const int64_t of_values = (a->v.shape[2] + width - 1) / width, of_keys = (a->k.shape[2] + width - 1) / width;
    return a->batch->n_seqs * a->v.shape[1] * ((cut.count - 1) * (of_values + of_keys) - of_keys);
}

/* Into how many segments a call's sequences are cut; workspace for any call of no more rows and sequences. */
extern "C" { /* so that their names keep the prefix */
int64_t seqmix_deltanet_segment_count(const struct seqmix_context *ctx, const seqmix_deltanet_args *a);
size_t seqmix_deltanet_segment_bytes(const struct seqmix_context *ctx, const seqmix_deltanet_args *a);
/* deltanet_kda.cu: shared memory that a type needs, outputs, and ends. */
size_t seqmix_deltanet_kda_shared(int32_t dtype);
int seqmix_deltanet_kda(const struct seqmix_context *ctx, const seqmix_deltanet_args *a, const struct segments *cut);
int seqmix_deltanet_kda_ends(const struct seqmix_context *ctx, const seqmix_deltanet_args *a,
                             const struct segments *cut);
/* The call's cut, and enqueued what makes the states before all segments, where there are several. */
int seqmix_deltanet_segment_states(const struct seqmix_context *ctx, const seqmix_deltanet_args *a, void *workspace,
                                   struct segments *out);
}

#endif
