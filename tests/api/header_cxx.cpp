// SPDX-License-Identifier: MIT
// The header in strict C++11, both halves with API_EXPERIMENTAL. Runs one call, so that it links.
#ifdef API_EXPERIMENTAL
#    define SEQMIX_EXPERIMENTAL
#endif
#include <seqmix/seqmix.h>

#include <cstdio>

int main()
{
    float x[2] = {3, 4}, y[2] = {0, 0};
    seqmix_ctx_desc desc = seqmix_ctx_desc();
    desc.struct_size = sizeof desc;
    seqmix_norm_args args = seqmix_norm_args();
    args.struct_size = sizeof args;
    args.eps = 1e-6f;
    args.x = seqmix_tensor{x, SEQMIX_F32, 2, {1, 2}, {2, 1}};
    args.y = seqmix_tensor{y, SEQMIX_F32, 2, {1, 2}, {2, 1}};
    seqmix_ctx *ctx = nullptr;
    if (seqmix_ctx_create(seqmix_get_api(SEQMIX_ABI_VERSION), &desc, &ctx, nullptr, 0) != SEQMIX_OK) return 1;
    std::size_t bytes = 0;
    seqmix_status status = seqmix_gated_rms_norm_rows_workspace(ctx, &args, &bytes);
    if (status == SEQMIX_OK) status = seqmix_gated_rms_norm_rows(ctx, &args, nullptr, 0);
    if (status != SEQMIX_OK) std::puts(seqmix_last_error(ctx));
    seqmix_ctx_destroy(ctx);
    const float sum = 7.0f / 3.5355339f;
    return status == SEQMIX_OK && y[0] + y[1] > sum - 0.001f && y[0] + y[1] < sum + 0.001f ? 0 : 1;
}
