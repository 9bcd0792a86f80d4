/* SPDX-License-Identifier: MIT */
/* What a library built without CUDA answers. */
#include "cuda.h"

#include "status.h"

void seqmix_cuda_build_rungs(void) {}

seqmix_status seqmix_cuda_open(int32_t device, int32_t level_cap, const struct seqmix_kernels **rung, char *why,
                               size_t why_len)
{
    (void)level_cap;
    *rung = NULL;
    return seqmix_fail_text(why, why_len, SEQMIX_ERR_UNAVAILABLE, "device=%d: this library was built without CUDA",
                            (int)device);
}
