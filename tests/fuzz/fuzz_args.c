/* SPDX-License-Identifier: MIT */
/*
 * Fuzzes the checked entry points: the input's bytes choose an op, sizes, options, a batch and some deformations of its args
 * struct. Every tensor, array and struct lies in a heap buffer of exactly its size, so that a sanitizer sees each access
 * outside. A call may be refused, but then nothing has changed; a call must not take what its query refuses.
 * With libFuzzer (clang -fsanitize=fuzzer), or alone with -DFUZZ_STANDALONE: fuzz_args [INPUTS [SEED]].
 */
#define _POSIX_C_SOURCE 200809L
#include "fuzz_args_ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { N_OPS = sizeof ops / sizeof ops[0] };

/* The input, and everything allocated for one call. */
struct scene {
    const uint8_t *at, *end;
    void *blocks[32];
    size_t sizes[32];
    int n_blocks;
    int op;
    char *args; /* in a block of its struct_size */
    size_t args_size;
};

static uint32_t take(struct scene *s, uint32_t below)
{
    uint32_t value = 0;
    for (int i = 0; i < (below > 256 ? 4 : 1); i++)
        value = value << 8 | (s->at < s->end ? *s->at++ : 0);
    return value % below;
}

/* A block of exactly `bytes`, filled from the input; NULL when there are none. */
static void *block(struct scene *s, size_t bytes)
{
    if (bytes == 0 || s->n_blocks == 32) return NULL;
    uint8_t *memory = malloc(bytes);
    uint32_t state = take(s, UINT32_MAX);
    for (size_t i = 0; i < bytes; i++) {
        state = state * 1664525u + 1013904223u;
        memory[i] = (uint8_t)(state >> 24 & (i % 4 == 3 ? 0xbf : 0xff)); /* mostly finite as f32 */
    }
    s->blocks[s->n_blocks] = memory;
    s->sizes[s->n_blocks++] = bytes;
    return memory;
}

static uint64_t digest(const struct scene *s)
{
    uint64_t hash = 14695981039346656037u;
    for (int b = 0; b < s->n_blocks; b++)
        for (size_t i = 0; i < s->sizes[b]; i++)
            hash = (hash ^ ((const uint8_t *)s->blocks[b])[i]) * 1099511628211u;
    return hash;
}

static seqmix_tensor *tensor(char *args, const struct field *f)
{
    return (seqmix_tensor *)(void *)(args + f->offset);
}

static size_t element_size(int32_t dtype)
{
    return dtype == SEQMIX_F32 || dtype == SEQMIX_I32 ? 4 : 2;
}

/* Bytes a view spans; 0 for none, MAX_BYTES + 1 for more than that (or nonsense). */
static size_t span_of(const seqmix_tensor *t)
{
    int64_t span = 1;
    if (t->rank < 0 || t->rank > SEQMIX_MAX_RANK) return 0;
    for (int axis = 0; axis < t->rank; axis++) {
        if (t->shape[axis] == 0) return 0;
        if (t->shape[axis] < 0 || t->shape[axis] > MAX_BYTES || t->stride[axis] < 0 || t->stride[axis] > MAX_BYTES)
            return MAX_BYTES + 1;
        span += (t->shape[axis] - 1) * t->stride[axis];
        if (span > MAX_BYTES) return MAX_BYTES + 1;
    }
    return (size_t)span * element_size(t->dtype);
}

static int64_t odd_number(struct scene *s)
{
    static const int64_t odd[] = {-1,
                                  0,
                                  1,
                                  2,
                                  3,
                                  5,
                                  16,
                                  17,
                                  257,
                                  INT32_MAX,
                                  (int64_t)INT32_MAX + 1,
                                  (int64_t)1 << 61,
                                  INT64_MAX / 4,
                                  INT64_MAX,
                                  INT64_MIN,
                                  64};
    return odd[take(s, sizeof odd / sizeof odd[0])];
}

