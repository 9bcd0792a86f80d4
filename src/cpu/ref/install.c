/* SPDX-License-Identifier: MIT */
/* The table of rung 0, and of the oracle when built in double precision. */
#include "ref.h"

#include "../cpu.h"

const struct seqmix_kernels REF(kernels) = {
    .backend = SEQMIX_BACKEND_CPU,
    .level = SEQMIX_LEVEL_CPU_REF,
    .name = REF_RUNG,
    .lower = NULL,
#define SEQMIX_OP(ID, op_name, family, step) .op_name = REF(op_name), .op_name##_plan = REF(op_name##_plan),
#include "ops.def"
};
