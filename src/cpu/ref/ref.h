/* SPDX-License-Identifier: MIT */
/*
 * What the reference kernels share. The same sources are built twice: with real = float they are rung 0 of the library, with
 * real = double (SEQMIX_REF64) the oracle of the tests, which may also store SEQMIX_F64_INTERNAL.
 */
#ifndef SEQMIX_CPU_REF_REF_H
#define SEQMIX_CPU_REF_REF_H

#include <math.h>

#include "batch.h"
#include "kernels.h"
#include "parallel.h"
#include "tensor.h"
#include "workspace.h"

#ifdef SEQMIX_REF64
typedef double real;
#    define REF(op)      seqmix_##op##__ref64
#    define REF_RUNG     "cpu-ref64"
#    define REF_MATH(fn) fn
#else
typedef float real;
#    define REF(op)      seqmix_##op##__ref
#    define REF_RUNG     "cpu-ref"
#    define REF_MATH(fn) fn##f
#endif

/* Every op of the rung: its plan and its kernel. */
#define SEQMIX_OP(ID, op, family, step)                                                                                \
    seqmix_status REF(op##_plan)(const struct seqmix_context *ctx, const seqmix_##family##_args *args,                 \
                                 struct seqmix_plan *plan);                                                            \
    seqmix_status REF(op)(struct seqmix_context * ctx, const seqmix_##family##_args *args, void *workspace);
#include "ops.def"

/* Limits of every rung (api contract), and the rows and lanes the reference works on at a time. */
enum { REF_MAX_DIM = 256, REF_MAX_CONV = 16, REF_ROWS = SEQMIX_STEP_ROWS, REF_LANES = 16 };

static inline real ref_get(const seqmix_tensor *t, int64_t offset)
{
#ifdef SEQMIX_REF64
    if (t->dtype == SEQMIX_F64_INTERNAL) return ((const double *)t->data)[offset];
#endif
    return (real)seqmix_load_f32(t, offset);
}

static inline void ref_put(const seqmix_tensor *t, int64_t offset, real value)
{
#ifdef SEQMIX_REF64
    if (t->dtype == SEQMIX_F64_INTERNAL) {
        ((double *)t->data)[offset] = value;
        return;
    }
#endif
    seqmix_store_f32(t, offset, (float)value);
}

/* An index; the oracle stores it as a number like the others. */
static inline void ref_put_int(const seqmix_tensor *t, int64_t offset, int32_t value)
{
    if (t->dtype == SEQMIX_I32)
        ((int32_t *)t->data)[offset] = value;
    else
        ref_put(t, offset, (real)value);
}

/* Element i of an optional vector; `absent` when it isn't given. */
static inline real ref_get_or(const seqmix_tensor *t, int64_t offset, real absent)
{
    return seqmix_present(t) ? ref_get(t, offset) : absent;
}

static inline real ref_exp(real x)
{
    return REF_MATH(exp)(x);
}

static inline real ref_softplus(real x)
{
    return x > 20 ? x : REF_MATH(log1p)(ref_exp(x));
}

/* exp is only taken of what is <= 0, so nothing overflows. */
static inline real ref_sigmoid(real x)
{
    const real e = ref_exp(-REF_MATH(fabs)(x));
    return x >= 0 ? 1 / (1 + e) : e / (1 + e); /* NaN falls through as NaN */
}

static inline real ref_silu(real x)
{
    return x * ref_sigmoid(x);
}

/* exp of a log decay: positive counts as 0 and NaN stays; below -1e4 it is 0 in double too, so -inf needs no care. */
static inline real ref_decay(real log_decay)
{
    real g = !(log_decay > 0) ? log_decay : 0;
    g = g < (real)-1e4 ? (real)-1e4 : g;
    return ref_exp(g);
}

/* Sum of x[i]*y[i] in a fixed order that loses little over long vectors: 16 interleaved partial sums. */
static inline real ref_dot(const real *x, const real *y, int64_t n)
{
    real partial[16] = {0};
    int64_t i = 0;
    for (; i + 16 <= n; i += 16)
        for (int lane = 0; lane < 16; lane++)
            partial[lane] += x[i + lane] * y[i + lane];
    for (; i < n; i++)
        partial[i % 16] += x[i] * y[i];
    for (int width = 8; width > 0; width /= 2)
        for (int lane = 0; lane < width; lane++)
            partial[lane] += partial[lane + width];
    return partial[0];
}

static inline seqmix_status ref_plan(struct seqmix_plan *plan, const char *kernel, size_t workspace)
{
    plan->kernel = kernel;
    plan->workspace = workspace;
    plan->grain = 1;
    return SEQMIX_OK;
}

/* state.c: moving states as bits. */

/* Slot `from` of the pool becomes slot `to`; from -1 clears it, to -1 does nothing. */
void REF(move_slot)(const seqmix_tensor *pool, int64_t from, int64_t to);

/* A part of one head's state that is carried along rows: n_inner x n_lanes, element (i, lane) at s[i*REF_LANES + lane]. The
 * lanes are independent columns of the recurrence. */
struct ref_block {
    const seqmix_tensor *pool;
    int64_t head;                  /* index on axis 1 */
    int32_t inner_axis, lane_axis; /* 2 and 3, or 3 and 2 */
    int64_t n_inner, first_lane;
    int32_t n_lanes;
};

void REF(load_block)(const struct ref_block *block, int64_t slot, real *s); /* slot -1: zeros */
void REF(store_block)(const struct ref_block *block, int64_t slot, const real *s);

#endif
