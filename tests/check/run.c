/* SPDX-License-Identifier: MIT */
/* Running calls: contexts of a rung, the public entry with a guarded workspace, bare tables for the oracles. */
#include <stdarg.h>

#include "batch.h"
#include "harness.h"

#if defined(__has_feature)
#    if __has_feature(address_sanitizer)
#        define WITH_ASAN 1
#    endif
#elif defined(__SANITIZE_ADDRESS__)
#    define WITH_ASAN 1
#endif
#ifdef WITH_ASAN
#    include <sanitizer/asan_interface.h>
#else
#    define ASAN_POISON_MEMORY_REGION(at, size)   ((void)(at), (void)(size))
#    define ASAN_UNPOISON_MEMORY_REGION(at, size) ((void)(at), (void)(size))
#endif

void check_fail(struct verdict *verdict, const char *format, ...)
{
    if (!verdict->ok) return;
    verdict->ok = false;
    va_list list;
    va_start(list, format);
    vsnprintf(verdict->why, sizeof verdict->why, format, list);
    va_end(list);
}

/* ---------------------------------------------------------------- contexts */

static void run_reversed(void *user, seqmix_task_fn fn, void *arg, int64_t n_tasks)
{
    (void)user;
    for (int64_t task = n_tasks - 1; task >= 0; task--)
        fn(arg, task, (int32_t)(task % 3));
}

static seqmix_ctx *open_context(const struct seqmix_kernels *table, int32_t n_workers, seqmix_parallel_fn parallel,
                                char *why, size_t why_len)
{
    const seqmix_ctx_desc desc = {
        .struct_size = sizeof desc, .backend = table->backend, .n_workers = n_workers, .parallel = parallel};
    seqmix_ctx *ctx;
    if (seqmix_ctx_create(seqmix_get_api(SEQMIX_ABI_VERSION), &desc, &ctx, why, why_len) != SEQMIX_OK) return NULL;
    ((struct seqmix_context *)(void *)ctx)->rung = table;
    if (check_ways.fast) ((struct seqmix_context *)(void *)ctx)->flags |= SEQMIX_CTX_FAST | SEQMIX_CTX_FAST_ALWAYS;
    return ctx;
}

bool check_rung_open(struct rung *rung, const struct seqmix_kernels *table, const struct seqmix_kernels *below,
                     char *why, size_t why_len)
{
    *rung = (struct rung){.table = table, .below = below};
    rung->serial = open_context(table, 1, NULL, why, why_len);
    rung->two = open_context(table, 2, NULL, why, why_len);
    rung->five = open_context(table, 5, NULL, why, why_len);
    rung->reversed = open_context(table, 3, run_reversed, why, why_len);
    return rung->serial != NULL && rung->two != NULL && rung->five != NULL && rung->reversed != NULL;
}

void check_rung_close(struct rung *rung)
{
    seqmix_ctx_destroy(rung->serial);
    seqmix_ctx_destroy(rung->two);
    seqmix_ctx_destroy(rung->five);
    seqmix_ctx_destroy(rung->reversed);
}

/* ---------------------------------------------------------------- the public entry */

/* A workspace of exactly `bytes` between two guards of SEQMIX_WORKSPACE_ALIGN, full of NaN. */
struct arena {
    unsigned char *base, *workspace;
    size_t bytes;
};

static void open_arena(struct arena *arena, size_t bytes)
{
    const size_t align = SEQMIX_WORKSPACE_ALIGN, round = (bytes + align - 1) / align * align;
    arena->base = check_alloc(round + 2 * align);
    memset(arena->base, 0xff, round + 2 * align);
    arena->workspace = arena->base + align;
    arena->bytes = bytes;
    ASAN_POISON_MEMORY_REGION(arena->base, align);
    ASAN_POISON_MEMORY_REGION(arena->workspace + bytes, round - bytes + align);
}

static bool close_arena(struct arena *arena)
{
    const size_t align = SEQMIX_WORKSPACE_ALIGN, round = (arena->bytes + align - 1) / align * align;
    bool intact = true;
    ASAN_UNPOISON_MEMORY_REGION(arena->base, round + 2 * align);
    for (size_t i = 0; i < align; i++)
        intact = intact && arena->base[i] == 0xff;
    for (size_t i = arena->bytes; i < round + align; i++)
        intact = intact && arena->workspace[i] == 0xff;
    check_free(arena->base);
    return intact;
}

static void guard_slabs(const struct call *call, bool on)
{
    for (int i = 0; i < call->n_slabs; i++) {
        unsigned char *end = call->slab[i].bytes + call->slab[i].size - CHECK_GUARD;
        if (on) {
            ASAN_POISON_MEMORY_REGION(call->slab[i].bytes, CHECK_GUARD);
            ASAN_POISON_MEMORY_REGION(end, CHECK_GUARD);
        } else {
            ASAN_UNPOISON_MEMORY_REGION(call->slab[i].bytes, CHECK_GUARD);
            ASAN_UNPOISON_MEMORY_REGION(end, CHECK_GUARD);
        }
    }
}

