/* SPDX-License-Identifier: MIT */
/*
 * A checkpoint into a GGUF file whose matrices have one type (see quantize.h). Of a GGUF file the values are copied as they
 * are but for the file's type, and tensors keep their order; a directory is drafted by export.c.
 */
#include "quantize.h"

#include "config_gguf.h"
#include "export.h"

/* What general.file_type says of a file whose matrices are mostly of one type, and what takes a type's place where its blocks
 * do not divide a row. */
static const struct {
    const char *name;
    seqmix_dtype dtype, instead;
    uint32_t file_type;
} targets[] = {
    {"F32", SEQMIX_F32, 0, 0},
    {"F16", SEQMIX_F16, 0, 1},
    {"BF16", SEQMIX_BF16, 0, 32},
    {"Q8_0", SEQMIX_Q8_0, SEQMIX_F16, 7},
    {"Q4_0", SEQMIX_Q4_0, SEQMIX_F16, 2},
    {"Q5_0", SEQMIX_Q5_0, SEQMIX_F16, 8},
    {"Q5_1", SEQMIX_Q5_1, SEQMIX_F16, 9},
    {"IQ4_NL", SEQMIX_IQ4_NL, SEQMIX_F16, 25},
    {"Q4_K", SEQMIX_Q4_K, SEQMIX_Q5_0, 14},
    {"Q5_K", SEQMIX_Q5_K, SEQMIX_Q5_1, 16},
    {"Q6_K", SEQMIX_Q6_K, SEQMIX_Q8_0, 18},
};
#define N_TARGETS (int)(sizeof targets / sizeof targets[0])

static int find_target(const char *name, seqmix_dtype dtype)
{
    for (int i = 0; i < N_TARGETS; i++)
        if (name != NULL ? strcmp(targets[i].name, name) == 0 : targets[i].dtype == dtype) return i;
    return -1;
}

static bool is_matrix(const seqmix_draft_tensor *t)
{
    const char *dot = strrchr(t->name, '.');
    return t->rank >= 2 && dot != NULL && strcmp(dot, ".weight") == 0 && strstr(t->name, "_norm.") == NULL &&
           strstr(t->name, "ssm_conv1d") == NULL && strstr(t->name, "ffn_gate_inp") == NULL;
}

/* The type that a tensor gets. */
static void choose_type(int target, seqmix_draft_tensor *t, seqmix_quantized *done)
{
    const int64_t n = seqmix_draft_rows(t) * seqmix_draft_row(t);
    int64_t elements = 1;
    size_t size = 0;
    seqmix_dtype dtype = is_matrix(t) ? targets[target].dtype : SEQMIX_F32;
    for (;;) {
        t->type = seqmix_gguf_dtype_type(dtype);
        (void)seqmix_gguf_type_block(t->type, &elements, &size);
        if (seqmix_draft_row(t) % elements == 0) break;
        dtype = targets[find_target(NULL, dtype)].instead;
    }
    done->tensors++;
    done->changed += t->type != seqmix_gguf_dtype_type(t->from) ? 1 : 0;
    done->fallbacks += is_matrix(t) && dtype != targets[target].dtype ? 1 : 0;
    done->bytes_before += seqmix_dtype_bytes(t->from, n);
    done->bytes_after += seqmix_draft_bytes(t);
}

/* ---------------------------------------------------------------- from GGUF */

static int by_place(const void *a, const void *b)
{
    const seqmix_gguf_tensor *x = *(const seqmix_gguf_tensor *const *)a, *y = *(const seqmix_gguf_tensor *const *)b;
    const unsigned char *p = x->data, *q = y->data;
    if (p != q) return p < q ? -1 : 1;
    return strcmp(x->name, y->name);
}

static bool add_tensor(seqmix_draft *d, const seqmix_gguf_tensor *t, seqmix_why why)
{
    if (t->dtype != SEQMIX_F32 && t->dtype != SEQMIX_F16 && t->dtype != SEQMIX_BF16)
        return seqmix_fail(why, "tensor '%s' is %s already: quantize from F32, F16 or BF16", t->name,
                           seqmix_gguf_type_name(t->type));
    seqmix_draft_tensor *to = seqmix_draft_tensor_add(d, 1);
    if (to == NULL) return seqmix_fail(why, "no memory for tensor '%s'", t->name);
    (void)snprintf(to->name, sizeof to->name, "%s", t->name);
    to->rank = t->rank;
    memcpy(to->shape, t->shape, sizeof t->shape);
    to->from = t->dtype;
    to->parts[0] = t->data;
    return true;
}