static int64_t size_of_axis(struct scene *s, char axis)
{
    switch (axis) {
    case 'R':
        return take(s, 12);
    case 'K':
        return 1 + take(s, 5);
    case 'G':
    case 'g':
        return 1 + (take(s, 8) == 0 ? 2 : take(s, 2));
    case 'H':
    case 'h':
    case 'D':
        return 2 * take(s, 4);
    case 'S':
        return take(s, 6);
    default:
        return take(s, 5);
    }
}

/* ids and index hold indices; the numbers beside them are f32. */
static bool is_index(const struct scene *s, const struct field *f)
{
    const enum family family = ops[s->op].family;
    return (family == ROUTE && f->offset == AT(route, ids)) || (family == MOE && f->offset == AT(moe, ids)) ||
           (family == ARGMAX && f->offset == AT(argmax, index));
}

/* Consistent shapes, dense strides, a few dtypes: a legal call more often than not. */
static void make_tensors(struct scene *s, char *args)
{
    const int32_t x = 1 + (int32_t)take(s, 3);
    int64_t sizes[128];
    memset(sizes, 0xff, sizeof sizes);
    for (const struct field *f = fields[ops[s->op].family]; f->axes != NULL; f++) {
        seqmix_tensor *t = tensor(args, f);
        t->rank = (int32_t)strlen(f->axes);
        t->dtype = f->axes[0] == 'R' || f->axes[0] == 'B' ? x : 1;
        if (is_index(s, f)) t->dtype = SEQMIX_I32;
        if (ops[s->op].family == ROUTE || (ops[s->op].family == MOE && f->offset == AT(moe, weights)))
            t->dtype = is_index(s, f) ? SEQMIX_I32 : SEQMIX_F32;
        int64_t stride = 1;
        for (int axis = 0; axis < t->rank; axis++) {
            const int letter = f->axes[axis];
            if (sizes[letter] < 0) sizes[letter] = letter == 'k' ? sizes['K'] - 1 : size_of_axis(s, (char)letter);
            t->shape[axis] = sizes[letter];
        }
        for (int axis = t->rank - 1; axis >= 0; axis--) {
            t->stride[axis] = stride;
            stride *= t->shape[axis] > 0 ? t->shape[axis] : 1;
        }
    }
}

static void set_options(struct scene *s, char *args)
{
    const float eps = 1e-5f;
    uint32_t kind;
    switch (ops[s->op].family) {
    case SSD:
    case SCAN:
    case CONV:
        ((seqmix_conv_args *)(void *)args)->activation = (int32_t)take(s, 2);
        break;
    case DELTANET: {
        seqmix_deltanet_args *a = (seqmix_deltanet_args *)(void *)args;
        a->gate_kind = (int32_t)(kind = take(s, 5));
        a->beta_kind = (int32_t)take(s, 3);
        a->qk_l2norm = (int32_t)take(s, 2);
        a->head_map = (int32_t)take(s, 2);
        a->eps = eps;
        a->gate_lower_bound = -3;
        if (kind == SEQMIX_GATE_NONE) a->gate.rank = 0;
        if (kind < SEQMIX_GATE_SOFTPLUS) a->A.rank = a->dt_bias.rank = 0;
        if (take(s, 2) == 0) {
            if (a->gate.rank != 0) a->gate.rank = 2;
            if (a->dt_bias.rank != 0) a->dt_bias.rank = 1;
        }
        if (kind < SEQMIX_GATE_SOFTPLUS) a->gate.dtype = SEQMIX_F32;
        break;
    }
    case NORM:
        ((seqmix_norm_args *)(void *)args)->eps = eps;
        break;
    case ATTENTION:
        ((seqmix_attention_args *)(void *)args)->max_pages = 1 + (int32_t)take(s, 4);
        break;
    case ROPE:
        ((seqmix_rope_args *)(void *)args)->pairing = (int32_t)take(s, 2);
        ((seqmix_rope_args *)(void *)args)->theta = 1e4f;
        break;
    case ROUTE:
        ((seqmix_route_args *)(void *)args)->kind = SEQMIX_ROUTE_SIGMOID;
        ((seqmix_route_args *)(void *)args)->n_group = (int32_t)take(s, 3);
        break;
    case ACT:
        ((seqmix_act_args *)(void *)args)->kind = SEQMIX_ACT_ROWS_SIGMOID_MUL * (int32_t)take(s, 2);
        break;
    case MOE:
        ((seqmix_moe_args *)(void *)args)->accumulate = (int32_t)take(s, 2);
        break;
    case EMBED:
        ((seqmix_embed_args *)(void *)args)->n_tokens = (int32_t)((seqmix_embed_args *)(void *)args)->y.shape[0];
        break;
    default:
        break;
    }
}

