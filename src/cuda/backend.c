/* SPDX-License-Identifier: MIT */
/*
 * The CUDA backend: which rungs a device gets, its memory and clock, and the one place where the runtime's errors become ours.
 * A call enqueues and returns; an error of work enqueued earlier surfaces on a later call, and the message says so.
 */
#include "cublaslt.h"
#include "on_device.h"
#include "status.h"
#include "workspace.h"

seqmix_status seqmix_cuda_mapped(struct seqmix_context *ctx, int error)
{
    if (error == 0) return SEQMIX_OK;
    const seqmix_status status = error == SEQMIX_CUDA_OUT_OF_MEMORY ? SEQMIX_ERR_OUT_OF_MEMORY : SEQMIX_ERR_BACKEND;
    return seqmix_fail(ctx, status, "%s (CUDA error %d, of this call or of work enqueued before it)",
                       seqmix_cuda_error_text(error), error);
}

/* ---------------------------------------------------------------- memory and time */

static seqmix_status device_elapsed(struct seqmix_context *ctx, double *milliseconds)
{
    float passed = 0;
    int previous = -1, error = seqmix_cuda_enter(ctx->device, &previous);
    if (error == 0) error = seqmix_cuda_elapsed(&ctx->device_mark, ctx->stream, &passed);
    seqmix_cuda_leave(ctx->device, previous);
    *milliseconds = (double)passed;
    return seqmix_cuda_mapped(ctx, error);
}

static seqmix_status prepare_sm80(struct seqmix_context *ctx)
{
    ON_DEVICE(ctx, seqmix_prepare__cuda_sm80(ctx->shared_bytes));
}

static seqmix_status open_cublaslt(struct seqmix_context *ctx)
{
    ON_DEVICE(ctx, (seqmix_cublaslt_open(ctx->device_state), 0));
}

/* From here on the context stays on its device, whichever is current. What a device must be asked or told is done here, not by
 * calls: it may be another context's already, which does no harm. */
static seqmix_status device_open(struct seqmix_context *ctx)
{
    double none;
    int device = ctx->device, processors = 0, shared_bytes = 0;
    SEQMIX_TRY(seqmix_cuda_mapped(ctx, seqmix_cuda_facts(&device, &processors, &shared_bytes)));
    ctx->device = device;
    ctx->processors = processors;
    ctx->shared_bytes = shared_bytes;
    SEQMIX_TRY(device_elapsed(ctx, &none));
    if (ctx->rung->level == SEQMIX_LEVEL_CUDA_SIMPLE) return SEQMIX_OK;
    SEQMIX_TRY(prepare_sm80(ctx));
    return open_cublaslt(ctx);
}

static void device_close(struct seqmix_context *ctx)
{
    int previous = -1;
    if (ctx->device_state != NULL && seqmix_cuda_enter(ctx->device, &previous) == 0) {
        seqmix_cublaslt_close(ctx->device_state);
        seqmix_cuda_leave(ctx->device, previous);
    }
    seqmix_cuda_forget(ctx->device_mark);
}

static seqmix_status device_alloc(struct seqmix_context *ctx, size_t bytes, void **out)
{
    ON_DEVICE(ctx, seqmix_cuda_alloc(bytes, out));
}

static void device_release(struct seqmix_context *ctx, void *memory)
{
    int previous = -1;
    if (seqmix_cuda_enter(ctx->device, &previous) == 0) seqmix_cuda_release(memory);
    seqmix_cuda_leave(ctx->device, previous);
}

static seqmix_status device_copy(struct seqmix_context *ctx, void *to, const void *from, size_t bytes)
{
    ON_DEVICE(ctx, seqmix_cuda_copy(to, from, bytes, ctx->stream));
}

static seqmix_status device_sync(struct seqmix_context *ctx)
{
    ON_DEVICE(ctx, seqmix_cuda_sync(ctx->stream));
}

static const struct seqmix_memory device_memory = {
    .state_bytes = sizeof(struct seqmix_cublaslt),
    .open = device_open,
    .close = device_close,
    .alloc = device_alloc,
    .release = device_release,
    .copy = device_copy,
    .sync = device_sync,
    .elapsed = device_elapsed,
};

/* ---------------------------------------------------------------- rung cuda-simple */

static seqmix_status plan_simple(struct seqmix_plan *plan, const char *kernel, size_t workspace)
{
    plan->kernel = kernel;
    plan->workspace = workspace;
    plan->grain = 1;
    return SEQMIX_OK;
}

/* Bytes of the inverses in f32: inv may be a, and 16-bit storage must not round what is read again. */
static size_t inverse_workspace(const seqmix_inverse_args *args)
{
    struct seqmix_cursor cursor = {NULL, 0};
    size_t bytes = sizeof(float);
    for (int axis = 0; axis < args->a.rank; axis++)
        bytes *= (size_t)args->a.shape[axis];
    (void)seqmix_take(&cursor, bytes);
    return cursor.used;
}

