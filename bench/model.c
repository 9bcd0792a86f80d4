/* SPDX-License-Identifier: MIT */
/*
 * The arithmetic of --model. A launch takes at least as long as its busiest resource: memory (each sector once a launch, where
 * L2 can serve the rest), L2 (each sector once a block), tensor cores, special functions, the load/store unit (wavefronts of
 * shared memory, shuffles, sectors of global memory at 4 a clock), fused multiply-adds. What sits in an SM is stretched by the
 * tail: the busiest SM has ceil(blocks / SMs) blocks. Latency, plain additions and multiplications, divisions, address
 * arithmetic and the gaps between launches are not in it, so the truth is later. The floor is what the op must do however it is
 * computed, on wgmma's rate: bytes once, exps, flops of the chunk forms with chunks of 64 (delta rule) and 128 rows (SSD).
 */
#include "model.h"

#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const seqmix_model_parts[SEQMIX_MODEL_PARTS] = {"dram", "l2", "mma", "exp", "lsu", "fma"};

enum { MAX_LINES = 512 };

/* What issue 5 asks of the sm80 rung on an H200: a time, or a share of the copy rate. */
static const struct {
    const char *op, *dims;
    int64_t rows, seqs;
    int fast;
    double seconds, of_copy;
} asked[] = {
    {"deltanet_chunk_forward", "16/32x128", 8192, 1, 1, 0.25e-3, 0},
    {"deltanet_chunk_forward", "16/32x128", 32768, 4, 0, 0.55e-3, 0},
    {"ssd_chunk_forward", "128x80 *", 8192, 1, 0, 0.30e-3, 0},
    {"short_conv_rows", "8192 K4", 8192, 1, 0, 80e-6, 0},
    {"deltanet_step", "*", 0, 0, 0, 0, 0.92},
    {"ssd_step", "*", 0, 0, 0, 0, 0.92},
    {"selective_scan_step", "*", 0, 0, 0, 0, 0.92},
    {"short_conv_step", "*", 0, 0, 0, 0, 0.92},
};

/* ---------------------------------------------------------------- one launch */

static double lesser(double a, double b)
{
    return a < b ? a : b;
}

/* Warps that an SM holds at a time; 0 when the registers are not known. */
static double occupancy(const struct seqmix_model_card *card, const struct seqmix_model_launch *l)
{
    const double warps = ceil(l->threads / 32.0);
    if (l->registers == 0) return 0;
    const double by_registers = floor(floor(card->registers / (ceil(l->registers / 8.0) * 8 * 32)) / warps);
    const double by_shared = floor(card->shared / (l->shared + 1024));
    return warps * lesser(lesser(floor(card->warps / warps), card->blocks), lesser(by_registers, by_shared));
}

static struct seqmix_model_times times_of(const struct seqmix_model_card *card, const struct seqmix_model_launch *l)
{
    struct seqmix_model_times t = {.warps = occupancy(card, l)};
    t.tail = ceil(l->blocks / card->sms) * card->sms / l->blocks;
    const double clocks = card->sms * card->clock;
    t.part[SEQMIX_MODEL_DRAM] = (l->fetched + l->stored) / card->copy;
    t.part[SEQMIX_MODEL_L2] = l->between / card->l2;
    t.part[SEQMIX_MODEL_MMA] = t.tail * 4096 * (l->mma_16 + l->mma_8) / card->tensor;
    t.part[SEQMIX_MODEL_EXP] = t.tail * (l->exps + l->roots) / (card->mufu * clocks);
    t.part[SEQMIX_MODEL_LSU] = t.tail * (l->wavefronts + l->shuffles + l->sectors / 4) / clocks;
    t.part[SEQMIX_MODEL_FMA] = t.tail * 2 * l->fmas / card->fp32;
    for (int i = 0; i < SEQMIX_MODEL_PARTS; i++)
        if (t.part[i] > t.bound) {
            t.bound = t.part[i];
            t.by = i;
        }
    return t;
}

