/* SPDX-License-Identifier: MIT */
/*
 * Layout of everything released, pinned for 64-bit pointers (LP64 and LLP64 agree here): a field that moved does not compile.
 * A release appends lines, it never edits one. tests/abi compares the same facts against a stored baseline.
 */
#include <seqmix/seqmix.h>

#if UINTPTR_MAX == UINT64_MAX
#    define SIZE(type, bytes)        _Static_assert(sizeof(type) == (bytes), "a released size changed")
#    define FIELD(type, field, byte) _Static_assert(offsetof(type, field) == (byte), "a released field moved")

/* ---- ABI 0.1 ---- */
SIZE(seqmix_tensor, 112);
FIELD(seqmix_tensor, data, 0);
FIELD(seqmix_tensor, dtype, 8);
FIELD(seqmix_tensor, rank, 12);
FIELD(seqmix_tensor, shape, 16);
FIELD(seqmix_tensor, stride, 64);

SIZE(seqmix_batch, 64);
FIELD(seqmix_batch, struct_size, 0);
FIELD(seqmix_batch, n_seqs, 4);
FIELD(seqmix_batch, max_rows, 8);
FIELD(seqmix_batch, n_checkpoints, 12);
FIELD(seqmix_batch, row_begin, 16);
FIELD(seqmix_batch, read_slot, 24);
FIELD(seqmix_batch, write_slot, 32);
FIELD(seqmix_batch, ckpt_seq, 40);
FIELD(seqmix_batch, ckpt_row, 48);
FIELD(seqmix_batch, ckpt_slot, 56);

SIZE(seqmix_ctx, 8);
FIELD(seqmix_ctx, api, 0);

SIZE(seqmix_ctx_desc, 56);
FIELD(seqmix_ctx_desc, struct_size, 0);
FIELD(seqmix_ctx_desc, flags, 4);
FIELD(seqmix_ctx_desc, backend, 8);
FIELD(seqmix_ctx_desc, device, 12);
FIELD(seqmix_ctx_desc, level_cap, 16);
FIELD(seqmix_ctx_desc, n_workers, 20);
FIELD(seqmix_ctx_desc, max_seqs, 24);
FIELD(seqmix_ctx_desc, zero0, 28);
FIELD(seqmix_ctx_desc, parallel, 32);
FIELD(seqmix_ctx_desc, parallel_user, 40);
FIELD(seqmix_ctx_desc, stream, 48);

SIZE(seqmix_conv_args, 576);
FIELD(seqmix_conv_args, struct_size, 0);
FIELD(seqmix_conv_args, activation, 4);
FIELD(seqmix_conv_args, batch, 8);
FIELD(seqmix_conv_args, x, 16);
FIELD(seqmix_conv_args, weight, 128);
FIELD(seqmix_conv_args, bias, 240);
FIELD(seqmix_conv_args, state, 352);
FIELD(seqmix_conv_args, y, 464);

SIZE(seqmix_scan_args, 1136);
FIELD(seqmix_scan_args, struct_size, 0);
FIELD(seqmix_scan_args, dt_softplus, 4);
FIELD(seqmix_scan_args, batch, 8);
FIELD(seqmix_scan_args, x, 16);
FIELD(seqmix_scan_args, dt, 128);
FIELD(seqmix_scan_args, A, 240);
FIELD(seqmix_scan_args, B, 352);
FIELD(seqmix_scan_args, C, 464);
FIELD(seqmix_scan_args, skip, 576);
FIELD(seqmix_scan_args, dt_bias, 688);
FIELD(seqmix_scan_args, z, 800);
FIELD(seqmix_scan_args, state, 912);
FIELD(seqmix_scan_args, y, 1024);

SIZE(seqmix_ssd_args, 1152);
FIELD(seqmix_ssd_args, struct_size, 0);
FIELD(seqmix_ssd_args, dt_softplus, 4);
FIELD(seqmix_ssd_args, chunk, 8);
FIELD(seqmix_ssd_args, dt_min, 12);
FIELD(seqmix_ssd_args, dt_max, 16);
FIELD(seqmix_ssd_args, zero0, 20);
FIELD(seqmix_ssd_args, batch, 24);
FIELD(seqmix_ssd_args, x, 32);
FIELD(seqmix_ssd_args, dt, 144);
FIELD(seqmix_ssd_args, A, 256);
FIELD(seqmix_ssd_args, B, 368);
FIELD(seqmix_ssd_args, C, 480);
FIELD(seqmix_ssd_args, skip, 592);
FIELD(seqmix_ssd_args, dt_bias, 704);
FIELD(seqmix_ssd_args, z, 816);
FIELD(seqmix_ssd_args, state, 928);
FIELD(seqmix_ssd_args, y, 1040);

