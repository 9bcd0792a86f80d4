/* SPDX-License-Identifier: MIT */
/*
 * The products of a chunk of rows with one tile of a state, all on registers: the state's rows are TILE lanes wide, what
 * multiplies them is broadcast. The coefficients of a state row lie side by side, `stride` floats from one state row to the
 * next. Sums run in the order of their index, however rows are grouped.
 */
#ifndef SEQMIX_CPU_KERN_CHUNK_TILE_H
#define SEQMIX_CPU_KERN_CHUNK_TILE_H

#include "../vec/vec_math.h"
#include "tune.h"

enum { CHUNK = TUNE_CHUNK_ROWS, NV = TUNE_CHUNK_VECTORS, TILE = NV * V_LANES, GROUP = TUNE_CHUNK_GROUP };

_Static_assert(CHUNK % GROUP == 0 && CHUNK % V_LANES == 0, "chunks are packed in squares and walked in groups");

/* sum[i] = sum_d a[d*stride + i] * s[d] for a group of rows i. */
static inline void tile_read(const float *s, int64_t dim, const float *a, int64_t stride, vf sum[GROUP][NV])
{
    vf acc[GROUP][NV];
    for (int i = 0; i < GROUP; i++)
        for (int v = 0; v < NV; v++)
            acc[i][v] = v_zero();
    for (int64_t d = 0; d < dim; d++, s += TILE, a += stride) {
        vf row[NV];
        for (int v = 0; v < NV; v++)
            row[v] = v_load(s + v * V_LANES);
        for (int i = 0; i < GROUP; i++)
            for (int v = 0; v < NV; v++)
                acc[i][v] = v_fma(v_set1(a[i]), row[v], acc[i][v]);
    }
    for (int i = 0; i < GROUP; i++)
        for (int v = 0; v < NV; v++)
            sum[i][v] = acc[i][v];
}

/* sum[i] += sum_j<n m[i*CHUNK + j] * u[j*TILE..] for a group of rows i. */
static inline void tile_mix(const float *m, const float *u, int n, vf sum[GROUP][NV])
{
    vf acc[GROUP][NV];
    for (int i = 0; i < GROUP; i++)
        for (int v = 0; v < NV; v++)
            acc[i][v] = sum[i][v];
    for (int j = 0; j < n; j++) {
        vf row[NV];
        for (int v = 0; v < NV; v++)
            row[v] = v_load(u + j * TILE + v * V_LANES);
        for (int i = 0; i < GROUP; i++)
            for (int v = 0; v < NV; v++)
                acc[i][v] = v_fma(v_set1(m[i * CHUNK + j]), row[v], acc[i][v]);
    }
    for (int i = 0; i < GROUP; i++)
        for (int v = 0; v < NV; v++)
            sum[i][v] = acc[i][v];
}

/* u[i] -= sum_j<i a[i*CHUNK + j] * u[j], for i = 1..n-1 in turn. */
static inline void tile_substitute(const float *a, int n, float *u)
{
    for (int i = 1; i < n; i++) {
        vf row[NV];
        for (int v = 0; v < NV; v++)
            row[v] = v_load(u + i * TILE + v * V_LANES);
        for (int j = 0; j < i; j++)
            for (int v = 0; v < NV; v++)
                row[v] = v_fnma(v_set1(a[i * CHUNK + j]), v_load(u + j * TILE + v * V_LANES), row[v]);
        for (int v = 0; v < NV; v++)
            v_store(u + i * TILE + v * V_LANES, row[v]);
    }
}

/* Some state rows of tile_update. */
static inline void tile_update_rows(const float *s, int n_rows, const float *decay, int64_t step, const float *a,
                                    int64_t stride, const float *u, int n, float *out)
{
    vf acc[GROUP][NV];
    for (int d = 0; d < n_rows; d++)
        for (int v = 0; v < NV; v++)
            acc[d][v] = v_mul(v_set1(decay[d * step]), v_load(s + d * TILE + v * V_LANES));
    for (int j = 0; j < n; j++) {
        vf row[NV];
        for (int v = 0; v < NV; v++)
            row[v] = v_load(u + j * TILE + v * V_LANES);
        for (int d = 0; d < n_rows; d++)
            for (int v = 0; v < NV; v++)
                acc[d][v] = v_fma(v_set1(a[d * stride + j]), row[v], acc[d][v]);
    }
    for (int d = 0; d < n_rows; d++)
        for (int v = 0; v < NV; v++)
            v_store(out + d * TILE + v * V_LANES, acc[d][v]);
}

/* out[d] = decay[d*step] * s[d] + sum_j<n a[d*stride + j] * u[j*TILE..]; out may be s. */
static inline void tile_update(const float *s, int64_t dim, const float *decay, int64_t step, const float *a,
                               int64_t stride, const float *u, int n, float *out)
{
    int64_t d = 0;
    for (; d + GROUP <= dim; d += GROUP)
        tile_update_rows(s + d * TILE, GROUP, decay + d * step, step, a + d * stride, stride, u, n, out + d * TILE);
    for (; d < dim; d++)
        tile_update_rows(s + d * TILE, 1, decay + d * step, step, a + d * stride, stride, u, n, out + d * TILE);
}

/* to[d*stride + i] = rows[i*dim_stride + d] for a chunk of rows. */
static inline void chunk_pack(const float *rows, int64_t dim_stride, int64_t dim, float *to, int64_t stride)
{
    int64_t d = 0;
    for (; d + V_LANES <= dim; d += V_LANES)
        for (int64_t i = 0; i < CHUNK; i += V_LANES)
            v_transpose(rows + i * dim_stride + d, dim_stride, to + d * stride + i, stride);
    for (; d < dim; d++)
        for (int64_t i = 0; i < CHUNK; i++)
            to[d * stride + i] = rows[i * dim_stride + d];
}

/* Products of decays: to[i*CHUNK + j] = c[j+1]*...*c[i] for j <= i, all of them <= 1; from_start[i] = c[0]*...*c[i]. */
static inline void chunk_decays(const float *c, int n, float *to, float *from_start)
{
    float product = 1;
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < i; j++)
            to[i * CHUNK + j] = c[i] * to[(i - 1) * CHUNK + j];
        to[i * CHUNK + i] = 1;
        from_start[i] = product *= c[i];
    }
}

/* The same from the logarithms of the decays, each product with the one error of its own exp: sums of the rows in between, so
 * nothing is subtracted. The exponentials of a row run to the next multiple of the lanes. */
static inline void chunk_log_decays(const float *logs, int n, float *to, float *from_start)
{
    float sum[CHUNK] = {0}, start[CHUNK], total = 0;
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < i; j++)
            sum[j] += logs[i];
        start[i] = total += logs[i];
        for (int j = 0; j <= i; j += V_LANES)
            v_store(to + i * CHUNK + j, v_exp_neg(v_load(sum + j)));
    }
    for (int i = 0; i < n; i += V_LANES)
        v_store_n(from_start + i, v_exp_neg(v_load_n(start + i, n - i < V_LANES ? n - i : V_LANES)),
                  n - i < V_LANES ? n - i : V_LANES);
}

#endif
