/* SPDX-License-Identifier: MIT */
/*
 * Writing GGUF: every type comes back, widened by the library, within the error its bits allow, edges included; a file keeps
 * its values and the tensors that stay f32, takes the fallbacks, and appears whole or not at all.
 */
#include <math.h>

#include "draft.h"
#include "quantize.h"
#include "support.h"

enum { ROWS = 24, COLUMNS = 1024, VALUES = ROWS * COLUMNS };

/* Root mean square error of normal numbers, relative to theirs. The bounds are a tenth above what was measured. */
static const struct {
    const char *name;
    seqmix_dtype dtype;
    double bound;
} types[] = {
    {"F16", SEQMIX_F16, 2.3e-4},       {"BF16", SEQMIX_BF16, 1.85e-3}, {"Q8_0", SEQMIX_Q8_0, 5.9e-3},
    {"Q4_0", SEQMIX_Q4_0, 8.9e-2},     {"Q5_0", SEQMIX_Q5_0, 4.4e-2},  {"Q5_1", SEQMIX_Q5_1, 3.7e-2},
    {"Q4_K", SEQMIX_Q4_K, 7.8e-2},     {"Q5_K", SEQMIX_Q5_K, 3.9e-2},  {"Q6_K", SEQMIX_Q6_K, 1.8e-2},
    {"IQ4_NL", SEQMIX_IQ4_NL, 8.1e-2},
};

static double normal(uint64_t *state)
{
    double sum = -6;
    for (int i = 0; i < 12; i++) {
        *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        sum += (double)(*state >> 40) / 16777216.0;
    }
    return sum;
}

static void fill(float *x, int64_t n, double scale)
{
    uint64_t state = 1;
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)(scale * normal(&state));
}

static seqmix_ctx *open_context(void)
{
    seqmix_ctx *ctx;
    const seqmix_ctx_desc desc = {.struct_size = sizeof desc};
    ck_assert_int_eq(seqmix_ctx_create(seqmix_get_api(SEQMIX_ABI_VERSION), &desc, &ctx, NULL, 0), SEQMIX_OK);
    return ctx;
}

static void widen(seqmix_ctx *ctx, seqmix_dtype dtype, const void *packed, int64_t rows, int64_t columns, float *out)
{
    int32_t tokens[ROWS];
    for (int32_t i = 0; i < ROWS; i++)
        tokens[i] = i;
    const seqmix_embed_args args = {.struct_size = sizeof args,
                                    .n_tokens = (int32_t)rows,
                                    .tokens = tokens,
                                    .table = {(void *)(uintptr_t)packed, dtype, 2, {rows, columns}, {columns, 1}},
                                    .y = {out, SEQMIX_F32, 2, {rows, columns}, {columns, 1}}};
    ck_assert_msg(seqmix_embed_rows(ctx, &args, NULL, 0) == SEQMIX_OK, "%s", seqmix_last_error(ctx));
}

static float given[VALUES], back[VALUES];
static unsigned char packed[VALUES * 4];

START_TEST(test_error)
{
    static const double scales[] = {1, 1e-3, 300};
    seqmix_ctx *ctx = open_context();
    for (int i = 0; i < COUNT(types); i++)
        for (int k = 0; k < COUNT(scales); k++) {
            double error = 0, size = 0;
            fill(given, VALUES, scales[k]);
            ck_assert(seqmix_quantize_row(types[i].dtype, given, VALUES, packed));
            widen(ctx, types[i].dtype, packed, ROWS, COLUMNS, back);
            for (int v = 0; v < VALUES; v++) {
                error += ((double)back[v] - (double)given[v]) * ((double)back[v] - (double)given[v]);
                size += (double)given[v] * (double)given[v];
            }
            const double relative = sqrt(error / size);
            ck_assert_msg(relative < types[i].bound, "%s at %g: error %.3g", types[i].name, scales[k], relative);
        }
    seqmix_ctx_destroy(ctx);
}
END_TEST

