/* SPDX-License-Identifier: MIT */
/*
 * The dispatch table of one rung. A rung starts as a copy of the one below and overwrites what it does better.
 *
 * Contract of a slot: arguments are checked, copied and normalised (args->batch is never NULL, see batch.h); workspace is
 * aligned and as large as the plan said. `<op>_plan` decides from shapes, dtypes, options and counts alone, never from data,
 * whether this rung takes the call: it answers SEQMIX_ERR_UNSUPPORTED to pass it to `lower`. What it accepted, `<op>` must run.
 */
#ifndef SEQMIX_COMMON_KERNELS_H
#define SEQMIX_COMMON_KERNELS_H

#include <seqmix/seqmix.h>

#ifndef SEQMIX_EXPERIMENTAL
#    error "internal sources are built with SEQMIX_EXPERIMENTAL defined: link the CMake target seqmix_internal"
#endif

struct seqmix_context;
struct seqmix_memory;

/* What a rung would do with a call. */
struct seqmix_plan {
    const char *kernel; /* static, "rung/kernel" */
    size_t workspace;   /* bytes */
    int64_t grain;      /* rows per grid cell: a sequence cut at its multiples keeps its bits */
};

struct seqmix_kernels {
    int32_t backend, level;
    const char *name;                   /* "cpu-ref" */
    const struct seqmix_kernels *lower; /* NULL for rung 0, which takes every legal call */
    const struct seqmix_memory *memory; /* where its tensors live; NULL: the host's */
#define SEQMIX_OP(ID, op, family, step)                                                                                \
    seqmix_status (*op##_plan)(const struct seqmix_context *ctx, const seqmix_##family##_args *args,                   \
                               struct seqmix_plan *plan);                                                              \
    seqmix_status (*op)(struct seqmix_context * ctx, const seqmix_##family##_args *args, void *workspace);
#include "ops.def"
    /* A short_conv_step and the mixer's step on its rows in one go; NULL or SEQMIX_ERR_UNSUPPORTED: one after the other. */
    seqmix_status (*deltanet_conv_step)(struct seqmix_context *ctx, const seqmix_conv_args *conv,
                                        const seqmix_deltanet_args *mixer);
    seqmix_status (*ssd_conv_step)(struct seqmix_context *ctx, const seqmix_conv_args *conv,
                                   const seqmix_ssd_args *mixer);
};

#endif
