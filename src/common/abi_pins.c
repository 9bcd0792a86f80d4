/* SPDX-License-Identifier: MIT */
/*
 * Layout of everything released, pinned for 64-bit pointers (LP64 and LLP64 agree here): a field that moved does not compile.
 * FIELD lines are appended, never edited. SIZE grows with them (but for seqmix_tensor, frozen for good); that it is the end of
 * the last field matters, since a field added where padding was would read an older caller's garbage.
 */
#include <seqmix/seqmix.h>

#if UINTPTR_MAX == UINT64_MAX
#    define SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), "a size changed, or has padding at its end")
/* field, offset, size */
#    define FIELD(type, field, at, bytes)                                                                              \
        _Static_assert(offsetof(type, field) == (at) && sizeof(((type *)0)->field) == (bytes),                         \
                       "a released field moved or changed")

/* ---- ABI 0.1 ---- */
SIZE(seqmix_tensor, 112);
FIELD(seqmix_tensor, data, 0, 8);
FIELD(seqmix_tensor, dtype, 8, 4);
FIELD(seqmix_tensor, rank, 12, 4);
FIELD(seqmix_tensor, shape, 16, 48);
FIELD(seqmix_tensor, stride, 64, 48);

SIZE(seqmix_batch, 64);
FIELD(seqmix_batch, struct_size, 0, 4);
FIELD(seqmix_batch, n_seqs, 4, 4);
FIELD(seqmix_batch, max_rows, 8, 4);
FIELD(seqmix_batch, n_checkpoints, 12, 4);
FIELD(seqmix_batch, row_begin, 16, 8);
FIELD(seqmix_batch, read_slot, 24, 8);
FIELD(seqmix_batch, write_slot, 32, 8);
FIELD(seqmix_batch, ckpt_seq, 40, 8);
FIELD(seqmix_batch, ckpt_row, 48, 8);
FIELD(seqmix_batch, ckpt_slot, 56, 8);

SIZE(seqmix_ctx, 8);
FIELD(seqmix_ctx, api, 0, 8);

SIZE(seqmix_ctx_desc, 56);
FIELD(seqmix_ctx_desc, struct_size, 0, 4);
FIELD(seqmix_ctx_desc, flags, 4, 4);
FIELD(seqmix_ctx_desc, backend, 8, 4);
FIELD(seqmix_ctx_desc, device, 12, 4);
FIELD(seqmix_ctx_desc, level_cap, 16, 4);
FIELD(seqmix_ctx_desc, n_workers, 20, 4);
FIELD(seqmix_ctx_desc, max_seqs, 24, 4);
FIELD(seqmix_ctx_desc, zero0, 28, 4);
FIELD(seqmix_ctx_desc, parallel, 32, 8);
FIELD(seqmix_ctx_desc, parallel_user, 40, 8);
FIELD(seqmix_ctx_desc, stream, 48, 8);

SIZE(seqmix_conv_args, 576);
FIELD(seqmix_conv_args, struct_size, 0, 4);
FIELD(seqmix_conv_args, activation, 4, 4);
FIELD(seqmix_conv_args, batch, 8, 8);
FIELD(seqmix_conv_args, x, 16, 112);
FIELD(seqmix_conv_args, weight, 128, 112);
FIELD(seqmix_conv_args, bias, 240, 112);
FIELD(seqmix_conv_args, state, 352, 112);
FIELD(seqmix_conv_args, y, 464, 112);

SIZE(seqmix_scan_args, 1136);
FIELD(seqmix_scan_args, struct_size, 0, 4);
FIELD(seqmix_scan_args, dt_softplus, 4, 4);
FIELD(seqmix_scan_args, batch, 8, 8);
FIELD(seqmix_scan_args, x, 16, 112);
FIELD(seqmix_scan_args, dt, 128, 112);
FIELD(seqmix_scan_args, A, 240, 112);
FIELD(seqmix_scan_args, B, 352, 112);
FIELD(seqmix_scan_args, C, 464, 112);
FIELD(seqmix_scan_args, skip, 576, 112);
FIELD(seqmix_scan_args, dt_bias, 688, 112);
FIELD(seqmix_scan_args, z, 800, 112);
FIELD(seqmix_scan_args, state, 912, 112);
FIELD(seqmix_scan_args, y, 1024, 112);

SIZE(seqmix_ssd_args, 1152);
FIELD(seqmix_ssd_args, struct_size, 0, 4);
FIELD(seqmix_ssd_args, dt_softplus, 4, 4);
FIELD(seqmix_ssd_args, chunk, 8, 4);
FIELD(seqmix_ssd_args, dt_min, 12, 4);
FIELD(seqmix_ssd_args, dt_max, 16, 4);
FIELD(seqmix_ssd_args, zero0, 20, 4);
FIELD(seqmix_ssd_args, batch, 24, 8);
FIELD(seqmix_ssd_args, x, 32, 112);
FIELD(seqmix_ssd_args, dt, 144, 112);
FIELD(seqmix_ssd_args, A, 256, 112);
FIELD(seqmix_ssd_args, B, 368, 112);
FIELD(seqmix_ssd_args, C, 480, 112);
FIELD(seqmix_ssd_args, skip, 592, 112);
FIELD(seqmix_ssd_args, dt_bias, 704, 112);
FIELD(seqmix_ssd_args, z, 816, 112);
FIELD(seqmix_ssd_args, state, 928, 112);
FIELD(seqmix_ssd_args, y, 1040, 112);