static bool add_tensors(seqmix_draft *d, const seqmix_gguf *g, seqmix_why why)
{
    const seqmix_gguf_tensor **order = malloc((size_t)g->n_tensors * sizeof *order + 1);
    if (order == NULL) return seqmix_fail(why, "no memory for %lld tensors", (long long)g->n_tensors);
    for (int64_t i = 0; i < g->n_tensors; i++)
        order[i] = &g->tensors[i];
    if (g->n_tensors > 0) qsort((void *)order, (size_t)g->n_tensors, sizeof *order, by_place);
    bool ok = true;
    for (int64_t i = 0; ok && i < g->n_tensors; i++)
        ok = add_tensor(d, order[i], why);
    free((void *)order);
    return ok;
}

static int by_value_place(const void *a, const void *b)
{
    const seqmix_gguf_value *x = a, *y = b;
    return x->data < y->data ? -1 : x->data > y->data ? 1 : 0;
}

static const char *const replaced[] = {"general.file_type", "general.quantization_version"};

/* Also puts the file's values into their order there. */
static bool draft_gguf(seqmix_draft *d, seqmix_gguf *g, seqmix_why why)
{
    d->alignment = g->alignment;
    if (g->n_values > 0) qsort(g->values, (size_t)g->n_values, sizeof *g->values, by_value_place);
    for (int64_t i = 0; i < g->n_values; i++)
        if (strcmp(g->values[i].key, replaced[0]) != 0 && strcmp(g->values[i].key, replaced[1]) != 0)
            seqmix_draft_value(d, &g->values[i]);
    return add_tensors(d, g, why);
}

/* ---------------------------------------------------------------- the whole */

static bool write_draft(int target, seqmix_draft *d, const char *out, int64_t workers, bool exported,
                        seqmix_quantized *done, seqmix_why why)
{
    seqmix_draft_u32(d, replaced[0], targets[target].file_type);
    seqmix_draft_u32(d, replaced[1], 2);
    for (int64_t i = 0; i < d->n_tensors; i++)
        choose_type(target, d->tensors[i], done);
    if (d->failed) return seqmix_fail(why, "no memory for the head of %s", out);
    return seqmix_draft_write(d, out, workers, exported ? seqmix_export_check : NULL, why);
}

static bool from_gguf(int target, const char *in, const char *out, int64_t workers, seqmix_quantized *done,
                      seqmix_why why)
{
    seqmix_gguf g;
    seqmix_draft d = {.mapped = true};
    if (!seqmix_gguf_open(in, &g, why)) return false;
    const bool ok = draft_gguf(&d, &g, why) && write_draft(target, &d, out, workers, false, done, why);
    seqmix_draft_free(&d);
    seqmix_gguf_close(&g);
    return ok;
}

static bool from_directory(int target, const char *in, const char *out, int64_t workers, seqmix_quantized *done,
                           seqmix_why why)
{
    seqmix_draft d = {.alignment = 32, .mapped = true};
    seqmix_model *model = seqmix_model_open(in, why);
    const bool ok = model != NULL && seqmix_export(model, in, &d, (seqmix_why){done->note, sizeof done->note}, why) &&
                    write_draft(target, &d, out, workers, true, done, why);
    seqmix_draft_free(&d);
    seqmix_model_close(model);
    return ok;
}

bool seqmix_quantize_file(const char *type, const char *in, const char *out, int64_t workers, seqmix_quantized *done,
                          seqmix_why why)
{
    const int target = find_target(type, 0);
    const size_t n = strlen(in);
    *done = (seqmix_quantized){0};
    if (target < 0) {
        char names[128] = "";
        size_t at = 0;
        for (int i = 0; i < N_TARGETS; i++)
            at += (size_t)snprintf(names + at, sizeof names - at, "%s%s", i > 0 ? ", " : "", targets[i].name);
        return seqmix_fail(why, "'%.24s' is none of %s", type, names);
    }
    return n > 5 && strcmp(in + n - 5, ".gguf") == 0 ? from_gguf(target, in, out, workers, done, why)
                                                     : from_directory(target, in, out, workers, done, why);
}
