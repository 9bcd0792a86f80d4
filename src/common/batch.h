/* SPDX-License-Identifier: MIT */
/*
 * Walking seqmix_batch on the host. Kernels see a normalised batch: n_seqs and max_rows resolved, arrays as the caller gave
 * them (NULL keeps its meaning), and with no state pool every slot is -1.
 */
#ifndef SEQMIX_COMMON_BATCH_H
#define SEQMIX_COMMON_BATCH_H

#include "tensor.h"

enum { SEQMIX_STEP_ROWS = 16 }; /* most rows of one sequence in a _step call */

/* One sequence of the call. */
struct seqmix_seq {
    int64_t begin, end; /* rows */
    int64_t read_slot, write_slot;
    int32_t ckpt_begin, ckpt_end; /* its range in the checkpoint arrays */
};

/* Resolves the defaults of `batch` (NULL = none given) for a call over `rows` rows into `out`. */
static inline void seqmix_batch_normalise(const seqmix_batch *batch, int64_t rows, bool step, seqmix_batch *out)
{
    static const seqmix_batch none = {0};
    *out = batch != NULL ? *batch : none;
    if (out->n_seqs == 0) out->n_seqs = step && out->row_begin == NULL ? (int32_t)rows : 1;
    if (out->max_rows == 0) out->max_rows = step && out->row_begin == NULL ? 1 : (int32_t)rows;
}

/* First checkpoint whose sequence is >= seq. */
static inline int32_t seqmix_ckpt_lower(const seqmix_batch *batch, int32_t seq)
{
    int32_t low = 0, high = batch->n_checkpoints;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if (batch->ckpt_seq[middle] < seq)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Sequence i of a normalised batch over `rows` rows; `pool` may be absent. */
static inline struct seqmix_seq seqmix_batch_seq(const seqmix_batch *batch, int64_t rows, const seqmix_tensor *pool,
                                                 int32_t i)
{
    struct seqmix_seq seq = {0, rows, -1, -1, 0, 0};
    if (batch->row_begin != NULL) {
        seq.begin = batch->row_begin[i];
        seq.end = batch->row_begin[i + 1];
    } else if (batch->n_seqs > 1) { /* _step: one row each */
        seq.begin = i;
        seq.end = i + 1;
    }
    if (!seqmix_present(pool)) return seq;
    seq.read_slot = batch->read_slot != NULL ? batch->read_slot[i] : i;
    seq.write_slot = batch->write_slot != NULL ? batch->write_slot[i] : seq.read_slot;
    if (batch->n_checkpoints > 0) {
        seq.ckpt_begin = seqmix_ckpt_lower(batch, i);
        seq.ckpt_end = seqmix_ckpt_lower(batch, i + 1);
    }
    return seq;
}

#endif