/* Zeros stay zeros; constants, one spike, one sign, tiny and huge values stay finite and near. */
START_TEST(test_edges)
{
    enum { N = 256 };
    static const float tops[] = {0, 1, -1, 0.5F, 1e-30F, 1e-5F, 1e30F, -65000};
    seqmix_ctx *ctx = open_context();
    for (int i = 0; i < COUNT(types); i++)
        for (int kind = 0; kind < 3; kind++)
            for (int t = 0; t < COUNT(tops); t++) {
                const float top = tops[t], size = fabsf(top);
                for (int v = 0; v < N; v++)
                    given[v] = kind == 0 ? top : kind == 1 ? (v == 77 ? top : 0) : top * (float)(v % 16 + 1) / 16;
                ck_assert(seqmix_quantize_row(types[i].dtype, given, N, packed));
                widen(ctx, types[i].dtype, packed, 1, N, back);
                for (int v = 0; v < N; v++) {
                    ck_assert_msg(isfinite(back[v]), "%s kind %d top %g", types[i].name, kind, (double)top);
                    const bool fits = size == 0 || (size > 1e-2F && size < 1e29F);
                    ck_assert_msg(!fits || fabsf(back[v] - given[v]) <= size / 12,
                                  "%s kind %d: %g became %g, the largest is %g", types[i].name, kind, (double)given[v],
                                  (double)back[v], (double)size);
                }
            }
    ck_assert(!seqmix_quantize_row(SEQMIX_Q4_K, given, 128, packed));
    ck_assert(!seqmix_quantize_row(SEQMIX_Q8_0, given, 48, packed));
    ck_assert(!seqmix_quantize_row(99, given, 256, packed));
    seqmix_ctx_destroy(ctx);
}
END_TEST

/* ---------------------------------------------------------------- files */

static void add_number(seqmix_bytes *b, uint64_t value, int n)
{
    for (int i = 0; i < n; i++)
        seqmix_bytes_add(b, &(unsigned char){(unsigned char)(value >> 8 * i)}, 1);
}

static void add_text(seqmix_bytes *b, const char *text)
{
    add_number(b, strlen(text), 8);
    seqmix_bytes_add(b, text, strlen(text));
}

static const struct {
    const char *name;
    int32_t rank;
    int64_t shape[3];    /* row-major */
    const char *becomes; /* as Q4_K */
} tensors[] = {
    {"token_embd.weight", 2, {5, 512}, "Q4_K"},
    {"blk.0.ffn_up_exps.weight", 3, {2, 3, 256}, "Q4_K"},
    {"blk.0.ssm_x.weight", 2, {3, 96}, "Q5_0"},
    {"blk.0.ssm_dt.weight", 2, {3, 48}, "F16"},
    {"blk.0.attn_norm.weight", 1, {256}, "F32"},
    {"blk.0.ssm_norm.weight", 2, {2, 256}, "F32"},
    {"blk.0.ssm_conv1d.weight", 2, {64, 4}, "F32"},
    {"blk.0.ffn_gate_inp.weight", 2, {4, 256}, "F32"},
    {"blk.0.ssm_a", 2, {16, 4}, "F32"},
    {"blk.0.ssm_d", 1, {256}, "F32"},
};

static size_t count_of(int i)
{
    size_t n = 1;
    for (int32_t k = 0; k < tensors[i].rank; k++)
        n *= (size_t)tensors[i].shape[k];
    return n;
}

/* All tensors f32 with normal numbers; `poison` puts a NaN into the last. */
static void write_model(const char *dir, bool poison)
{
    seqmix_bytes b = {0};
    uint64_t offset = 0;
    seqmix_bytes_add(&b, "GGUF", 4);
    add_number(&b, 3, 4);
    add_number(&b, (uint64_t)COUNT(tensors), 8);
    add_number(&b, 2, 8);
    add_text(&b, "general.file_type");
    add_number(&b, SEQMIX_GGUF_U32, 4);
    add_number(&b, 0, 4);
    add_text(&b, "words");
    add_number(&b, SEQMIX_GGUF_ARRAY, 4);
    add_number(&b, SEQMIX_GGUF_STRING, 4);
    add_number(&b, 2, 8);
    add_text(&b, "one");
    add_text(&b, "two");
    for (int i = 0; i < COUNT(tensors); i++) {
        add_text(&b, tensors[i].name);
        add_number(&b, (uint64_t)tensors[i].rank, 4);
        for (int32_t k = tensors[i].rank - 1; k >= 0; k--)
            add_number(&b, (uint64_t)tensors[i].shape[k], 8);
        add_number(&b, 0, 4);
        add_number(&b, offset, 8);
        offset += (4 * count_of(i) + 31) / 32 * 32;
    }
    while (b.n % 32 != 0)
        add_number(&b, 0, 1);
    for (int i = 0; i < COUNT(tensors); i++) {
        fill(given, (int64_t)count_of(i), 1);
        if (poison && i + 1 == COUNT(tensors)) given[7] = NAN;
        seqmix_bytes_add(&b, given, 4 * count_of(i));
        while (b.n % 32 != 0)
            add_number(&b, 0, 1);
    }
    write_file(dir, "in.gguf", b.data, b.n);
    free(b.data);
}

