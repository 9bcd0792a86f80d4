/* SPDX-License-Identifier: MIT */
/* What AMX does better than AVX-512: the large products of bf16. A table and no code, since every machine reads it. */
#include "../kern/isa.h"

#define SLOT(op) .op = KERN(op), .op##_plan = KERN(op##_plan)

const struct seqmix_kernels KERN(kernels) = {
    SLOT(ssd_chunk_forward),
    SLOT(deltanet_chunk_forward),
    SLOT(linear),
};
