/* SPDX-License-Identifier: MIT */
/* The list of planted faults. Most edit the call and let rung 0 do the rest, or spoil what it did. */
#include "faults.h"

#include <float.h>
#include <math.h>
#include <signal.h>

#include "batch.h"
#include "cpu.h"

#define REF(op) seqmix_kernels__ref.op

/* Defines the misbehaving slot `fault` of `op` and what installs it; the body is a static function of the same args. */
#define FAULT(fault, op)                                                                                               \
    static void install_##fault(struct seqmix_kernels *table)                                                          \
    {                                                                                                                  \
        table->op = fault;                                                                                             \
    }

/* ---------------------------------------------------------------- options and tensors misread */

static seqmix_status other_head_map(struct seqmix_context *ctx, const seqmix_deltanet_args *args, void *workspace)
{
    seqmix_deltanet_args wrong = *args;
    wrong.head_map = SEQMIX_HEADS_TILED - args->head_map;
    return REF(deltanet_chunk_forward)(ctx, &wrong, workspace);
}
FAULT(other_head_map, deltanet_chunk_forward)

static seqmix_status no_scale(struct seqmix_context *ctx, const seqmix_deltanet_args *args, void *workspace)
{
    seqmix_deltanet_args wrong = *args;
    if (wrong.scale == 0) wrong.scale = 1;
    return REF(deltanet_chunk_forward)(ctx, &wrong, workspace);
}
FAULT(no_scale, deltanet_chunk_forward)

static seqmix_status beta_not_doubled(struct seqmix_context *ctx, const seqmix_deltanet_args *args, void *workspace)
{
    seqmix_deltanet_args wrong = *args;
    if (wrong.beta_kind == SEQMIX_BETA_SIGMOID2) wrong.beta_kind = SEQMIX_BETA_SIGMOID;
    return REF(deltanet_step)(ctx, &wrong, workspace);
}
FAULT(beta_not_doubled, deltanet_step)

static seqmix_status state_transposed(struct seqmix_context *ctx, const seqmix_deltanet_args *args, void *workspace)
{
    seqmix_deltanet_args wrong = *args;
    seqmix_tensor *s = &wrong.state;
    const bool rows = s->stride[3] == 1 && s->stride[2] == s->shape[3];
    const bool columns = s->stride[2] == 1 && s->stride[3] == s->shape[2];
    if (rows || columns) { /* the same memory read as its transpose */
        s->stride[2] = rows ? 1 : s->shape[3];
        s->stride[3] = rows ? s->shape[2] : 1;
    }
    return REF(deltanet_chunk_forward)(ctx, &wrong, workspace);
}
FAULT(state_transposed, deltanet_chunk_forward)

static seqmix_status no_dt_max(struct seqmix_context *ctx, const seqmix_ssd_args *args, void *workspace)
{
    seqmix_ssd_args wrong = *args;
    wrong.dt_max = 0;
    return REF(ssd_step)(ctx, &wrong, workspace);
}
FAULT(no_dt_max, ssd_step)

static seqmix_status conv_no_bias(struct seqmix_context *ctx, const seqmix_conv_args *args, void *workspace)
{
    seqmix_conv_args wrong = *args;
    wrong.bias.rank = 0;
    return REF(short_conv_step)(ctx, &wrong, workspace);
}
FAULT(conv_no_bias, short_conv_step)

static seqmix_status eps_squared(struct seqmix_context *ctx, const seqmix_norm_args *args, void *workspace)
{
    seqmix_norm_args wrong = *args; /* eps beside the root instead of under it is of this size */
    wrong.eps = args->eps * args->eps;
    return REF(gated_rms_norm_rows)(ctx, &wrong, workspace);
}
FAULT(eps_squared, gated_rms_norm_rows)

static seqmix_status no_eps(struct seqmix_context *ctx, const seqmix_norm_args *args, void *workspace)
{
    seqmix_norm_args wrong = *args;
    wrong.eps = 0;
    return REF(gated_rms_norm_rows)(ctx, &wrong, workspace);
}
FAULT(no_eps, gated_rms_norm_rows)

static seqmix_status chunk_128_wrong(struct seqmix_context *ctx, const seqmix_deltanet_args *args, void *workspace)
{
    seqmix_deltanet_args wrong = *args;
    if (args->chunk == 128) wrong.head_map = SEQMIX_HEADS_TILED - args->head_map;
    if (args->chunk == 128 && args->scale > 0) wrong.scale = 1.01f * args->scale;
    return REF(deltanet_chunk_forward)(ctx, &wrong, workspace);
}
FAULT(chunk_128_wrong, deltanet_chunk_forward)