/* ---------------------------------------------------------------- the floor */

/* Flops that tensor cores can take, of the whole call. */
static double tensor_flops(const struct seqmix_bench_entry *e)
{
    const struct seqmix_shape *s = e->shape;
    const double rows = (double)e->rows;
    switch (e->op->id) {
    case SEQMIX_OP_DELTANET_CHUNK_FORWARD: {
        const double HV = (double)s->deltanet.HV, DK = (double)s->deltanet.DK, DV = (double)s->deltanet.DV;
        return rows * HV * (6 * DK * DV + 2 * 64 * (2 * DK + 2 * DV));
    }
    case SEQMIX_OP_SSD_CHUNK_FORWARD: {
        const double HP = (double)(s->ssd.H * s->ssd.P), N = (double)s->ssd.N, G = (double)s->ssd.G;
        return rows * (2 * 128 * N * G + 2 * 128 * HP + 4 * N * HP);
    }
    case SEQMIX_OP_LINEAR:
        return 2 * rows * (double)e->linear->I * (double)e->linear->O;
    default:
        return 0;
    }
}

static void find_floor(const struct seqmix_model_card *card, struct seqmix_model_line *line)
{
    const struct seqmix_bench_entry *e = &line->entry;
    struct seqmix_bench_plan plan = {.n_fields = 0};
    e->op->plan(e, &plan);
    memcpy(line->dims, plan.dims, sizeof line->dims);
    for (int i = 0; i < plan.n_fields; i++) {
        const struct seqmix_bench_field *f = &plan.fields[i];
        const double bytes = (double)seqmix_bench_count(&f->view) * (double)seqmix_bench_dtype_size(f->view.dtype);
        if (f->role != SEQMIX_BENCH_OUT) line->floor_bytes += bytes * f->touched;
        if (f->role == SEQMIX_BENCH_OUT || f->role == SEQMIX_BENCH_STATE) line->floor_bytes += bytes;
    }
    double exps = plan.exps;
    if (e->op->id == SEQMIX_OP_SELECTIVE_SCAN_ROWS) /* with softplus and silu */
        exps = (double)e->rows * (double)e->shape->scan.D * (double)(e->shape->scan.N + 4);
    const double tensor = tensor_flops(e);
    const double parts[SEQMIX_MODEL_PARTS] = {
        [SEQMIX_MODEL_DRAM] = line->floor_bytes / card->copy,
        [SEQMIX_MODEL_MMA] = tensor / card->tensor_peak * (e->dtype == SEQMIX_F32 ? 2 : 1),
        [SEQMIX_MODEL_EXP] = exps / (card->mufu * card->sms * card->clock),
        [SEQMIX_MODEL_FMA] = tensor > 0 ? 0 : plan.flops / card->fp32,
    };
    for (int i = 0; i < SEQMIX_MODEL_PARTS; i++)
        if (parts[i] > line->floor) {
            line->floor = parts[i];
            line->floor_by = i;
        }
    for (size_t i = 0; i < sizeof asked / sizeof asked[0] && e->dtype == SEQMIX_BF16; i++) {
        if (strcmp(asked[i].op, e->op->name) != 0 || fnmatch(asked[i].dims, line->dims, 0) != 0) continue;
        if (asked[i].of_copy > 0) line->asked = line->floor_bytes / card->copy / asked[i].of_copy;
        if (asked[i].rows == e->rows && asked[i].seqs == e->seqs && asked[i].fast == line->fast)
            line->asked = asked[i].seconds;
    }
}

/* ---------------------------------------------------------------- one line */

static seqmix_ctx *open_context(int fast, char *why, size_t why_len)
{
    const seqmix_ctx_desc desc = {
        .struct_size = sizeof desc, .backend = SEQMIX_BACKEND_CUDA, .device = -1, .flags = fast ? SEQMIX_CTX_FAST : 0};
    seqmix_ctx *ctx = NULL;
    return seqmix_ctx_create(seqmix_get_api(SEQMIX_ABI_VERSION), &desc, &ctx, why, why_len) == SEQMIX_OK ? ctx : NULL;
}