static bool quantize(const char *dir, const char *type, const char *in, const char *out, char why[256])
{
    char from[512], to[512];
    seqmix_quantized done;
    (void)snprintf(from, sizeof from, "%s/%s", dir, in);
    (void)snprintf(to, sizeof to, "%s/%s", dir, out);
    why[0] = '\0';
    return seqmix_quantize_file(type, from, to, 1, &done, (seqmix_why){why, 256});
}

START_TEST(test_file)
{
    const char *dir = temporary_dir();
    char why[256];
    seqmix_gguf g;
    const seqmix_why to = {why, sizeof why};
    int64_t file_type = 0;
    const seqmix_gguf_value *words;
    write_model(dir, false);
    ck_assert_msg(quantize(dir, "Q4_K", "in.gguf", "out.gguf", why), "%s", why);
    ck_assert_msg(seqmix_gguf_open(in_dir(dir, "out.gguf"), &g, to), "%s", why);
    ck_assert(seqmix_gguf_int(&g, "general.file_type", 0, 99, &file_type, to) && file_type == 14);
    ck_assert(seqmix_gguf_array(&g, "words", SEQMIX_GGUF_STRING, &words, to) && words->n == 2);
    ck_assert_int_eq(g.n_tensors, COUNT(tensors));
    for (int i = 0; i < COUNT(tensors); i++) {
        const seqmix_gguf_tensor *t = seqmix_gguf_find(&g, tensors[i].name);
        ck_assert(t != NULL && t->rank == tensors[i].rank);
        ck_assert_msg(strcmp(seqmix_gguf_type_name(t->type), tensors[i].becomes) == 0, "%s is %s", t->name,
                      seqmix_gguf_type_name(t->type));
        for (int32_t k = 0; k < t->rank; k++)
            ck_assert_int_eq(t->shape[k], tensors[i].shape[k]);
        fill(given, (int64_t)count_of(i), 1);
        if (t->dtype == SEQMIX_F32) {
            ck_assert(memcmp(t->data, given, t->bytes) == 0);
        } else {
            ck_assert(seqmix_quantize_row(t->dtype, given, (int64_t)count_of(i), packed));
            ck_assert(memcmp(t->data, packed, t->bytes) == 0);
        }
    }
    seqmix_gguf_close(&g);
}
END_TEST

START_TEST(test_refused)
{
    const char *dir = temporary_dir();
    char why[256];
    write_model(dir, false);
    judge(quantize(dir, "Q3_K", "in.gguf", "out.gguf", why), why, "'Q3_K' is none of F32, F16, BF16, Q8_0", "type");
    judge(quantize(dir, "Q8_0", "none.gguf", "out.gguf", why), why, "none.gguf: No such file", "missing");
    judge(quantize(dir, "Q8_0", "in.gguf", "none/out.gguf", why), why, "out.gguf.partial: No such file", "folder");
    ck_assert(quantize(dir, "Q8_0", "in.gguf", "out.gguf", why));
    judge(quantize(dir, "Q4_0", "out.gguf", "twice.gguf", why), why, "is Q8_0 already", "twice");
    write_model(dir, true);
    judge(quantize(dir, "Q8_0", "in.gguf", "nan.gguf", why), why, "'blk.0.ssm_d' holds a value that is not finite",
          "NaN");
    FILE *left = fopen(in_dir(dir, "nan.gguf.partial"), "rb"), *made = fopen(in_dir(dir, "nan.gguf"), "rb");
    ck_assert(left == NULL && made == NULL);
}
END_TEST

/* ---------------------------------------------------------------- runs of rows */

enum { PARTS = 3, PART_ROWS = 2500, ROW = 64, ALL_ROWS = PARTS * PART_ROWS };

static float parts[PARTS][PART_ROWS * ROW];