/* ---------------------------------------------------------------- rows */

static seqmix_status lost_tail_row(struct seqmix_context *ctx, const seqmix_scan_args *args, void *workspace)
{
    struct call call, view;
    struct span spans[CHECK_MAX_SEQS];
    seqmix_status status = REF(selective_scan_rows)(ctx, args, workspace);
    check_as_call("selective_scan_rows", args, &call);
    const int n = check_spans(&call, spans);
    for (int i = 0; i < n && status == SEQMIX_OK; i++) { /* the state misses what a tile of 8 leaves over */
        const int64_t rows = (spans[i].end - spans[i].begin) / 8 * 8;
        if (spans[i].read == spans[i].write || rows == 0) continue;
        check_view(&call, spans[i].begin, spans[i].begin + rows, &view);
        check_slots(&view, spans[i].read, spans[i].write);
        status = check_run_ref(ctx, &view, workspace);
    }
    return status;
}
FAULT(lost_tail_row, selective_scan_rows)

static seqmix_status row_unwritten(struct seqmix_context *ctx, const seqmix_linear_args *args, void *workspace)
{
    seqmix_linear_args wrong = *args;
    if (wrong.x.shape[0] > 1 && wrong.x.shape[0] % 16 == 1)
        wrong.x.shape[0] = wrong.y.shape[0] = wrong.residual.shape[0] = wrong.x.shape[0] - 1;
    return REF(linear)(ctx, &wrong, workspace);
}
FAULT(row_unwritten, linear)

static seqmix_status neighbours_rows(struct seqmix_context *ctx, const seqmix_conv_args *args, void *workspace)
{
    const seqmix_status status = REF(short_conv_rows)(ctx, args, workspace);
    seqmix_batch one = {.n_seqs = 1, .max_rows = (int32_t)args->x.shape[0]};
    seqmix_conv_args wrong = *args; /* the window runs on into the sequence before */
    wrong.batch = &one;
    wrong.state.rank = 0;
    return status == SEQMIX_OK && args->batch->n_seqs > 1 ? REF(short_conv_rows)(ctx, &wrong, workspace) : status;
}
FAULT(neighbours_rows, short_conv_rows)

static seqmix_status neighbour_leaks(struct seqmix_context *ctx, const seqmix_conv_args *args, void *workspace)
{
    const seqmix_status status = REF(short_conv_rows)(ctx, args, workspace);
    const int32_t *begin = args->batch->row_begin;
    for (int32_t i = 1; begin != NULL && i < args->batch->n_seqs; i++) {
        const int64_t t = begin[i]; /* taps before the first row are multiplied by 0 */
        if (t == 0 || t == begin[i + 1] || args->x.shape[1] == 0) continue;
        const int64_t at = t * args->y.stride[0];
        check_put(&args->y, at, check_get(&args->y, at) + 0 * check_get(&args->x, (t - 1) * args->x.stride[0]));
    }
    return status;
}
FAULT(neighbour_leaks, short_conv_rows)

static seqmix_status read_after_write(struct seqmix_context *ctx, const seqmix_conv_args *args, void *workspace)
{
    const seqmix_status status = REF(short_conv_step)(ctx, args, workspace);
    if (status != SEQMIX_OK || args->y.data != args->x.data) return status;
    seqmix_conv_args again = *args; /* x is y by now */
    again.state.rank = 0;
    return REF(short_conv_step)(ctx, &again, workspace);
}
FAULT(read_after_write, short_conv_step)

static seqmix_status denormals_flushed(struct seqmix_context *ctx, const seqmix_conv_args *args, void *workspace)
{
    const seqmix_status status = REF(short_conv_rows)(ctx, args, workspace);
    int64_t index[SEQMIX_MAX_RANK] = {0};
    if (seqmix_tensor_count(&args->y) == 0) return status;
    do {
        const int64_t at = check_offset(&args->y, index);
        if (fabs(check_get(&args->y, at)) < (double)FLT_MIN) check_put(&args->y, at, 0);
    } while (check_next(&args->y, index, 0, 2));
    return status;
}
FAULT(denormals_flushed, short_conv_rows)

