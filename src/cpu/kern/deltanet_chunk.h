/* SPDX-License-Identifier: MIT */
/*
 * A chunk of rows of the delta rule (deltanet.c): q and k of a key head with their products, and what the gates of a value head
 * make of them. Decays per channel go into the vectors themselves, before the products are formed; one decay a row stays outside.
 */
#ifndef SEQMIX_CPU_KERN_DELTANET_CHUNK_H
#define SEQMIX_CPU_KERN_DELTANET_CHUNK_H

#include "chunk_tile.h"
#include "deltanet_row.h"
#include "workspace.h"

enum { DELTA_STRIDE = 2 * CHUNK }; /* coefficients of a key channel: k of all rows, then q */

struct delta_chunk {
    float *rows;  /* [2*CHUNK][DK]: k, then q, as they come */
    float *read;  /* [DK][DELTA_STRIDE]: what multiplies S; per channel with the decays since the chunk's start */
    float *write; /* [DK][DELTA_STRIDE]: k, what goes with u into S; per channel with the decays up to `written` rows */
    float *decay; /* [CHUNK][DK], per channel: of each row */
    float *product;                               /* [DK], per channel: of the first `written` rows */
    float k_k[CHUNK * CHUNK], q_k[CHUNK * CHUNK]; /* products of the rows, j <= i */
};

/* What a value head's gates make of a chunk. */
struct delta_gates {
    float solve[CHUNK * CHUNK], mix[CHUNK * CHUNK]; /* A_ij, j < i; (q_i.(L_ij.k_j)), 0 above the diagonal */
    float decays[CHUNK * CHUNK];                    /* L_ij; per channel 1 */
    float from_start[CHUNK], beta[CHUNK];           /* c_0*...*c_i; per channel 1 */
    bool per_channel;
};

static inline void delta_chunk_layout(const seqmix_deltanet_args *a, struct delta_chunk *c,
                                      struct seqmix_cursor *cursor)
{
    const size_t dim =
        a->k.shape[2] > 0 ? (size_t)a->k.shape[2] : 1; /* no part of no size: its pointer would be NULL */
    const bool per_channel = a->gate.rank == 3;
    c->rows = seqmix_take(cursor, 2 * CHUNK * dim * sizeof(float));
    c->read = seqmix_take(cursor, DELTA_STRIDE * dim * sizeof(float));
    c->write = per_channel ? seqmix_take(cursor, DELTA_STRIDE * dim * sizeof(float)) : c->read;
    c->decay = per_channel ? seqmix_take(cursor, CHUNK * dim * sizeof(float)) : NULL;
    c->product = per_channel ? seqmix_take(cursor, dim * sizeof(float)) : NULL;
}

/* The rows [begin, begin+n) of a key head; rows past them are zeros. */
static inline void delta_chunk_prepare(const seqmix_deltanet_args *a, int64_t begin, int n, int64_t key_head,
                                       struct delta_chunk *c)
{
    const int64_t dim = a->k.shape[2];
    float *k = c->rows, *q = k + CHUNK * dim;
    for (int i = 0; i < n; i++) {
        delta_key(a, &a->k, begin + i, key_head, k + i * dim);
        delta_key(a, &a->q, begin + i, key_head, q + i * dim);
    }
    memset(k + n * dim, 0, (size_t)((CHUNK - n) * dim) * sizeof *k);
    memset(q + n * dim, 0, (size_t)((CHUNK - n) * dim) * sizeof *q);
    if (c->decay != NULL) return;
    chunk_pack(k, dim, dim, c->read, DELTA_STRIDE);
    chunk_pack(q, dim, dim, c->read + CHUNK, DELTA_STRIDE);
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= i; j++) {
            c->k_k[i * CHUNK + j] = row_dot(k + i * dim, k + j * dim, dim);
            c->q_k[i * CHUNK + j] = row_dot(q + i * dim, k + j * dim, dim);
        }
}

/* x[d] *= y[d] */
static inline void scale_channels(float *x, const float *y, int64_t dim)
{
    int64_t d = 0;
    for (; d + V_LANES <= dim; d += V_LANES)
        v_store(x + d, v_mul(v_load(x + d), v_load(y + d)));
    for (; d < dim; d++)
        x[d] *= y[d];
}