SIZE(seqmix_deltanet_args, 1056);
FIELD(seqmix_deltanet_args, struct_size, 0, 4);
FIELD(seqmix_deltanet_args, gate_kind, 4, 4);
FIELD(seqmix_deltanet_args, beta_kind, 8, 4);
FIELD(seqmix_deltanet_args, qk_l2norm, 12, 4);
FIELD(seqmix_deltanet_args, head_map, 16, 4);
FIELD(seqmix_deltanet_args, chunk, 20, 4);
FIELD(seqmix_deltanet_args, eps, 24, 4);
FIELD(seqmix_deltanet_args, scale, 28, 4);
FIELD(seqmix_deltanet_args, gate_lower_bound, 32, 4);
FIELD(seqmix_deltanet_args, zero0, 36, 4);
FIELD(seqmix_deltanet_args, batch, 40, 8);
FIELD(seqmix_deltanet_args, q, 48, 112);
FIELD(seqmix_deltanet_args, k, 160, 112);
FIELD(seqmix_deltanet_args, v, 272, 112);
FIELD(seqmix_deltanet_args, gate, 384, 112);
FIELD(seqmix_deltanet_args, beta, 496, 112);
FIELD(seqmix_deltanet_args, A, 608, 112);
FIELD(seqmix_deltanet_args, dt_bias, 720, 112);
FIELD(seqmix_deltanet_args, state, 832, 112);
FIELD(seqmix_deltanet_args, o, 944, 112);

SIZE(seqmix_inverse_args, 232);
FIELD(seqmix_inverse_args, struct_size, 0, 4);
FIELD(seqmix_inverse_args, zero0, 4, 4);
FIELD(seqmix_inverse_args, a, 8, 112);
FIELD(seqmix_inverse_args, inv, 120, 112);

SIZE(seqmix_norm_args, 472);
FIELD(seqmix_norm_args, struct_size, 0, 4);
FIELD(seqmix_norm_args, group, 4, 4);
FIELD(seqmix_norm_args, norm_before_gate, 8, 4);
FIELD(seqmix_norm_args, gate_act, 12, 4);
FIELD(seqmix_norm_args, weight_plus_one, 16, 4);
FIELD(seqmix_norm_args, eps, 20, 4);
FIELD(seqmix_norm_args, x, 24, 112);
FIELD(seqmix_norm_args, z, 136, 112);
FIELD(seqmix_norm_args, weight, 248, 112);
FIELD(seqmix_norm_args, y, 360, 112);

/* the table grows: its slots are pinned, its size is not */
FIELD(struct seqmix_api, struct_size, 0, 4);
FIELD(struct seqmix_api, abi_version, 4, 4);
FIELD(struct seqmix_api, ctx_create, 8, 8);
FIELD(struct seqmix_api, ctx_destroy, 16, 8);
FIELD(struct seqmix_api, ctx_set_stream, 24, 8);
FIELD(struct seqmix_api, last_error, 32, 8);
FIELD(struct seqmix_api, status_name, 40, 8);
FIELD(struct seqmix_api, op_query, 48, 8);
FIELD(struct seqmix_api, batch_check, 56, 8);
FIELD(struct seqmix_api, experimental, 64, 8);
FIELD(struct seqmix_api, short_conv_rows, 72, 8);
FIELD(struct seqmix_api, short_conv_rows_workspace, 80, 8);
FIELD(struct seqmix_api, short_conv_step, 88, 8);
FIELD(struct seqmix_api, short_conv_step_workspace, 96, 8);
FIELD(struct seqmix_api, selective_scan_rows, 104, 8);
FIELD(struct seqmix_api, selective_scan_rows_workspace, 112, 8);
FIELD(struct seqmix_api, selective_scan_step, 120, 8);
FIELD(struct seqmix_api, selective_scan_step_workspace, 128, 8);
FIELD(struct seqmix_api, ssd_chunk_forward, 136, 8);
FIELD(struct seqmix_api, ssd_chunk_forward_workspace, 144, 8);
FIELD(struct seqmix_api, ssd_step, 152, 8);
FIELD(struct seqmix_api, ssd_step_workspace, 160, 8);
FIELD(struct seqmix_api, deltanet_chunk_forward, 168, 8);
FIELD(struct seqmix_api, deltanet_chunk_forward_workspace, 176, 8);
FIELD(struct seqmix_api, deltanet_step, 184, 8);
FIELD(struct seqmix_api, deltanet_step_workspace, 192, 8);
FIELD(struct seqmix_api, unit_lower_inverse, 200, 8);
FIELD(struct seqmix_api, unit_lower_inverse_workspace, 208, 8);
FIELD(struct seqmix_api, gated_rms_norm_rows, 216, 8);
FIELD(struct seqmix_api, gated_rms_norm_rows_workspace, 224, 8);
/* ---- end of ABI 0.1 ---- */

#    ifdef SEQMIX_EXPERIMENTAL
/* experimental: the lines of a struct may be edited together with SEQMIX_EXPERIMENTAL_VERSION */
SIZE(seqmix_linear_args, 568);
FIELD(seqmix_linear_args, struct_size, 0, 4);
FIELD(seqmix_linear_args, invariant, 4, 4);
FIELD(seqmix_linear_args, x, 8, 112);
FIELD(seqmix_linear_args, weight, 120, 112);
FIELD(seqmix_linear_args, bias, 232, 112);
FIELD(seqmix_linear_args, residual, 344, 112);
FIELD(seqmix_linear_args, y, 456, 112);

SIZE(seqmix_embed_args, 240);
FIELD(seqmix_embed_args, struct_size, 0, 4);
FIELD(seqmix_embed_args, n_tokens, 4, 4);
FIELD(seqmix_embed_args, tokens, 8, 8);
FIELD(seqmix_embed_args, table, 16, 112);
FIELD(seqmix_embed_args, y, 128, 112);
#    endif
#endif