static seqmix_status foreign_rows_written(struct seqmix_context *ctx, const seqmix_deltanet_args *args, void *workspace)
{
    struct call call;
    check_as_call("deltanet_chunk_forward", args, &call);
    const int64_t n = call.batch.n_seqs;
    const bool longer =
        (call.given & GIVE_ROW_BEGIN) != 0 && call.row_begin[n] - call.row_begin[n - 1] < call.batch.max_rows;
    if (longer && call.row_begin[n] < check_rows(&call)) call.row_begin[n]++;
    return check_run_ref(ctx, &call, workspace);
}
FAULT(foreign_rows_written, deltanet_chunk_forward)

static seqmix_status padding_leaks(struct seqmix_context *ctx, const seqmix_norm_args *args, void *workspace)
{
    const seqmix_status status = REF(gated_rms_norm_rows)(ctx, args, workspace);
    const int64_t D = args->x.shape[1], R = args->x.shape[0];
    if (args->x.stride[0] <= D || args->y.data == args->x.data) return status;
    for (int64_t t = 0; t + 1 < R; t++) { /* the mask of the last tile multiplies where it should select */
        const int64_t at = t * args->y.stride[0] + D - 1;
        check_put(&args->y, at, check_get(&args->y, at) + 0 * check_get(&args->x, t * args->x.stride[0] + D));
    }
    return status;
}
FAULT(padding_leaks, gated_rms_norm_rows)

static seqmix_status writes_past_row(struct seqmix_context *ctx, const seqmix_linear_args *args, void *workspace)
{
    const seqmix_status status = REF(linear)(ctx, args, workspace);
    const int64_t R = args->y.shape[0], O = args->y.shape[1];
    if (args->y.stride[0] > O && R > 1) check_put(&args->y, O, 0);
    return status;
}
FAULT(writes_past_row, linear)

static seqmix_status input_changed(struct seqmix_context *ctx, const seqmix_ssd_args *args, void *workspace)
{
    const seqmix_status status = REF(ssd_chunk_forward)(ctx, args, workspace);
    if (args->x.shape[0] > 0) check_put(&args->dt, 0, 2 * check_get(&args->dt, 0)); /* softplus stored in place */
    return status;
}
FAULT(input_changed, ssd_chunk_forward)

/* ---------------------------------------------------------------- slots and checkpoints */

static seqmix_status checkpoint_early(struct seqmix_context *ctx, const seqmix_ssd_args *args, void *workspace)
{
    struct call call;
    check_as_call("ssd_chunk_forward", args, &call);
    for (int i = 0; i < call.batch.n_checkpoints; i++)
        if (call.ckpt_row[i] > 1) call.ckpt_row[i]--;
    return check_run_ref(ctx, &call, workspace);
}
FAULT(checkpoint_early, ssd_chunk_forward)

static seqmix_status next_slot(struct seqmix_context *ctx, const seqmix_scan_args *args, void *workspace)
{
    struct call call;
    check_as_call("selective_scan_step", args, &call);
    if ((call.given & GIVE_WRITE) != 0)
        for (int i = 0; i < call.batch.n_seqs; i++)
            if (call.write[i] >= 0 && call.write[i] + 1 < args->state.shape[0]) call.write[i]++;
    return check_run_ref(ctx, &call, workspace);
}
FAULT(next_slot, selective_scan_step)

static seqmix_status empty_not_moved(struct seqmix_context *ctx, const seqmix_deltanet_args *args, void *workspace)
{
    struct call call;
    struct span spans[CHECK_MAX_SEQS];
    check_as_call("deltanet_step", args, &call);
    const int n = check_spans(&call, spans);
    for (int i = 0; i < n; i++)
        if ((call.given & GIVE_WRITE) != 0 && spans[i].begin == spans[i].end) call.write[i] = -1;
    return check_run_ref(ctx, &call, workspace);
}
FAULT(empty_not_moved, deltanet_step)

static seqmix_status no_read_is_slot_0(struct seqmix_context *ctx, const seqmix_conv_args *args, void *workspace)
{
    struct call call;
    check_as_call("short_conv_rows", args, &call);
    if (seqmix_present(&args->state) && (call.given & GIVE_READ) != 0 && (call.given & GIVE_WRITE) != 0)
        for (int i = 0; i < call.batch.n_seqs; i++)
            if (call.read[i] < 0) call.read[i] = 0;
    return check_run_ref(ctx, &call, workspace);
}
FAULT(no_read_is_slot_0, short_conv_rows)

