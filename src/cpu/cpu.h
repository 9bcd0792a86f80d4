/* SPDX-License-Identifier: MIT */
/* The CPU ladder as the front desk sees it, and the oracles as the tests see them. */
#ifndef SEQMIX_CPU_CPU_H
#define SEQMIX_CPU_CPU_H

#include "kernels.h"

/* Builds the ladder; once, before the first choice. */
void seqmix_cpu_build_rungs(void);

/* The best CPU rung this machine can run whose level is at most `level_cap` (0 = no cap). */
const struct seqmix_kernels *seqmix_cpu_rung(int32_t level_cap);

/* Rung 0. */
extern const struct seqmix_kernels seqmix_kernels__ref;

/* Never linked into the library: rung 0 in double precision, whose outputs and pools may be SEQMIX_F64_INTERNAL; and rung 0
 * with the two chunk ops in their plain f32 chunk form, the second reference of docs/NUMERICS.md. */
extern const struct seqmix_kernels seqmix_kernels__ref64;
extern const struct seqmix_kernels seqmix_kernels__chunk_plain;

#endif
