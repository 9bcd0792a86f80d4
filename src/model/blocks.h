/* SPDX-License-Identifier: MIT */
/*
 * What models are made of. A model is a run of blocks, each of which norms the residual, mixes or transforms it, and adds the
 * outcome: h = h + block(norm(h)). The kinds are Mamba-1's scan, Mamba-2's SSD, the gated delta rule, attention, MLP and
 * mixture of experts; each has a file with its binding and its forward pass, and no family has code of its own beyond names.
 */
#ifndef SEQMIX_MODEL_BLOCKS_H
#define SEQMIX_MODEL_BLOCKS_H

#include "caller.h"
#include "weights.h"

typedef struct seqmix_scan_block {
    seqmix_tensor in_proj, in_bias, conv, conv_bias, x_proj, dt_proj, dt_bias, A, skip, out_proj, out_bias;
} seqmix_scan_block;

typedef struct seqmix_ssd_block {
    seqmix_tensor in_proj, in_bias, conv, conv_bias, dt_bias, A, skip, norm, out_proj, out_bias;
} seqmix_ssd_block;

typedef struct seqmix_delta_block {
    seqmix_tensor qkv, z; /* rows of q, k, v of all heads; of the output gate */
    seqmix_tensor ba;     /* rows of beta, then of the decay's gate; f32 */
    seqmix_tensor conv, A, dt_bias, norm, out_proj;
} seqmix_delta_block;

typedef struct seqmix_attention_block {
    seqmix_tensor q, k, v, out; /* with a gate, q has the rows of each head's query, then of its gate */
    seqmix_tensor q_bias, k_bias, v_bias, out_bias, q_norm, k_norm;
} seqmix_attention_block;

typedef struct seqmix_mlp_block {
    seqmix_tensor gate, up, down, up_bias, down_bias; /* gate absent: relu(up)^2 */
} seqmix_mlp_block;

typedef struct seqmix_moe_block {
    seqmix_tensor router, bias, gate, up, down; /* the experts', [E, rows, columns] */
    seqmix_mlp_block shared;                    /* up absent: no shared expert */
    seqmix_tensor shared_router;                /* a row: its output's gate */
    seqmix_tensor latent_down, latent_up;       /* around the experts */
} seqmix_moe_block;

typedef struct seqmix_block {
    seqmix_kind kind;
    int64_t layer;
    seqmix_tensor norm;
    int64_t window_at, state_at; /* of a slot, in floats: the convolution's window, the recurrent state */
    int64_t cache;               /* attention: which of the caches */
    union {
        seqmix_scan_block scan;
        seqmix_ssd_block ssd;
        seqmix_delta_block delta;
        seqmix_attention_block attention;
        seqmix_mlp_block mlp;
        seqmix_moe_block moe;
    } u;
} seqmix_block;

/* Some rows of a sequence for one call of a step op: its row_begin, the first of them, its slots. */
enum { SEQMIX_STEP_MAX = 16 };
typedef struct seqmix_cut {
    int32_t begin[2], from, read, write;
} seqmix_cut;

/* Which rows a pass has. */
typedef struct seqmix_pass_arrays {
    const int32_t *tokens, *positions;                        /* [rows] */
    const int32_t *row_begin;                                 /* [n_seqs + 1] */
    const int32_t *read_slot, *write_slot, *start, *cache_of; /* [n_seqs]; start: rows before these */
    const int32_t *logit_rows;                                /* [n_logits] which rows need logits */
    const seqmix_cut *cuts;                                   /* [n_cuts] */
} seqmix_pass_arrays;

/* One forward pass over packed rows of one or more sequences. All arrays are the session's. */
typedef struct seqmix_pass {
    seqmix_caller *caller;
    seqmix_arena buffers; /* activations; counted when measuring */
    bool invariant;       /* one order of arithmetic for every row count */

    int64_t rows;
    int32_t n_seqs;
    int32_t longest;              /* rows of the longest sequence */
    seqmix_pass_arrays host, ops; /* the same arrays as the driver reads them, and as the ops do */

    int64_t n_logits, n_cuts; /* n_cuts > 0: a sequence has more rows than a step op takes, and the pass is invariant */
    float *logits;            /* [n_logits, vocab] */

    char *state; /* n_slots of state_bytes each */
    size_t state_bytes;
    int64_t n_slots;
    float *cache; /* per attention layer: keys, then values, [n_caches, context, kv heads, head dim] each */
    int64_t n_caches, context;
} seqmix_pass;

/* Binding and size of state per kind. Windows are [channels, K-1], states as the op has them. */
void seqmix_bind_scan(seqmix_binder *b, const seqmix_config *c, seqmix_scan_block *l);
void seqmix_bind_ssd(seqmix_binder *b, const seqmix_config *c, seqmix_ssd_block *l);
void seqmix_bind_delta(seqmix_binder *b, const seqmix_config *c, seqmix_delta_block *l);
void seqmix_bind_attention(seqmix_binder *b, const seqmix_config *c, seqmix_attention_block *l);
void seqmix_bind_mlp(seqmix_binder *b, const seqmix_config *c, seqmix_mlp_block *l);
void seqmix_bind_moe(seqmix_binder *b, const seqmix_config *c, seqmix_moe_block *l);
int64_t seqmix_window_floats(const seqmix_config *c, seqmix_kind kind);
int64_t seqmix_state_floats(const seqmix_config *c, seqmix_kind kind);
/* One attention layer's keys and values of one sequence. */
int64_t seqmix_cache_floats(const seqmix_config *c, int64_t context);

/* h = h + block(n); n = norm(h), both [rows, hidden]. */
seqmix_status seqmix_forward_scan(seqmix_pass *p, const seqmix_config *c, const seqmix_block *b, seqmix_tensor n,
                                  seqmix_tensor h);
seqmix_status seqmix_forward_ssd(seqmix_pass *p, const seqmix_config *c, const seqmix_block *b, seqmix_tensor n,
                                 seqmix_tensor h);
seqmix_status seqmix_forward_delta(seqmix_pass *p, const seqmix_config *c, const seqmix_block *b, seqmix_tensor n,
                                   seqmix_tensor h);
seqmix_status seqmix_forward_attention(seqmix_pass *p, const seqmix_config *c, const seqmix_block *b, seqmix_tensor n,
                                       seqmix_tensor h);
seqmix_status seqmix_forward_mlp(seqmix_pass *p, const seqmix_config *c, const seqmix_block *b, seqmix_tensor n,
                                 seqmix_tensor h);
seqmix_status seqmix_forward_moe(seqmix_pass *p, const seqmix_config *c, const seqmix_block *b, seqmix_tensor n,
                                 seqmix_tensor h);

#endif