static seqmix_status pool_saturates(struct seqmix_context *ctx, const seqmix_deltanet_args *args, void *workspace)
{
    const seqmix_status status = REF(deltanet_step)(ctx, args, workspace);
    int64_t index[SEQMIX_MAX_RANK] = {0};
    if (args->state.rank == 0 || args->state.dtype != SEQMIX_F16 || seqmix_tensor_count(&args->state) == 0)
        return status;
    do {
        const int64_t at = check_offset(&args->state, index);
        const double value = check_get(&args->state, at);
        if (isinf(value)) check_put(&args->state, at, copysign(65504, value));
    } while (check_next(&args->state, index, 0, 4));
    return status;
}
FAULT(pool_saturates, deltanet_step)

/* ---------------------------------------------------------------- bits */

/* The last bit of an f32 output's first element. */
static void flip_bit(const seqmix_tensor *out)
{
    if (seqmix_tensor_count(out) > 0 && out->dtype == SEQMIX_F32)
        ((float *)out->data)[0] = nextafterf(((float *)out->data)[0], INFINITY);
}

static seqmix_status worker_sums(struct seqmix_context *ctx, const seqmix_linear_args *args, void *workspace)
{
    const int64_t I = args->x.shape[1], block = seqmix_dtype_block(args->weight.dtype);
    const int64_t part = (I / block + ctx->n_workers - 1) / ctx->n_workers * block; /* blocks stay whole */
    seqmix_status status = SEQMIX_OK;
    if (args->y.dtype != SEQMIX_F32 || ctx->n_workers == 1) return REF(linear)(ctx, args, workspace);
    for (int64_t at = 0; at < I && status == SEQMIX_OK; at += part) { /* one partial sum a worker */
        seqmix_linear_args some = *args;
        some.x.shape[1] = some.weight.shape[1] = I - at < part ? I - at : part;
        some.x.data = (char *)some.x.data + at * (int64_t)seqmix_dtype_size(some.x.dtype);
        some.weight.data = (char *)some.weight.data + seqmix_dtype_bytes(some.weight.dtype, at);
        if (at > 0) some.residual = args->y;
        if (at > 0) some.bias.rank = 0;
        status = REF(linear)(ctx, &some, workspace);
    }
    return status;
}
FAULT(worker_sums, linear)

static seqmix_status bits_of_company(struct seqmix_context *ctx, const seqmix_scan_args *args, void *workspace)
{
    const seqmix_status status = REF(selective_scan_rows)(ctx, args, workspace);
    if (args->batch->n_seqs > 1 && args->batch->row_begin != NULL && args->batch->row_begin[1] > 0) flip_bit(&args->y);
    return status;
}
FAULT(bits_of_company, selective_scan_rows)

static seqmix_status bits_of_length(struct seqmix_context *ctx, const seqmix_scan_args *args, void *workspace)
{
    const seqmix_status status = REF(selective_scan_rows)(ctx, args, workspace);
    if (args->x.shape[0] % 2 != 0) flip_bit(&args->y);
    return status;
}
FAULT(bits_of_length, selective_scan_rows)

static seqmix_status bits_of_slots(struct seqmix_context *ctx, const seqmix_deltanet_args *args, void *workspace)
{
    const seqmix_status status = REF(deltanet_step)(ctx, args, workspace);
    if (args->batch->write_slot != NULL && args->batch->write_slot[0] % 2 == 0) flip_bit(&args->o);
    return status;
}
FAULT(bits_of_slots, deltanet_step)

static seqmix_status bits_of_checkpoints(struct seqmix_context *ctx, const seqmix_deltanet_args *args, void *workspace)
{
    const seqmix_status status = REF(deltanet_chunk_forward)(ctx, args, workspace);
    if (args->batch->n_checkpoints > 0) flip_bit(&args->o);
    return status;
}
FAULT(bits_of_checkpoints, deltanet_chunk_forward)

static seqmix_status step_rows_fused(struct seqmix_context *ctx, const seqmix_ssd_args *args, void *workspace)
{
    const seqmix_status status = REF(ssd_step)(ctx, args, workspace);
    if (args->batch->row_begin != NULL && args->batch->row_begin[1] > 1) flip_bit(&args->y);
    return status;
}
FAULT(step_rows_fused, ssd_step)

/* ---------------------------------------------------------------- inverse, signals */

