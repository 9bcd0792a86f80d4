/* SPDX-License-Identifier: MIT */
/* The CUDA ladder as the front desk sees it. */
#ifndef SEQMIX_CUDA_CUDA_H
#define SEQMIX_CUDA_CUDA_H

#include "kernels.h"

/* Opens the device; SEQMIX_ERR_UNAVAILABLE with the reason in `why` when there is none. */
seqmix_status seqmix_cuda_open(int32_t device, int32_t level_cap, const struct seqmix_kernels **rung, char *why,
                               size_t why_len);

#endif
