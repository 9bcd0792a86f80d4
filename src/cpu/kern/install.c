/* SPDX-License-Identifier: MIT */
/* What this level does better than the rung below. */
#include "isa.h"

void KERN(install)(struct seqmix_kernels *rung);

#define INSTALL(op) (rung->op = KERN(op), rung->op##_plan = KERN(op##_plan))

void KERN(install)(struct seqmix_kernels *rung)
{
    INSTALL(short_conv_rows);
    INSTALL(short_conv_step);
    INSTALL(selective_scan_rows);
    INSTALL(selective_scan_step);
    INSTALL(ssd_chunk_forward);
    INSTALL(ssd_step);
    INSTALL(deltanet_chunk_forward);
    INSTALL(deltanet_step);
    INSTALL(unit_lower_inverse);
    INSTALL(gated_rms_norm_rows);
    INSTALL(linear);
}