static seqmix_status upper_not_written(struct seqmix_context *ctx, const seqmix_inverse_args *args, void *workspace)
{
    const seqmix_tensor *inv = &args->inv;
    const int64_t n = inv->shape[inv->rank - 1];
    int64_t index[SEQMIX_MAX_RANK] = {0};
    index[inv->rank - 1] = n - 1;
    const double corner = check_get(inv, check_offset(inv, index));
    const seqmix_status status = REF(unit_lower_inverse)(ctx, args, workspace);
    if (n > 1) check_put(inv, check_offset(inv, index), corner);
    return status;
}
FAULT(upper_not_written, unit_lower_inverse)

static seqmix_status inverse_in_bf16(struct seqmix_context *ctx, const seqmix_inverse_args *args, void *workspace)
{
    const seqmix_status status = REF(unit_lower_inverse)(ctx, args, workspace);
    int64_t index[SEQMIX_MAX_RANK] = {0};
    do {
        const int64_t at = check_offset(&args->inv, index);
        check_put(&args->inv, at, check_round(SEQMIX_BF16, check_get(&args->inv, at)));
    } while (check_next(&args->inv, index, 0, args->inv.rank));
    return status;
}
FAULT(inverse_in_bf16, unit_lower_inverse)

static seqmix_status crashes(struct seqmix_context *ctx, const seqmix_conv_args *args, void *workspace)
{
    if (args->x.shape[0] == 17) (void)raise(SIGSEGV);
    return REF(short_conv_rows)(ctx, args, workspace);
}
FAULT(crashes, short_conv_rows)

static seqmix_status wrong_dtype(struct seqmix_context *ctx, const seqmix_embed_args *args, void *workspace)
{
    seqmix_embed_args wrong = *args; /* 16-bit rows are copied as if the dtypes were equal */
    if (args->table.dtype != args->y.dtype && args->table.dtype != SEQMIX_F32 && args->y.dtype != SEQMIX_F32)
        wrong.table.dtype = args->y.dtype;
    return REF(embed_rows)(ctx, &wrong, workspace);
}
FAULT(wrong_dtype, embed_rows)

FAULT(check_ssd_wrong_groups, ssd_chunk_forward)
FAULT(check_ssd_plain_sums, ssd_chunk_forward)
FAULT(check_ssd_product, ssd_chunk_forward)
FAULT(check_delta_late_decay, deltanet_chunk_forward)
FAULT(check_delta_growing, deltanet_chunk_forward)
FAULT(check_scan_naive_softplus, selective_scan_rows)

/* Inside the bound, yet over what rung 0 errs, and over what disturbed inputs do. */
static seqmix_status four_bits_lost(struct seqmix_context *ctx, const seqmix_scan_args *args, void *workspace)
{
    const seqmix_status status = REF(selective_scan_rows)(ctx, args, workspace);
    const seqmix_batch *b = args->batch;
    const int64_t end = seqmix_batch_seq(b, args->x.shape[0], &args->state, b->n_seqs - 1).end;
    for (int64_t t = 0; t < end; t++)
        for (int64_t c = 0; c < args->y.shape[1]; c++) {
            const int64_t at = t * args->y.stride[0] + c;
            check_put(&args->y, at, check_get(&args->y, at) * (1 + 0x1p-20));
        }
    return status;
}
FAULT(four_bits_lost, selective_scan_rows)

/* Inside the bound for hard data, yet far from what the plain chunk form reaches. */
static seqmix_status rough_chunk_form(struct seqmix_context *ctx, const seqmix_ssd_args *args, void *workspace)
{
    const seqmix_status status = seqmix_kernels__chunk_plain.ssd_chunk_forward(ctx, args, workspace);
    int64_t index[SEQMIX_MAX_RANK] = {0};
    if (seqmix_tensor_count(&args->y) == 0) return status;
    do {
        const int64_t at = check_offset(&args->y, index);
        check_put(&args->y, at, check_get(&args->y, at) * (1 + 1e-5));
    } while (check_next(&args->y, index, 0, 3));
    return status;
}

static void install_rough_chunk_form(struct seqmix_kernels *table)
{
    table->ssd_chunk_forward = rough_chunk_form;
    table->ssd_chunk_forward_plan = seqmix_kernels__chunk_plain.ssd_chunk_forward_plan;
}

