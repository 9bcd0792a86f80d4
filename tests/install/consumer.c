/* SPDX-License-Identifier: MIT */
#include <seqmix/seqmix.h>
#include <stdio.h>

/* A delta-rule memory with our own buffers: row 0 stores a value under a key, row 1 asks for it. */
int main(void)
{
    float q[2][2] = {{0, 0}, {1, 0}}, k[2][2] = {{1, 0}, {0, 1}}, v[2][3] = {{5, 6, 7}, {0, 0, 0}}, beta[2] = {1, 1};
    float state[1][2][3] = {{{0}}}, o[2][3];
    const int32_t row_begin[2] = {0, 2}; /* one sequence of two rows; it reads and writes slot 0 of the state pool */
    const seqmix_batch batch = {.struct_size = sizeof batch, .n_seqs = 1, .max_rows = 2, .row_begin = row_begin};
    seqmix_deltanet_args args = {.struct_size = sizeof args, .batch = &batch, .scale = 1};
    args.q = (seqmix_tensor){q, SEQMIX_F32, 3, {2, 1, 2}, {2, 2, 1}};               /* [R, HK, DK] */
    args.k = (seqmix_tensor){k, SEQMIX_F32, 3, {2, 1, 2}, {2, 2, 1}};               /* [R, HK, DK] */
    args.v = (seqmix_tensor){v, SEQMIX_F32, 3, {2, 1, 3}, {3, 3, 1}};               /* [R, HV, DV] */
    args.beta = (seqmix_tensor){beta, SEQMIX_F32, 2, {2, 1}, {1, 1}};               /* [R, HV] */
    args.state = (seqmix_tensor){state, SEQMIX_F32, 4, {1, 1, 2, 3}, {6, 6, 3, 1}}; /* [slots, HV, DK, DV] */
    args.o = (seqmix_tensor){o, SEQMIX_F32, 3, {2, 1, 3}, {3, 3, 1}};               /* [R, HV, DV] */
    const seqmix_ctx_desc desc = {.struct_size = sizeof desc};
    seqmix_ctx *ctx;
    char why[128];
    if (seqmix_ctx_create(seqmix_get_api(SEQMIX_ABI_VERSION), &desc, &ctx, why, sizeof why) != SEQMIX_OK)
        return puts(why), 1;
    if (seqmix_deltanet_step(ctx, &args, NULL, 0) != SEQMIX_OK) return puts(seqmix_last_error(ctx)), 1;
    printf("recalled %g %g %g\n", (double)o[1][0], (double)o[1][1], (double)o[1][2]); /* recalled 5 6 7 */
    seqmix_ctx_destroy(ctx);
}