static void count_line(seqmix_ctx *ctx, struct seqmix_model_line *line)
{
    struct seqmix_bench_case c;
    const char *kernel = NULL;
    int failed = seqmix_bench_case_open(&c, ctx, &line->entry, 0, line->skipped, sizeof line->skipped) != 0;
    if (!failed) {
        if (seqmix_op_query(ctx, line->entry.op->id, &c.args[0], SEQMIX_QUERY_KERNEL, &kernel) == SEQMIX_OK)
            snprintf(line->kernel, sizeof line->kernel, "%s", kernel);
        (void)seqmix_model_take(NULL, 0);
        failed = seqmix_bench_case_run(&c, 0) != SEQMIX_OK || seqmix_sync(ctx) != SEQMIX_OK;
        if (failed) snprintf(line->skipped, sizeof line->skipped, "%s", seqmix_last_error(ctx));
    }
    seqmix_bench_case_close(&c);
    line->n_launches = seqmix_model_take(line->launches, SEQMIX_MODEL_LAUNCHES);
    if (line->n_launches > SEQMIX_MODEL_LAUNCHES) {
        snprintf(line->skipped, sizeof line->skipped, "%d launches are more than are counted", line->n_launches);
        line->n_launches = 0;
    }
}

static void model_line(const struct seqmix_model_card *card, seqmix_ctx *ctx, struct seqmix_model_line *line)
{
    find_floor(card, line);
    count_line(ctx, line);
    double longest = 0;
    for (int i = 0; i < line->n_launches; i++) {
        line->times[i] = times_of(card, &line->launches[i]);
        line->bound += line->times[i].bound;
        line->bytes += line->launches[i].fetched + line->launches[i].stored;
        if (line->times[i].bound > longest) {
            longest = line->times[i].bound;
            line->by = line->times[i].by;
        }
    }
}

/* ---------------------------------------------------------------- which lines */

struct list {
    struct seqmix_model_line *lines;
    int n;
};

static void append(struct list *list, struct seqmix_bench_entry entry, int fast)
{
    for (int i = 0; i < list->n; i++)
        if (list->lines[i].fast == fast && seqmix_bench_same_work(&list->lines[i].entry, &entry)) return;
    if (list->n == MAX_LINES) return;
    list->lines[list->n++] = (struct seqmix_model_line){.entry = entry, .fast = fast};
}

/* One sequence, and of the mixers that take chunks four of them, and one with FAST. */
static void append_prefill(struct list *list, struct seqmix_bench_entry entry)
{
    const int32_t id = entry.op->id;
    const int chunked = id == SEQMIX_OP_DELTANET_CHUNK_FORWARD || id == SEQMIX_OP_SSD_CHUNK_FORWARD;
    append(list, entry, 0);
    if (chunked || id == SEQMIX_OP_SELECTIVE_SCAN_ROWS) append(list, entry, 1);
    if (!chunked) return;
    entry.seqs = 4;
    entry.rows *= 4;
    append(list, entry, 0);
}

static void append_entry(struct list *list, struct seqmix_bench_entry entry, const struct seqmix_bench_options *o)
{
    const int64_t *rows = entry.decode ? o->decode : o->prefill;
    const int n = entry.decode ? o->n_decode : o->n_prefill;
    for (int d = 0; d < o->n_dtypes; d++)
        for (int i = 0; i < n; i++) {
            entry.rows = rows[i];
            entry.dtype = o->dtypes[d];
            if (entry.decode)
                append(list, entry, 0);
            else
                append_prefill(list, entry);
        }
}

