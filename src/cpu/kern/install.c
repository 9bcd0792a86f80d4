/* SPDX-License-Identifier: MIT */
/* What this level does better than the rung below: a table and no code, since every machine reads it. */
#include "isa.h"

#define SLOT(op) .op = KERN(op), .op##_plan = KERN(op##_plan)

const struct seqmix_kernels KERN(kernels) = {
    SLOT(short_conv_rows),
    SLOT(short_conv_step),
    SLOT(selective_scan_rows),
    SLOT(selective_scan_step),
    SLOT(ssd_chunk_forward),
    SLOT(ssd_step),
    SLOT(deltanet_chunk_forward),
    SLOT(deltanet_step),
    SLOT(unit_lower_inverse),
    SLOT(gated_rms_norm_rows),
    SLOT(linear),
    SLOT(rope_rows),
    SLOT(attention_rows),
    SLOT(moe_route),
    SLOT(act_rows),
    SLOT(moe_experts),
    SLOT(argmax),
};