/* write = k of the first n rows with the decays from each on, product = the decays of all n. */
static inline void write_channels(const struct delta_chunk *c, int64_t dim, int n)
{
    float product[DELTA_DIM];
    for (int64_t d = 0; d < dim; d++)
        product[d] = 1;
    for (int j = n - 1; j >= 0; j--) {
        for (int64_t d = 0; d < dim; d++)
            c->write[d * DELTA_STRIDE + j] = product[d] * c->rows[j * dim + d];
        scale_channels(product, c->decay + j * dim, dim);
    }
    memcpy(c->product, product, (size_t)dim * sizeof *product);
}

/* Products and vectors of a value head with decays per channel. */
static inline void decay_channels(const seqmix_deltanet_args *a, int64_t begin, int n, int64_t h, struct delta_chunk *c)
{
    const int64_t dim = a->k.shape[2];
    const float *k = c->rows, *q = k + CHUNK * dim;
    float product[DELTA_DIM], key[DELTA_DIM];
    for (int i = 0; i < n; i++)
        delta_decays(a, begin + i, h, c->decay + i * dim);
    memset(c->read, 0, (size_t)(DELTA_STRIDE * dim) * sizeof *c->read);
    for (int64_t d = 0; d < dim; d++)
        product[d] = 1;
    for (int i = 0; i < n; i++) {
        scale_channels(product, c->decay + i * dim, dim);
        for (int64_t d = 0; d < dim; d++) {
            c->read[d * DELTA_STRIDE + i] = product[d] * k[i * dim + d];
            c->read[d * DELTA_STRIDE + CHUNK + i] = product[d] * q[i * dim + d];
        }
    }
    for (int j = 0; j < n; j++) {
        memcpy(key, k + j * dim, (size_t)dim * sizeof *key);
        for (int i = j; i < n; i++) {
            if (i > j) scale_channels(key, c->decay + i * dim, dim);
            c->k_k[i * CHUNK + j] = row_dot(k + i * dim, key, dim);
            c->q_k[i * CHUNK + j] = row_dot(q + i * dim, key, dim);
        }
    }
    write_channels(c, dim, n);
}

/* The gates of value head h for the prepared chunk. */
static inline void delta_chunk_gates(const seqmix_deltanet_args *a, int64_t begin, int n, int64_t h,
                                     struct delta_chunk *c, struct delta_gates *g)
{
    float decay[CHUNK], logs[CHUNK];
    delta_row_gates(a, begin, n, h, decay, logs, g->beta);
    if (a->gate_kind == SEQMIX_GATE_ALPHA)
        chunk_decays(decay, n, g->decays, g->from_start);
    else
        chunk_log_decays(logs, n, g->decays, g->from_start);
    g->per_channel = c->decay != NULL;
    if (g->per_channel) decay_channels(a, begin, n, h, c);
    memset(g->mix, 0, sizeof g->mix);
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= i; j++) {
            const int at = i * CHUNK + j;
            g->solve[at] = g->beta[i] * (g->decays[at] * c->k_k[at]);
            g->mix[at] = g->decays[at] * c->q_k[at];
        }
}

/* out = the state after the chunk's first n rows, given u [n][TILE]; out may be s where n is the whole chunk. */
static inline void delta_update(const struct delta_chunk *c, const struct delta_gates *g, int64_t dim, int n,
                                const float *u, const float *s, float *out)
{
    float scaled[CHUNK * TILE];
    if (g->per_channel) {
        write_channels(c, dim, n);
        tile_update(s, dim, c->product, 1, c->write, DELTA_STRIDE, u, n, out);
        return;
    }
    for (int j = 0; j < n; j++)
        for (int v = 0; v < TILE; v += V_LANES)
            v_store(scaled + j * TILE + v, v_mul(v_set1(g->decays[(n - 1) * CHUNK + j]), v_load(u + j * TILE + v)));
    tile_update(s, dim, &g->from_start[n - 1], 0, c->write, DELTA_STRIDE, scaled, n, out);
}

#endif