SIZE(seqmix_deltanet_args, 1056);
FIELD(seqmix_deltanet_args, struct_size, 0);
FIELD(seqmix_deltanet_args, gate_kind, 4);
FIELD(seqmix_deltanet_args, beta_kind, 8);
FIELD(seqmix_deltanet_args, qk_l2norm, 12);
FIELD(seqmix_deltanet_args, head_map, 16);
FIELD(seqmix_deltanet_args, chunk, 20);
FIELD(seqmix_deltanet_args, eps, 24);
FIELD(seqmix_deltanet_args, scale, 28);
FIELD(seqmix_deltanet_args, gate_lower_bound, 32);
FIELD(seqmix_deltanet_args, zero0, 36);
FIELD(seqmix_deltanet_args, batch, 40);
FIELD(seqmix_deltanet_args, q, 48);
FIELD(seqmix_deltanet_args, k, 160);
FIELD(seqmix_deltanet_args, v, 272);
FIELD(seqmix_deltanet_args, gate, 384);
FIELD(seqmix_deltanet_args, beta, 496);
FIELD(seqmix_deltanet_args, A, 608);
FIELD(seqmix_deltanet_args, dt_bias, 720);
FIELD(seqmix_deltanet_args, state, 832);
FIELD(seqmix_deltanet_args, o, 944);

SIZE(seqmix_inverse_args, 232);
FIELD(seqmix_inverse_args, struct_size, 0);
FIELD(seqmix_inverse_args, zero0, 4);
FIELD(seqmix_inverse_args, a, 8);
FIELD(seqmix_inverse_args, inv, 120);

SIZE(seqmix_norm_args, 472);
FIELD(seqmix_norm_args, struct_size, 0);
FIELD(seqmix_norm_args, group, 4);
FIELD(seqmix_norm_args, norm_before_gate, 8);
FIELD(seqmix_norm_args, gate_act, 12);
FIELD(seqmix_norm_args, weight_plus_one, 16);
FIELD(seqmix_norm_args, eps, 20);
FIELD(seqmix_norm_args, x, 24);
FIELD(seqmix_norm_args, z, 136);
FIELD(seqmix_norm_args, weight, 248);
FIELD(seqmix_norm_args, y, 360);

/* the table grows: its slots are pinned, its size is not */
FIELD(struct seqmix_api, struct_size, 0);
FIELD(struct seqmix_api, abi_version, 4);
FIELD(struct seqmix_api, ctx_create, 8);
FIELD(struct seqmix_api, ctx_destroy, 16);
FIELD(struct seqmix_api, ctx_set_stream, 24);
FIELD(struct seqmix_api, last_error, 32);
FIELD(struct seqmix_api, status_name, 40);
FIELD(struct seqmix_api, op_query, 48);
FIELD(struct seqmix_api, batch_check, 56);
FIELD(struct seqmix_api, experimental, 64);
FIELD(struct seqmix_api, short_conv_rows, 72);
FIELD(struct seqmix_api, short_conv_rows_workspace, 80);
FIELD(struct seqmix_api, short_conv_step, 88);
FIELD(struct seqmix_api, short_conv_step_workspace, 96);
FIELD(struct seqmix_api, selective_scan_rows, 104);
FIELD(struct seqmix_api, selective_scan_rows_workspace, 112);
FIELD(struct seqmix_api, selective_scan_step, 120);
FIELD(struct seqmix_api, selective_scan_step_workspace, 128);
FIELD(struct seqmix_api, ssd_chunk_forward, 136);
FIELD(struct seqmix_api, ssd_chunk_forward_workspace, 144);
FIELD(struct seqmix_api, ssd_step, 152);
FIELD(struct seqmix_api, ssd_step_workspace, 160);
FIELD(struct seqmix_api, deltanet_chunk_forward, 168);
FIELD(struct seqmix_api, deltanet_chunk_forward_workspace, 176);
FIELD(struct seqmix_api, deltanet_step, 184);
FIELD(struct seqmix_api, deltanet_step_workspace, 192);
FIELD(struct seqmix_api, unit_lower_inverse, 200);
FIELD(struct seqmix_api, unit_lower_inverse_workspace, 208);
FIELD(struct seqmix_api, gated_rms_norm_rows, 216);
FIELD(struct seqmix_api, gated_rms_norm_rows_workspace, 224);
/* ---- end of ABI 0.1 ---- */

#    ifdef SEQMIX_EXPERIMENTAL
/* experimental: the lines of a struct may be edited together with SEQMIX_EXPERIMENTAL_VERSION */
SIZE(seqmix_linear_args, 568);
FIELD(seqmix_linear_args, struct_size, 0);
FIELD(seqmix_linear_args, zero0, 4);
FIELD(seqmix_linear_args, x, 8);
FIELD(seqmix_linear_args, weight, 120);
FIELD(seqmix_linear_args, bias, 232);
FIELD(seqmix_linear_args, residual, 344);
FIELD(seqmix_linear_args, y, 456);

SIZE(seqmix_embed_args, 240);
FIELD(seqmix_embed_args, struct_size, 0);
FIELD(seqmix_embed_args, n_tokens, 4);
FIELD(seqmix_embed_args, tokens, 8);
FIELD(seqmix_embed_args, table, 16);
FIELD(seqmix_embed_args, y, 128);
#    endif
#endif
