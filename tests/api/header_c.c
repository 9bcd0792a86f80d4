/* SPDX-License-Identifier: MIT */
/* The header in strict C99 and C11, first and twice; with API_EXPERIMENTAL, both halves. Runs one call, so that it links. */
#ifdef API_EXPERIMENTAL
#    define SEQMIX_EXPERIMENTAL
#endif
#include <seqmix/seqmix.h>
#include <seqmix/version.h>

#include <stdio.h>

#if !defined(API_EXPERIMENTAL) && defined(SEQMIX_EXPERIMENTAL_VERSION)
#    error "the experimental half shows without being asked for"
#endif

int main(void)
{
    float x[2] = {3, 4}, y[2];
    const seqmix_ctx_desc desc = {.struct_size = sizeof desc};
    seqmix_norm_args args = {.struct_size = sizeof args, .eps = 1e-6f};
    seqmix_ctx *ctx;
    args.x.data = x;
    args.x.dtype = SEQMIX_F32;
    args.x.rank = 2;
    args.x.shape[0] = 1;
    args.x.shape[1] = 2;
    args.x.stride[0] = 2;
    args.x.stride[1] = 1;
    args.y = args.x;
    args.y.data = y;
    if (seqmix_ctx_create(seqmix_get_api(SEQMIX_ABI_VERSION), &desc, &ctx, NULL, 0) != SEQMIX_OK) return 1;
    const seqmix_status status = seqmix_gated_rms_norm_rows(ctx, &args, NULL, 0);
    if (status != SEQMIX_OK) puts(seqmix_last_error(ctx));
    seqmix_ctx_destroy(ctx);
    const float root = 3.5355339f; /* of the mean of 9 and 16 */
    return status == SEQMIX_OK && y[0] * root > 2.999f && y[0] * root < 3.001f && y[1] * root > 3.999f &&
                   y[1] * root < 4.001f
               ? 0
               : 1;
}