/* Deforms one thing of the struct. */
static void deform(struct scene *s, char *args)
{
    int n = 0;
    while (n < MAX_FIELDS && fields[ops[s->op].family][n].axes != NULL)
        n++;
    const struct field *f = &fields[ops[s->op].family][take(s, (uint32_t)n)];
    seqmix_tensor *t = tensor(args, f);
    const uint32_t axis = take(s, SEQMIX_MAX_RANK);
    switch (take(s, 9)) {
    case 0:
        t->rank = (int32_t)take(s, 9) - 1;
        break;
    case 1:
        t->dtype = (int32_t)take(s, 5);
        break;
    case 2:
        t->shape[axis] = odd_number(s);
        break;
    case 3:
        t->stride[axis] = odd_number(s);
        break;
    case 4:
        t->stride[axis] = t->stride[axis] < MAX_BYTES ? t->stride[axis] + take(s, 16) : 1;
        break;
    case 5:
        t->shape[axis] = take(s, 7);
        break;
    case 6:
        t->rank = 0;
        break;
    case 7: { /* any option */
        const size_t first = fields[ops[s->op].family][0].offset;
        const int32_t value = (int32_t)odd_number(s);
        size_t at = 4 + 4 * take(s, 10);
        const bool pointer = at >= first - 8 && ops[s->op].family < INVERSE;
        const bool array = (ops[s->op].family == EMBED && at >= 8) || (ops[s->op].family == ROPE && at >= 24) ||
                           (ops[s->op].family == ATTENTION && at >= 16);
        if (at + 4 <= first && !pointer && !array) memcpy(args + at, &value, sizeof value);
        break;
    }
    default: { /* axes swapped */
        const uint32_t other = take(s, SEQMIX_MAX_RANK);
        const int64_t stride = t->stride[axis];
        t->stride[axis] = t->stride[other];
        t->stride[other] = stride;
    }
    }
}

/* Gives every tensor its block, or a place inside another's. */
static void place_tensors(struct scene *s, char *args)
{
    seqmix_tensor *last = NULL;
    size_t last_bytes = 0;
    for (const struct field *f = fields[ops[s->op].family]; f->axes != NULL; f++) {
        seqmix_tensor *t = tensor(args, f);
        const size_t bytes = span_of(t);
        if (bytes > MAX_BYTES) continue; /* NULL */
        const bool share = last != NULL && bytes > 0 && bytes <= last_bytes && take(s, 12) == 0;
        if (share) {
            const size_t slack = (last_bytes - bytes) / element_size(t->dtype);
            t->data = (char *)last->data + take(s, (uint32_t)slack + 1) * element_size(t->dtype);
            if ((uintptr_t)t->data % element_size(t->dtype) != 0) t->data = last->data;
            continue;
        }
        const size_t off = take(s, 48) == 0 ? 1 : 0; /* of its alignment */
        t->data = block(s, bytes > 0 ? bytes + off : 0);
        if (t->data != NULL) t->data = (char *)t->data + off;
        if (t->data != NULL) {
            last = t;
            last_bytes = bytes;
        }
    }
}