bool check_run(seqmix_ctx *ctx, struct call *call, struct verdict *verdict)
{
    size_t bytes = 0;
    struct arena arena;
    seqmix_status status = call->op->workspace(ctx, &call->args, &bytes);
    if (status != SEQMIX_OK) {
        check_fail(verdict, "workspace query: %s", seqmix_last_error(ctx));
        return false;
    }
    if (call->op->step && bytes != 0) check_fail(verdict, "a step asks for %zu bytes of workspace, must be 0", bytes);
    if (((struct seqmix_context *)(void *)ctx)->rung->memory != NULL)
        return check_run_on_device(ctx, call, bytes, verdict);
    open_arena(&arena, bytes);
    guard_slabs(call, true);
    status = call->op->call(ctx, &call->args, bytes > 0 ? arena.workspace : NULL, bytes);
    guard_slabs(call, false);
    if (!close_arena(&arena)) check_fail(verdict, "wrote outside its workspace of %zu bytes", bytes);
    if (status != SEQMIX_OK) check_fail(verdict, "%s", seqmix_last_error(ctx));
    return status == SEQMIX_OK;
}

int64_t check_grain(seqmix_ctx *ctx, const struct call *call)
{
    int64_t grain = 0;
    return seqmix_op_query(ctx, call->op->id, &call->args, SEQMIX_QUERY_GRAIN, &grain) == SEQMIX_OK ? grain : 0;
}

/* ---------------------------------------------------------------- bare tables */

/* 1, or off by half an ulp of f32 either way: as rounding does, equal numbers the same way. */
static double disturbance(double value, uint64_t draw)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    struct rng rng = {bits ^ draw * 0x9e3779b97f4a7c15u};
    return draw == 0 ? 1 : check_chance(&rng, 0.5) ? 1 + 0x1p-24 : 1 - 0x1p-24;
}

/* The field of `out` becomes a tensor of its own with the same values, in f64, disturbed unless `draw` is 0. */
static void widen(const struct call *call, struct call *out, int f, uint64_t draw)
{
    const seqmix_tensor *from = check_field_const(call, f);
    seqmix_tensor *to = check_field(out, f);
    const bool kept = (call->op->family->fields[f].flags & FIELD_KEPT) != 0;
    int64_t count = 1, index[SEQMIX_MAX_RANK] = {0};
    if (!kept) to->dtype = SEQMIX_F64_INTERNAL;
    for (int axis = to->rank - 1; axis >= 0; axis--) {
        to->stride[axis] = count;
        count *= to->shape[axis];
    }
    out->slab_of[f] = out->n_slabs;
    to->data = check_new_slab(out, (size_t)count * sizeof(double))->bytes;
    if (count == 0) return;
    do {
        const double value = check_get(from, check_offset(from, index));
        check_put(to, check_offset(to, index), value * disturbance(value, draw));
    } while (check_next(from, index, 0, from->rank));
}

void check_disturb(const struct call *call, uint64_t draw, struct call *out)
{
    *out = *call;
    out->n_slabs = 0;
    for (int f = 0; f < call->op->family->n_fields; f++) {
        const seqmix_tensor *t = check_field_const(call, f);
        const bool kept = (call->op->family->fields[f].flags & FIELD_KEPT) != 0;
        const bool number = t->dtype == SEQMIX_F32 || t->dtype == SEQMIX_BF16 || t->dtype == SEQMIX_F16;
        if (seqmix_present(t) && number && !kept) widen(call, out, f, draw);
    }
    check_rebind(out);
}

bool check_run_oracle(const struct seqmix_kernels *table, const struct call *call, bool wide, struct call *out,
                      struct verdict *verdict)
{
    const struct family *family = call->op->family;
    if (wide) {
        *out = *call;
        out->n_slabs = 0;
        for (int f = 0; f < family->n_fields; f++)
            if (family->fields[f].role != ROLE_IN && seqmix_present(check_field(out, f))) widen(call, out, f, 0);
    } else {
        check_clone(call, out);
    }
    check_rebind(out);

    union check_args args = out->args;
    seqmix_batch batch;
    if (family->batch_offset != 0) {
        const seqmix_batch *given = (out->given & GIVE_BATCH) != 0 ? &out->batch : NULL, *normal = &batch;
        seqmix_batch_normalise(given, check_rows(out), call->op->step, &batch);
        memcpy((char *)&args + family->batch_offset, &normal, sizeof normal);
    }
    struct seqmix_context ctx = {.n_workers = 1, .rung = table, .op = call->op->name};
    struct seqmix_plan plan = {NULL, 0, 0};
    struct arena arena;
    if (call->op->table_plan(table, &ctx, &args, &plan) != SEQMIX_OK) {
        check_fail(verdict, "%s has no plan for it: %s", table->name, ctx.error);
        return false;
    }
    open_arena(&arena, plan.workspace);
    const seqmix_status status = call->op->table_run(table, &ctx, &args, arena.workspace);
    if (!close_arena(&arena)) check_fail(verdict, "%s wrote outside its workspace", table->name);
    if (status != SEQMIX_OK) check_fail(verdict, "%s: %s", table->name, ctx.error);
    return status == SEQMIX_OK;
}