// clang-format off
const struct fault check_faults[] = {
    {"group map h % G", "ssd_chunk_forward", install_check_ssd_wrong_groups, CLASS_KINDS},
    {"head map", "deltanet_chunk_forward", install_other_head_map, CLASS_KINDS},
    {"state transposed", "deltanet_chunk_forward", install_state_transposed, CLASS_POOL},
    {"decay after prediction", "deltanet_chunk_forward", install_check_delta_late_decay, CLASS_GAUSS},
    {"missing clamp (dt_max)", "ssd_step", install_no_dt_max, CLASS_CLAMP},
    {"missing clamp (positive gate)", "deltanet_chunk_forward", install_check_delta_growing, CLASS_CLAMP},
    {"f32-sum gates", "ssd_chunk_forward", install_check_ssd_plain_sums, CLASS_HARD_ROW},
    {"gates as exp(g_i)*exp(-g_j)", "ssd_chunk_forward", install_check_ssd_product, CLASS_HARD_ROW},
    {"lost tail row", "selective_scan_rows", install_lost_tail_row, CLASS_ROWS},
    {"checkpoint off by one", "ssd_chunk_forward", install_checkpoint_early, CLASS_BATCH},
    {"neighbour's row read", "short_conv_rows", install_neighbours_rows, CLASS_BATCH},
    {"slot off by one", "selective_scan_step", install_next_slot, CLASS_BATCH},
    {"bias dropped", "short_conv_step", install_conv_no_bias, CLASS_OPTIONAL},
    {"NaN leaked from padding", "gated_rms_norm_rows", install_padding_leaks, CLASS_LAYOUT},
    {"NaN leaked from a neighbour", "short_conv_rows", install_neighbour_leaks, CLASS_NEIGHBOURS},
    {"output row unwritten", "linear", install_row_unwritten, CLASS_ROWS},
    {"worker-dependent sum", "linear", install_worker_sums, CLASS_WORKERS},
    {"empty sequence not moved", "deltanet_step", install_empty_not_moved, CLASS_BATCH},
    {"read -1 taken as slot 0", "short_conv_rows", install_no_read_is_slot_0, CLASS_BATCH},
    {"scale missing", "deltanet_chunk_forward", install_no_scale, CLASS_KINDS},
    {"beta not doubled", "deltanet_step", install_beta_not_doubled, CLASS_KINDS},
    {"eps in the wrong place", "gated_rms_norm_rows", install_eps_squared, CLASS_KINDS},
    {"eps left out", "gated_rms_norm_rows", install_no_eps, CLASS_ZERO},
    {"softplus as log(1+exp)", "selective_scan_rows", install_check_scan_naive_softplus, CLASS_EXTREME},
    {"denormals flushed", "short_conv_rows", install_denormals_flushed, CLASS_DENORMAL},
    {"f16 pool saturates", "deltanet_step", install_pool_saturates, CLASS_OVERFLOW},
    {"row of no sequence written", "deltanet_chunk_forward", install_foreign_rows_written, CLASS_BATCH},
    {"gap between rows written", "linear", install_writes_past_row, CLASS_LAYOUT},
    {"input changed", "ssd_chunk_forward", install_input_changed, CLASS_GAUSS},
    {"input read after the output", "short_conv_step", install_read_after_write, CLASS_IN_PLACE},
    {"upper triangle not written", "unit_lower_inverse", install_upper_not_written, CLASS_SIZES},
    {"inverse in bf16", "unit_lower_inverse", install_inverse_in_bf16, CLASS_RESIDUAL},
    {"bf16 copied as f16", "embed_rows", install_wrong_dtype, CLASS_PARAMS},
    {"bits depend on the length", "selective_scan_rows", install_bits_of_length, CLASS_SPLIT},
    {"bits depend on company", "selective_scan_rows", install_bits_of_company, CLASS_COMPANY},
    {"bits depend on slot numbers", "deltanet_step", install_bits_of_slots, CLASS_RENUMBER},
    {"bits depend on checkpoints", "deltanet_chunk_forward", install_bits_of_checkpoints, CLASS_CHECKPOINTS},
    {"rows of a step fused", "ssd_step", install_step_rows_fused, CLASS_STEPS},
    {"forms disagree", "ssd_step", install_check_ssd_wrong_groups, CLASS_FORMS},
    {"four bits lost", "selective_scan_rows", install_four_bits_lost, CLASS_GAUSS},
    {"rough chunk form", "ssd_chunk_forward", install_rough_chunk_form, CLASS_HARD_ROW},
    {"one chunk size wrong", "deltanet_chunk_forward", install_chunk_128_wrong, CLASS_CHUNKS},
    {"segmentation fault", "short_conv_rows", install_crashes, CLASS_ROWS},
};
// clang-format on

const int check_n_faults = (int)(sizeof check_faults / sizeof check_faults[0]);
