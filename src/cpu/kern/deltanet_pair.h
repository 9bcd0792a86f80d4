/* SPDX-License-Identifier: MIT */
/*
 * What the passes of the delta rule take (deltanet.c): two rows of a key head, ready for all of its value heads, and the few
 * numbers by which a value head's gates differ. Only gates per channel need vectors of their own.
 */
#ifndef SEQMIX_CPU_KERN_DELTANET_PAIR_H
#define SEQMIX_CPU_KERN_DELTANET_PAIR_H

#include "deltanet_row.h"

/* Places of a channel's four numbers. */
enum { K1, Q1, K2, Q2, N_READS };
enum { C2_K1 = K1, BOTH = Q1, C1 = Q2 }; /* of struct channels */

/* A pair of rows. With one decay per row: the rows themselves; with decays per channel: c1.k1, c1.q1, c1.c2.k2, c1.c2.q2. */
struct pair {
    float read[DELTA_DIM][N_READS];
    double k2_k1; /* products of the rows; in the first two with the decay c2 of the channels in between */
    float q2_k1, q1_k1, q2_k2;
};

/* Decays per channel: what the state takes up, as c2.k1, c1.c2, k2, c1; and k1. */
struct channels {
    float write[DELTA_DIM][N_READS], k1[DELTA_DIM][N_READS];
};

/* A pair as one value head sees it. */
struct gated_pair {
    const float *read; /* [DK][N_READS] */
    const float *write,
        *k1; /* [DK][N_READS]: what goes with u1 and u2, at K1 and K2; what goes with u1 after row 1 alone */
    const float *c1, *both; /* decays of the first row and of both, `step` apart: 0 where one serves all channels */
    int64_t step;
    float first, second, later; /* factors of the products of both rows with S, and of u1 in the state after the pair */
    float beta[2], k2_k1, k2_k1_rest, q1_k1, q2_k1, q2_k2; /* k2_k1 as an unevaluated pair */
    float decay[2];                                        /* what c1 and both point to where one serves all */
};

/* The dot product in double. Its error is the same for every pair of a run of identical keys, so rounding it once to f32
 * would add up over thousands of rows where b*|k|^2 is near 2. */
static inline double exact_dot(const float *x, const float *y, int64_t n)
{
    double partial[8] = {0};
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int lane = 0; lane < 8; lane++)
            partial[lane] += (double)x[i + lane] * (double)y[i + lane];
    for (; i < n; i++)
        partial[0] += (double)x[i] * (double)y[i];
    for (int lane = 0; lane < 4; lane++)
        partial[lane] += partial[lane + 4];
    return (partial[0] + partial[2]) + (partial[1] + partial[3]);
}

/* The rows t, t+1 of a key head; with n_rows = 1 the second row changes nothing. */
static inline void prepare_pair(const seqmix_deltanet_args *a, int64_t t, int n_rows, int64_t key_head, struct pair *p)
{
    const int64_t dim = a->k.shape[2];
    float k1[DELTA_DIM], q1[DELTA_DIM], k2[DELTA_DIM], q2[DELTA_DIM];
    delta_key(a, &a->k, t, key_head, k1);
    delta_key(a, &a->q, t, key_head, q1);
    if (n_rows == 2) {
        delta_key(a, &a->k, t + 1, key_head, k2);
        delta_key(a, &a->q, t + 1, key_head, q2);
    } else {
        memset(k2, 0, sizeof k2);
        memset(q2, 0, sizeof q2);
    }
    for (int64_t d = 0; d < dim; d++) {
        p->read[d][K1] = k1[d];
        p->read[d][Q1] = q1[d];
        p->read[d][K2] = k2[d];
        p->read[d][Q2] = q2[d];
    }
    p->k2_k1 = exact_dot(k2, k1, dim);
    p->q1_k1 = row_dot(q1, k1, dim);
    p->q2_k1 = row_dot(q2, k1, dim);
    p->q2_k2 = row_dot(q2, k2, dim);
}

/* Turns a pair of a key head into one of value head h with its decays per channel. */
static inline void decay_channels(const seqmix_deltanet_args *a, int64_t t, int n_rows, int64_t h, struct pair *p,
                                  struct channels *c)
{
    const int64_t dim = a->k.shape[2];
    float c1[DELTA_DIM], c2[DELTA_DIM], c2_k1[DELTA_DIM], k2[DELTA_DIM], q2[DELTA_DIM];
    delta_decays(a, t, h, c1);
    if (n_rows == 2)
        delta_decays(a, t + 1, h, c2);
    else
        for (int64_t d = 0; d < dim; d++)
            c2[d] = 1;
    for (int64_t d = 0; d < dim; d++) {
        float *read = p->read[d];
        const float both = c1[d] * c2[d];
        c->k1[d][K1] = read[K1];
        c->write[d][C2_K1] = c2_k1[d] = c2[d] * read[K1];
        c->write[d][BOTH] = both;
        c->write[d][K2] = k2[d] = read[K2];
        c->write[d][C1] = c1[d];
        q2[d] = read[Q2];
        read[K1] *= c1[d];
        read[Q1] *= c1[d];
        read[K2] *= both;
        read[Q2] *= both;
    }
    p->k2_k1 = exact_dot(k2, c2_k1, dim);
    p->q2_k1 = row_dot(q2, c2_k1, dim);
}

/* The pair for a value head with the decays c[2] and betas of its rows; with decays per channel those are in `channels`. */
static inline void gate_pair(const struct pair *p, const struct channels *channels, const float *c, const float *beta,
                             struct gated_pair *out)
{
    const float c2 = channels != NULL ? 1 : c[1];
    *out = (struct gated_pair){.read = p->read[0], .beta = {beta[0], beta[1]}, .later = c2};
    if (channels != NULL) {
        out->write = channels->write[0];
        out->k1 = channels->k1[0];
        out->c1 = &channels->write[0][C1];
        out->both = &channels->write[0][BOTH];
        out->step = N_READS;
        out->first = out->second = 1;
    } else {
        out->write = out->k1 = p->read[0];
        out->decay[0] = out->first = c[0];
        out->decay[1] = out->second = c[0] * c[1];
        out->c1 = &out->decay[0];
        out->both = &out->decay[1];
    }
    const double k2_k1 = (double)c2 * p->k2_k1;
    out->k2_k1 = (float)k2_k1;
    out->k2_k1_rest = (float)(k2_k1 - (double)out->k2_k1);
    out->q1_k1 = p->q1_k1;
    out->q2_k1 = c2 * p->q2_k1;
    out->q2_k2 = p->q2_k2;
}

#endif