static int32_t *small_numbers(struct scene *s, int64_t n, uint32_t below)
{
    if (n <= 0 || n > MAX_ITEMS) return NULL;
    int32_t *numbers = block(s, (size_t)n * sizeof *numbers);
    for (int64_t i = 0; numbers != NULL && i < n; i++)
        numbers[i] = (int32_t)take(s, below) - 1;
    return numbers;
}

static const seqmix_batch *make_batch(struct scene *s, int64_t rows)
{
    if (take(s, 4) == 0) return NULL;
    seqmix_batch *b = block(s, sizeof *b);
    if (b == NULL) return NULL;
    memset(b, 0, sizeof *b);
    b->struct_size = sizeof *b;
    b->n_seqs = take(s, 3) == 0 ? 0 : (int32_t)take(s, 5);
    b->max_rows = take(s, 3) == 0 ? 0 : (int32_t)take(s, 17);
    b->n_checkpoints = (int32_t)take(s, 4);
    if (take(s, 24) == 0) b->n_seqs = (int32_t)odd_number(s);
    if (take(s, 24) == 0) b->n_checkpoints = (int32_t)odd_number(s);
    if (take(s, 24) == 0) b->max_rows = (int32_t)odd_number(s);
    const bool begins = take(s, 3) != 0;
    const int64_t seqs = b->n_seqs != 0 ? b->n_seqs : ops[s->op].step && !begins ? rows : 1;
    if (begins && seqs > 0 && seqs < MAX_ITEMS) {
        int32_t *begin = block(s, (size_t)(seqs + 1) * sizeof *begin);
        for (int64_t i = 0; begin != NULL && i <= seqs; i++)
            begin[i] = i == 0 ? 0 : begin[i - 1] + (int32_t)take(s, 3);
        if (begin != NULL && take(s, 8) == 0) begin[take(s, (uint32_t)seqs + 1)] = (int32_t)odd_number(s);
        b->row_begin = begin;
    }
    if (take(s, 3) != 0) b->read_slot = small_numbers(s, seqs, 5);
    if (take(s, 3) != 0) b->write_slot = small_numbers(s, seqs, 5);
    b->ckpt_seq = small_numbers(s, b->n_checkpoints, 5);
    b->ckpt_row = small_numbers(s, b->n_checkpoints, 6);
    b->ckpt_slot = small_numbers(s, b->n_checkpoints, 5);
    if (take(s, 32) == 0) b->struct_size = 8 * take(s, sizeof *b / 8 + 1); /* whole fields: half a pointer is none */
    return b;
}

/* As many sequences as the call will see, unless the batch is a broken one. */
static void set_pages(struct scene *s, seqmix_attention_args *a, const seqmix_batch *batch)
{
    const int64_t seqs = batch != NULL && batch->struct_size >= 8 && batch->n_seqs > 0 ? batch->n_seqs : 1;
    const uint32_t pages = a->k_pages.shape[0] > 0 && a->k_pages.shape[0] < 8 ? (uint32_t)a->k_pages.shape[0] : 1;
    int32_t *start = small_numbers(s, seqs, 6);
    int32_t *table = a->max_pages > 0 && a->max_pages < MAX_ITEMS ? small_numbers(s, seqs * a->max_pages, 5) : NULL;
    for (int64_t i = 0; start != NULL && i < seqs; i++)
        if (take(s, 16) != 0) start[i] = start[i] > 0 ? start[i] / 2 : 0;
    for (int64_t i = 0; table != NULL && i < seqs * a->max_pages; i++)
        if (take(s, 32) != 0) table[i] = (int32_t)take(s, pages);
    a->start = start;
    a->page_table = table;
    if (a->page_table == NULL) a->start = NULL; /* too many for a buffer: the call must not look */
}

