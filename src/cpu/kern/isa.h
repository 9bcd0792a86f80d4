/* SPDX-License-Identifier: MIT */
/* Names of the level being compiled. The build defines SEQMIX_ISA (a word: generic, avx2, avx512) and SEQMIX_ISA_<LEVEL>. */
#ifndef SEQMIX_CPU_KERN_ISA_H
#define SEQMIX_CPU_KERN_ISA_H

#include "kernels.h"

#define SEQMIX_JOIN_(op, isa) seqmix_##op##__##isa
#define SEQMIX_JOIN(op, isa)  SEQMIX_JOIN_(op, isa)
#define SEQMIX_TEXT_(isa)     #isa
#define SEQMIX_TEXT(isa)      SEQMIX_TEXT_(isa)

/* seqmix_<op>__<isa> */
#define KERN(op)          SEQMIX_JOIN(op, SEQMIX_ISA)
/* "cpu-<isa>/<kernel>" */
#define KERN_NAME(kernel) "cpu-" SEQMIX_TEXT(SEQMIX_ISA) "/" kernel

/* What the level overwrites; its other slots are NULL. */
extern const struct seqmix_kernels KERN(kernels);

/* Plan and kernel of an op. */
#define KERN_DECLARE(op, family)                                                                                       \
    seqmix_status KERN(op##_plan)(const struct seqmix_context *ctx, const seqmix_##family##_args *args,                \
                                  struct seqmix_plan *plan);                                                           \
    seqmix_status KERN(op)(struct seqmix_context * ctx, const seqmix_##family##_args *args, void *workspace);

KERN_DECLARE(short_conv_rows, conv)
KERN_DECLARE(short_conv_step, conv)
KERN_DECLARE(selective_scan_rows, scan)
KERN_DECLARE(selective_scan_step, scan)
KERN_DECLARE(ssd_chunk_forward, ssd)
KERN_DECLARE(ssd_step, ssd)
KERN_DECLARE(deltanet_chunk_forward, deltanet)
KERN_DECLARE(deltanet_step, deltanet)
KERN_DECLARE(unit_lower_inverse, inverse)
KERN_DECLARE(gated_rms_norm_rows, norm)
KERN_DECLARE(linear, linear)
KERN_DECLARE(rope_rows, rope)
KERN_DECLARE(attention_rows, attention)
KERN_DECLARE(moe_route, route)
KERN_DECLARE(act_rows, act)
KERN_DECLARE(moe_experts, moe)
KERN_DECLARE(argmax, argmax)

#endif