static void make_list(struct list *list, const struct seqmix_shape *shapes, int n_shapes,
                      const struct seqmix_bench_options *o)
{
    for (int decode = 0; decode < 2; decode++)
        for (int i = 0; i < seqmix_bench_n_ops; i++)
            for (int s = 0; s < n_shapes; s++) {
                const struct seqmix_bench_op *op = &seqmix_bench_ops[i];
                struct seqmix_bench_entry entry = {.op = op, .shape = &shapes[s], .decode = decode, .seqs = 1};
                if (!(decode ? op->decode : op->prefill) || !op->has(&shapes[s])) continue;
                if (fnmatch(o->op, op->name, 0) != 0 || fnmatch(o->shape, shapes[s].name, 0) != 0) continue;
                if (o->quick && !seqmix_bench_in_quick(op->name, shapes[s].name)) continue;
                /* prefill of projections is the vendor's library where there is one */
                if (op->id == SEQMIX_OP_LINEAR && !decode && strcmp(o->op, "*") == 0) continue;
                for (int l = 0; l < (op->id != SEQMIX_OP_LINEAR ? 1 : o->quick ? 1 : shapes[s].n_linear); l++) {
                    entry.linear = &shapes[s].linear[l];
                    append_entry(list, entry, o);
                }
            }
}

static int run_list(const struct seqmix_model_card *card, const struct seqmix_bench_options *o, struct list *list)
{
    char why[256];
    seqmix_ctx *ctx[2] = {open_context(0, why, sizeof why), open_context(1, why, sizeof why)};
    if (ctx[0] == NULL || ctx[1] == NULL) {
        fprintf(stderr, "seqmix-bench: no context: %s\n", why);
        return 2;
    }
    FILE *text = o->json_wanted && o->json == NULL ? stderr : stdout;
    int n_failed = 0;
    seqmix_model_print_header(text, card, o->launches);
    for (int i = 0; i < list->n; i++) {
        model_line(card, ctx[list->lines[i].fast], &list->lines[i]);
        seqmix_model_print_line(text, &list->lines[i], o->launches);
        n_failed += list->lines[i].skipped[0] != '\0';
        fflush(text);
    }
    seqmix_ctx_destroy(ctx[0]);
    seqmix_ctx_destroy(ctx[1]);
    if (o->json_wanted) {
        FILE *file = o->json != NULL ? fopen(o->json, "w") : stdout;
        if (file != NULL) seqmix_model_write_json(file, card, list->lines, list->n);
        if (file == NULL || (o->json != NULL && fclose(file) != 0)) {
            fprintf(stderr, "seqmix-bench: %s: could not write the JSON\n", o->json);
            return 2;
        }
    }
    return n_failed > 0 ? 1 : 0;
}

int seqmix_bench_model(const struct seqmix_bench_options *o, char **argv)
{
    static struct seqmix_shape shapes[SEQMIX_SHAPES_MAX];
    struct seqmix_model_card card;
    char why[512], dir[4096];
    (void)argv;
    int n_shapes = -1;
    if (o->shapes_dir != NULL || seqmix_shapes_find_dir(dir, sizeof dir, why, sizeof why) == 0)
        n_shapes = seqmix_shapes_load_dir(o->shapes_dir != NULL ? o->shapes_dir : dir, shapes, SEQMIX_SHAPES_MAX, why,
                                          sizeof why);
    struct list list = {calloc(MAX_LINES, sizeof list.lines[0]), 0};
    if (n_shapes < 0 || list.lines == NULL || seqmix_model_card_load(o->model, &card, why, sizeof why) != 0) {
        fprintf(stderr, "seqmix-bench: %s\n", list.lines != NULL ? why : "no memory");
        free(list.lines);
        return 2;
    }
    seqmix_model_begin(&card);
    make_list(&list, shapes, n_shapes, o);
    if (list.n == 0) fprintf(stderr, "seqmix-bench: nothing to count: no op '%s' at a shape '%s'\n", o->op, o->shape);
    const int status = list.n > 0 ? run_list(&card, o, &list) : 2;
    free(list.lines);
    return status;
}