#define SIMPLE(op, family, launcher, workspace_of)                                                                     \
    static seqmix_status op##_plan(const struct seqmix_context *ctx, const seqmix_##family##_args *args,               \
                                   struct seqmix_plan *plan)                                                           \
    {                                                                                                                  \
        (void)ctx, (void)args;                                                                                         \
        return plan_simple(plan, "cuda-simple/" #launcher, workspace_of);                                              \
    }                                                                                                                  \
    static seqmix_status op(struct seqmix_context *ctx, const seqmix_##family##_args *args, void *workspace)           \
    {                                                                                                                  \
        ON_DEVICE(ctx, seqmix_##launcher##__cuda_simple(args, workspace, ctx->stream));                                \
    }
SIMPLE(short_conv_rows, conv, short_conv, 0)
SIMPLE(short_conv_step, conv, short_conv, 0)
SIMPLE(selective_scan_rows, scan, selective_scan, 0)
SIMPLE(selective_scan_step, scan, selective_scan, 0)
SIMPLE(ssd_chunk_forward, ssd, ssd, 0)
SIMPLE(ssd_step, ssd, ssd, 0)
SIMPLE(deltanet_chunk_forward, deltanet, deltanet, 0)
SIMPLE(deltanet_step, deltanet, deltanet, 0)
SIMPLE(unit_lower_inverse, inverse, unit_lower_inverse, inverse_workspace(args))
SIMPLE(gated_rms_norm_rows, norm, gated_rms_norm, 0)
SIMPLE(linear, linear, linear, 0)
SIMPLE(embed_rows, embed, embed, 0)
SIMPLE(rope_rows, rope, rope, 0)
SIMPLE(attention_rows, attention, attention, 0)
SIMPLE(moe_route, route, route, 0)
SIMPLE(act_rows, act, act, 0)
SIMPLE(moe_experts, moe, moe, seqmix_moe_workspace__cuda_simple(args))
SIMPLE(argmax, argmax, argmax, 0)

static const struct seqmix_kernels simple = {
    .backend = SEQMIX_BACKEND_CUDA,
    .level = SEQMIX_LEVEL_CUDA_SIMPLE,
    .name = "cuda-simple",
    .lower = NULL,
    .memory = &device_memory,
#define SEQMIX_OP(ID, op_name, family, step) .op_name = op_name, .op_name##_plan = op_name##_plan,
#include "ops.def"
};

/* ---------------------------------------------------------------- the rungs above, and the choice */

/* Kernels are compiled for this capability and later ones. */
enum { OLDEST = 75 };

/* The slots of a rung's own kernels, the others NULL, and the capability it needs. */
extern const struct seqmix_kernels seqmix_kernels__cuda_sm80;
static const struct {
    const struct seqmix_kernels *kernels;
    int capability;
} levels[] = {{&seqmix_kernels__cuda_sm80, 80}};

enum { N_LEVELS = sizeof levels / sizeof *levels };

static struct seqmix_kernels rungs[N_LEVELS];

void seqmix_cuda_build_rungs(void)
{
    const struct seqmix_kernels *lower = &simple;
    for (int i = 0; i < N_LEVELS; i++) {
        const struct seqmix_kernels *own = levels[i].kernels;
        rungs[i] = *lower;
        rungs[i].lower = lower;
        rungs[i].level = own->level;
        rungs[i].name = own->name;
#define SEQMIX_OP(ID, op_name, family, step)                                                                           \
    if (own->op_name != NULL) {                                                                                        \
        rungs[i].op_name = own->op_name;                                                                               \
        rungs[i].op_name##_plan = own->op_name##_plan;                                                                 \
    }
#include "ops.def"
        if (own->deltanet_conv_step != NULL) rungs[i].deltanet_conv_step = own->deltanet_conv_step;
        if (own->ssd_conv_step != NULL) rungs[i].ssd_conv_step = own->ssd_conv_step;
        lower = &rungs[i];
    }
}

seqmix_status seqmix_cuda_open(int32_t device, int32_t level_cap, const struct seqmix_kernels **rung, char *why,
                               size_t why_len)
{
    int capability = 0;
    *rung = NULL;
    const int error = seqmix_cuda_capability(device, &capability);
    if (error != 0)
        return seqmix_fail_text(why, why_len, SEQMIX_ERR_UNAVAILABLE, "device=%d: %s", (int)device,
                                seqmix_cuda_error_text(error));
    if (capability < OLDEST)
        return seqmix_fail_text(why, why_len, SEQMIX_ERR_UNAVAILABLE,
                                "device=%d has compute capability %d.%d, not %d.%d", (int)device, capability / 10,
                                capability % 10, OLDEST / 10, OLDEST % 10);
    *rung = &simple;
    for (int i = 0; i < N_LEVELS; i++)
        if (capability >= levels[i].capability && (level_cap == SEQMIX_LEVEL_BEST || rungs[i].level <= level_cap))
            *rung = &rungs[i];
    return SEQMIX_OK;
}