/* Small ids where the tensor is whole and its own. */
static void fill_ids(struct scene *s, const seqmix_tensor *ids)
{
    const bool whole = ids->rank == 2 && ids->data != NULL && ids->shape[0] < MAX_ITEMS && ids->shape[1] < MAX_ITEMS &&
                       ids->dtype == SEQMIX_I32 && ids->stride[1] == 1 && span_of(ids) <= MAX_BYTES;
    for (int64_t r = 0; whole && r < ids->shape[0]; r++)
        for (int64_t k = 0; k < ids->shape[1]; k++) {
            const int32_t id = (int32_t)(k + take(s, 3));
            memcpy((char *)ids->data + (size_t)(r * ids->stride[0] + k) * sizeof id, &id, sizeof id);
        }
}

static int64_t x_rows(const char *args)
{
    return ((const seqmix_rope_args *)(const void *)args)->x.shape[0];
}

static void set_pointers(struct scene *s, char *args)
{
    static const size_t at[] = {AT(conv, batch), AT(scan, batch), AT(ssd, batch), AT(deltanet, batch),
                                AT(attention, batch)};
    const enum family family = ops[s->op].family;
    if (family <= ATTENTION) {
        const seqmix_tensor *x = tensor(args, &fields[family][family == DELTANET ? 2 : 0]);
        const seqmix_batch *batch = make_batch(s, x->shape[0]);
        memcpy(args + at[family], &batch, sizeof batch);
        if (family == ATTENTION) set_pages(s, (seqmix_attention_args *)(void *)args, batch);
    } else if (family == ROPE) {
        ((seqmix_rope_args *)(void *)args)->positions = small_numbers(s, x_rows(args), 60);
    } else if (family == MOE) {
        fill_ids(s, &((seqmix_moe_args *)(void *)args)->ids);
    } else if (family == EMBED) {
        seqmix_embed_args *a = (seqmix_embed_args *)(void *)args;
        int32_t *tokens = small_numbers(s, a->n_tokens, 4);
        for (int32_t i = 0; tokens != NULL && i < a->n_tokens; i++)
            if (tokens[i] < 0 && take(s, 8) != 0) tokens[i] = 0;
        a->tokens = tokens;
    }
}

static void make_args(struct scene *s)
{
    static const size_t sizes[] = {
        sizeof(seqmix_conv_args),     sizeof(seqmix_scan_args),      sizeof(seqmix_ssd_args),
        sizeof(seqmix_deltanet_args), sizeof(seqmix_attention_args), sizeof(seqmix_inverse_args),
        sizeof(seqmix_norm_args),     sizeof(seqmix_linear_args),    sizeof(seqmix_embed_args),
        sizeof(seqmix_rope_args),     sizeof(seqmix_route_args),     sizeof(seqmix_act_args),
        sizeof(seqmix_moe_args),      sizeof(seqmix_argmax_args)};
    static _Alignas(16) char args[2048];
    s->op = (int)take(s, N_OPS);
    const size_t size = sizes[ops[s->op].family];
    memset(args, 0, sizeof args);
    make_tensors(s, args);
    set_options(s, args);
    for (uint32_t i = take(s, 2) == 0 ? 0 : 1 + take(s, 3); i > 0; i--)
        deform(s, args);
    place_tensors(s, args);
    set_pointers(s, args);
    s->args_size = take(s, 16) != 0 ? size : 8 + 8 * take(s, 250);
    if (s->args_size > size && take(s, 2) == 0) args[s->args_size - 1] = 1;
    s->args = malloc(s->args_size);
    memcpy(s->args, args, s->args_size);
    const uint32_t struct_size = (uint32_t)s->args_size;
    memcpy(s->args, &struct_size, sizeof struct_size);
}