static seqmix_draft_tensor *add_parts(seqmix_draft *d, const char *name, seqmix_dtype becomes)
{
    seqmix_draft_tensor *t = seqmix_draft_tensor_add(d, PARTS);
    ck_assert(t != NULL);
    (void)snprintf(t->name, sizeof t->name, "%s", name);
    t->rank = 2;
    t->shape[0] = ALL_ROWS;
    t->shape[1] = ROW;
    t->from = SEQMIX_F32;
    t->type = seqmix_gguf_dtype_type(becomes);
    for (int p = 0; p < PARTS; p++)
        t->parts[p] = parts[p];
    return t;
}

/* More rows than one run has, in parts that runs do not end with, rows and columns in another order. */
START_TEST(test_runs)
{
    const char *dir = temporary_dir();
    char why[256] = "";
    const seqmix_why to = {why, sizeof why};
    for (int64_t i = 0; i < ALL_ROWS * ROW; i++)
        parts[i / (PART_ROWS * ROW)][i % (PART_ROWS * ROW)] = (float)i;
    for (int64_t workers = 1; workers <= 5; workers += 2) {
        seqmix_draft d = {.alignment = 32};
        seqmix_gguf g;
        seqmix_draft_tensor *t = add_parts(&d, "sorted", SEQMIX_F32);
        t->rows = malloc(PART_ROWS * sizeof *t->rows);
        t->columns = malloc(ROW * sizeof *t->columns);
        ck_assert(t->rows != NULL && t->columns != NULL);
        for (int64_t r = 0; r < PART_ROWS; r++)
            t->rows[r] = r * 7 % PART_ROWS;
        for (int64_t c = 0; c < ROW; c++)
            t->columns[c] = ROW - 1 - c;
        (void)add_parts(&d, "plain", SEQMIX_F32);
        ck_assert_msg(seqmix_draft_write(&d, in_dir(dir, "a.gguf"), workers, NULL, to), "%s", why);
        seqmix_draft_free(&d);
        ck_assert_msg(seqmix_gguf_open(in_dir(dir, "a.gguf"), &g, to), "%s", why);
        const float *sorted = seqmix_gguf_find(&g, "sorted")->data, *plain = seqmix_gguf_find(&g, "plain")->data;
        for (int64_t r = 0; r < ALL_ROWS; r++)
            for (int64_t c = 0; c < ROW; c++) {
                const int64_t from = r / PART_ROWS * PART_ROWS + r % PART_ROWS * 7 % PART_ROWS;
                ck_assert(sorted[r * ROW + c] == (float)(from * ROW + ROW - 1 - c));
                ck_assert(plain[r * ROW + c] == (float)(r * ROW + c));
            }
        seqmix_gguf_close(&g);
    }
}
END_TEST

/* Of two errors the first in the file is told, though the second comes sooner. */
START_TEST(test_first_error)
{
    static float late[4096 * 64], soon[64];
    char why[256] = "";
    seqmix_draft d = {.alignment = 32};
    const float *data[] = {late, soon};
    const int64_t rows[] = {COUNT(late) / 64, 1};
    late[COUNT(late) - 1] = soon[0] = NAN;
    for (int i = 0; i < 2; i++) {
        seqmix_draft_tensor *t = seqmix_draft_tensor_add(&d, 1);
        ck_assert(t != NULL);
        (void)snprintf(t->name, sizeof t->name, "tensor %d", i);
        t->rank = 2;
        t->shape[0] = rows[i];
        t->shape[1] = 64;
        t->from = SEQMIX_F32;
        t->type = seqmix_gguf_dtype_type(SEQMIX_IQ4_NL);
        t->parts[0] = data[i];
    }
    fill(late, COUNT(late) - 1, 1);
    judge(seqmix_draft_write(&d, in_dir(temporary_dir(), "a.gguf"), 2, NULL, (seqmix_why){why, sizeof why}), why,
          "tensor 'tensor 0' holds a value that is not finite", "two NaNs");
    seqmix_draft_free(&d);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("quantize");
    TCase *cases = tcase_create("quantize");
    tcase_set_timeout(cases, 120);
    tcase_add_test(cases, test_error);
    tcase_add_test(cases, test_edges);
    tcase_add_test(cases, test_file);
    tcase_add_test(cases, test_refused);
    tcase_add_test(cases, test_runs);
    tcase_add_test(cases, test_first_error);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