static seqmix_status call(seqmix_ctx *ctx, int32_t id, const void *args, void *workspace, size_t bytes)
{
    switch (id) {
#define CALL(ID, name, family)                                                                                         \
    case SEQMIX_OP_##ID:                                                                                               \
        return seqmix_##name(ctx, args, workspace, bytes);
        EACH_OP(CALL)
    default:
        abort();
    }
}

static seqmix_status ask(seqmix_ctx *ctx, int32_t id, const void *args, size_t *bytes)
{
    switch (id) {
#define ASK(ID, name, family)                                                                                          \
    case SEQMIX_OP_##ID:                                                                                               \
        return seqmix_##name##_workspace(ctx, args, bytes);
        EACH_OP(ASK)
    default:
        abort();
    }
}

static void demand(bool truth, const struct scene *s, seqmix_ctx *ctx, const char *what)
{
    if (truth) return;
    fprintf(stderr, "op %d: %s (%s)\n", (int)ops[s->op].id, what, seqmix_last_error(ctx));
    abort();
}

static int refused_calls, accepted_calls;

static void run(struct scene *s, seqmix_ctx *ctx)
{
    const int32_t id = ops[s->op].id;
    size_t bytes = 0;
    void *workspace = NULL;
    const uint64_t before = digest(s);
    const seqmix_status query = ask(ctx, id, s->args, &bytes);
    if (query == SEQMIX_OK && bytes > 0) {
        if (bytes > (size_t)1 << 24 || posix_memalign(&workspace, SEQMIX_WORKSPACE_ALIGN, bytes) != 0) return;
        demand(call(ctx, id, s->args, workspace, bytes - 1) != SEQMIX_OK, s, ctx,
               "a workspace one byte short was taken");
        demand(before == digest(s), s, ctx, "a refused call wrote");
    }
    const seqmix_status status = call(ctx, id, s->args, workspace, bytes);
    demand(query == SEQMIX_OK || status != SEQMIX_OK, s, ctx, "a call was taken that its query refused");
    demand(status == SEQMIX_OK || (status >= SEQMIX_ERR_INVALID_ARG && status <= SEQMIX_ERR_UNSUPPORTED), s, ctx,
           "an error that is not the caller's");
    demand(status == SEQMIX_OK || before == digest(s), s, ctx, "a refused call wrote");
    demand((status == SEQMIX_OK) == (seqmix_last_error(ctx)[0] == '\0'), s, ctx, "error and message disagree");
    if (status == SEQMIX_OK)
        accepted_calls++;
    else
        refused_calls++;
    free(workspace);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static seqmix_ctx *contexts[2];
    if (contexts[0] == NULL)
        for (int i = 0; i < 2; i++) {
            const seqmix_ctx_desc desc = {.struct_size = sizeof desc, .level_cap = i, .max_seqs = 4};
            if (seqmix_ctx_create(seqmix_get_api(SEQMIX_ABI_VERSION), &desc, &contexts[i], NULL, 0) != SEQMIX_OK)
                abort();
        }
    struct scene s = {.at = data, .end = data + size};
    seqmix_ctx *ctx = contexts[take(&s, 2)];
    make_args(&s);
    run(&s, ctx);
    free(s.args);
    for (int i = 0; i < s.n_blocks; i++)
        free(s.blocks[i]);
    return 0;
}

#ifdef FUZZ_STANDALONE
int main(int argc, char **argv)
{
    const long inputs = argc > 1 ? strtol(argv[1], NULL, 10) : 20000;
    uint64_t state = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    uint8_t bytes[512];
    for (long n = 0; n < inputs; n++) {
        for (size_t i = 0; i < sizeof bytes; i++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            bytes[i] = (uint8_t)(state >> 56);
        }
        LLVMFuzzerTestOneInput(bytes, sizeof bytes);
    }
    printf("fuzz_args: %ld inputs, %d calls accepted, %d refused\n", inputs, accepted_calls, refused_calls);
    return accepted_calls > 0 && refused_calls > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
#endif
