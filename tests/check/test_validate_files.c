/* SPDX-License-Identifier: MIT */
/*
 * Tests of `seqmix-check validate` on files: golden dumps pass, and fail with the right name once their states are transposed;
 * forms that can be read in one way only are accepted; unusable files are refused with status 2 and a sentence.
 */
#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "safetensors.h"
#include "safetensors_write.h"
#include "test_validate.h"
#include "validate.h"

#define CONV  "short_conv_rows"
#define SCAN  "selective_scan_rows"
#define SSD   "ssd_chunk_forward"
#define DELTA "deltanet_chunk_forward"
#define NORM  "gated_rms_norm_rows"

/* ---------------------------------------------------------------- golden dumps */

/* Copies a dump with the last two axes of its states swapped in memory and shape. False: it has no such states. */
static bool write_transposed(const char *from, const char *to)
{
    seqmix_safetensors st;
    char why[256];
    struct seqmix_st_out out[32];
    void *owned[32] = {NULL};
    const char *strings[66] = {NULL};
    bool any = false;
    if (!seqmix_st_open(from, &st, (seqmix_why){why, sizeof why}) || st.n_tensors > 32 || st.n_metadata > 32)
        return false;
    for (int i = 0; i < st.n_tensors; i++) {
        const seqmix_st_tensor *t = &st.tensors[i];
        out[i] = (struct seqmix_st_out){t->name, t->dtype, t->rank, {0}, t->data};
        memcpy(out[i].shape, t->shape, sizeof t->shape);
        const int64_t a = t->rank >= 2 ? t->shape[t->rank - 2] : 0, b = t->rank >= 2 ? t->shape[t->rank - 1] : 0;
        if (strncmp(t->name, "state", 5) != 0 || t->bytes == 0 || a * b < 2) continue;
        const size_t size = t->bytes / (size_t)(a * b), element = seqmix_st_dtype_size(t->dtype), n = size / element;
        owned[i] = malloc(t->bytes);
        for (size_t m = 0; m < n; m++)
            for (int64_t x = 0; x < a; x++)
                for (int64_t y = 0; y < b; y++)
                    memcpy((char *)owned[i] + (m * (size_t)(a * b) + (size_t)(y * a + x)) * element,
                           (const char *)t->data + (m * (size_t)(a * b) + (size_t)(x * b + y)) * element, element);
        out[i].shape[t->rank - 2] = b;
        out[i].shape[t->rank - 1] = a;
        out[i].data = owned[i];
        any = true;
    }
    for (int i = 0; i < st.n_metadata; i++) {
        strings[2 * i] = st.metadata[i].key;
        strings[2 * i + 1] = st.metadata[i].value;
    }
    const bool ok = any && seqmix_st_write(to, out, (int)st.n_tensors, strings);
    for (int i = 0; i < st.n_tensors; i++)
        free(owned[i]);
    seqmix_st_close(&st);
    return ok;
}

static void check_golden(const char *path)
{
    char *out, *err, names[400];
    const int status = test_run(path, NULL, &out, &err);
    CHECK(status == SEQMIX_VALIDATE_PASS, "%s: status %d\n%s%s", path, status, out, err);
    free(out);
    free(err);
    if (!write_transposed(path, test_scratch)) return;
    CHECK(test_explanations(test_scratch, NULL, names, sizeof names) == SEQMIX_VALIDATE_FAIL,
          "%s: passes with its state transposed", path);
    CHECK(strstr(names, "state-transposed") != NULL, "%s: transposed state, named '%s'", path, names);
    CHECK(strstr(names, "+") == NULL, "%s: transposed state, named '%s'", path, names);
}

static void test_golden(const char *directory)
{
    DIR *dir = opendir(directory);
    int n = 0;
    CHECK(dir != NULL, "no golden dumps in %s", directory);
    if (dir == NULL) return;
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        char path[1024];
        const char *suffix = strrchr(entry->d_name, '.');
        if (suffix == NULL || strcmp(suffix, ".safetensors") != 0) continue;
        (void)snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        check_golden(path);
        n++;
    }
    (void)closedir(dir);
    CHECK(n > 0, "no golden dumps in %s", directory);
    (void)printf("golden dumps: %d\n", n);
}

/* ---------------------------------------------------------------- unusable files */

/* One change to a sample. */
struct spoil {
    const char *op, *traits, *tensor; /* tensor: renamed to "gone" when shape is NULL */
    const char *shape;                /* "24 3": a new shape, zeros */
    const char *word;                 /* what the message must name */
};

static void reshape(struct sample_tensor *t, const char *shape)
{
    free(t->data);
    t->rank = 0;
    t->count = 1;
    for (const char *at = shape; *at != '\0';) {
        char *end = NULL;
        t->count *= t->shape[t->rank++] = strtol(at, &end, 10);
        at = *end == ' ' ? end + 1 : end;
    }
    t->data = calloc((size_t)t->count + 1, 4);
}

static void expect_refusal(const char *word, const char *const *extra)
{
    char *out, *err;
    const int status = test_run(test_scratch, extra, &out, &err);
    CHECK(status == SEQMIX_VALIDATE_BAD_INPUT, "status %d where '%s' was to be refused", status, word);
    CHECK(strstr(err, word) != NULL, "'%s' is not in: %s", word, err);
    free(out);
    free(err);
}

static void test_spoilt(void)
{
    static const struct spoil spoils[] = {
        {DELTA, "", "q", NULL, "q is missing"},
        {DELTA, "", "v", NULL, "v is missing"},
        {DELTA, "", "beta", NULL, "beta is missing"},
        {DELTA, "", "gate", NULL, "gate is missing"},
        {DELTA, "gate=3", "A", NULL, "A is missing"},
        {DELTA, "", "k", "24 2 5", "k.shape[2]=5"},
        {DELTA, "", "v", "24 3 5", "gate.shape[1]=4 differs from HV=3"},
        {DELTA, "", "q", "24 8", "q has shape [24, 8]"},
        {DELTA, "", "q", "2 2 6 2 4", "q has shape"},
        {DELTA, "", "o", "24 4 4", "o.shape[2]=4"},
        {DELTA, "", "state", "5 4 4 7", "state_out.shape[3]=5 differs from state.shape[3]=7"},
        {DELTA, "", "state_out", "4 4 4 5", "state_out.shape[0]=4"},
        {DELTA, "", "row_begin", "1", "row_begin has 1 entries"},
        {DELTA, "", "row_begin", "7", "read_slot has 3 entries"},
        {DELTA, "", "read_slot", "2", "read_slot has 2 entries"},
        {DELTA, "", "write_slot", "3", "slot 0"},
        {SSD, "", "B", "24 3 5", "C.shape[1]=2 differs from G=3"},
        {SSD, "", "dt", "24 3", "dt.shape[1]=3"},
        {SSD, "", "x", "0 4611686018427387904 0", "x"},
        {SCAN, "", "A", "4 300", "300"},
        {CONV, "", "weight", "5 40", "K-1=39"},
        {CONV, "", "y", "24 4", "y.shape[1]=4"},
        {NORM, "", "x", NULL, "x is missing"},
        {NORM, "", "weight", "5", "weight"},
        {"unit_lower_inverse", "", "a", "18 6", "a"},
        {"unit_lower_inverse", "", "inv", "3 6 5", "inv"},
        {"linear", "", "weight", "5 7", "weight"},
        {"embed_rows", "", "tokens", NULL, "tokens is missing"},
        {"embed_rows", "", "table", "3 3", "token"},
    };
    for (size_t i = 0; i < sizeof spoils / sizeof spoils[0]; i++) {
        struct sample s;
        sample_make(&s, spoils[i].op, spoils[i].traits, NULL, NULL);
        struct sample_tensor *t = sample_find(&s, spoils[i].tensor);
        if (spoils[i].shape != NULL)
            reshape(t, spoils[i].shape);
        else
            (void)snprintf(t->name, sizeof t->name, "gone");
        CHECK(sample_write(&s, test_scratch, SEQMIX_ST_F32), "cannot write");
        expect_refusal(spoils[i].word, NULL);
        sample_free(&s);
    }
}

static void test_options(void)
{
    static const struct {
        const char *extra[5], *word;
    } cases[] = {
        {{"--set", "gate_kind=WRONG", NULL}, "gate_kind=WRONG"},
        {{"--set", "scale=abc", NULL}, "scale=abc"},
        {{"--set", "scale=-1", NULL}, "scale=-1"},
        {{"--set", "eps=0", NULL}, "eps=0"},
        {{"--set", "dt_min=1", NULL}, "dt_min"},
        {{"--set", "gate_kind=77", NULL}, "gate_kind=77"},
        {{"--set", "state_order=KK", NULL}, "state_order=KK"},
        {{"--set", "nothing", NULL}, "KEY=VALUE"},
        {{"--op", "no_such_op", NULL}, "no_such_op"},
        {{"--op", "short_conv_rows", NULL}, "x is missing"},
        {{"--op", NULL}, "needs a value"},
        {{"--bound", "-3", NULL}, "--bound"},
        {{"--rows", "0", NULL}, "--rows"},
        {{"--frobnicate", NULL}, "--frobnicate"},
        {{"another.safetensors", NULL}, "one file"},
    };
    struct sample s;
    sample_make(&s, DELTA, "", NULL, NULL);
    CHECK(sample_write(&s, test_scratch, SEQMIX_ST_F32), "cannot write");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect_refusal(cases[i].word, cases[i].extra);
    sample_free(&s);

    sample_make(&s, DELTA, "gate=1", NULL, NULL); /* no metadata at all */
    s.n_strings = 0;
    CHECK(sample_write(&s, test_scratch, SEQMIX_ST_F32), "cannot write");
    expect_refusal("no op", NULL);
    expect_refusal("gate_kind=LOG", (const char *const[]){"--op", DELTA, NULL});
    sample_free(&s);

    char *out, *err;
    CHECK(test_run(NULL, NULL, &out, &err) == SEQMIX_VALIDATE_BAD_INPUT && strstr(err, "no file") != NULL, "%s", err);
    free(out), free(err);
    CHECK(test_run("/nonexistent/file", NULL, &out, &err) == SEQMIX_VALIDATE_BAD_INPUT, "%s", err);
    free(out), free(err);
    CHECK(test_run(NULL, (const char *const[]){"--help", NULL}, &out, &err) == SEQMIX_VALIDATE_PASS, "%s", err);
    CHECK(strstr(out, "slots HV DK DV") == NULL && strstr(out, "[slots, HV, DK, DV]") != NULL, "%s", out);
    free(out), free(err);
}

/* Any bytes: cut and flipped files must end with status 0, 1 or 2, and in no other way. */
static void test_garbage(void)
{
    static const char *const ops[] = {DELTA, SSD, SCAN, CONV, NORM};
    uint64_t random = 99;
    int counts[3] = {0};
    for (int round = 0; round < 300; round++) {
        struct sample s;
        sample_make(&s, ops[round % 5], round % 2 != 0 ? "square=1" : "", NULL, NULL);
        CHECK(sample_write(&s, test_scratch, SEQMIX_ST_F32), "cannot write");
        sample_free(&s);
        FILE *file = fopen(test_scratch, "r+b");
        if (file == NULL) return;
        (void)fseek(file, 0, SEEK_END);
        const long size = ftell(file);
        for (int k = 0; k < 1 + round % 4; k++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            const long at = (long)(random >> 33) % (round % 3 == 0 ? size : 1400 < size ? 1400 : size);
            (void)fseek(file, at, SEEK_SET);
            (void)fputc((int)(random >> 25 & 0xff), file);
        }
        (void)fclose(file);
        char *out, *err;
        const int status = test_run(test_scratch, NULL, &out, &err);
        CHECK(status >= 0 && status <= 2, "status %d", status);
        CHECK(status != SEQMIX_VALIDATE_BAD_INPUT || err[0] != '\0', "refused without a word");
        if (status >= 0 && status <= 2) counts[status]++;
        free(out);
        free(err);
    }
    (void)printf("garbage: %d pass, %d fail, %d refused\n", counts[0], counts[1], counts[2]);
}

/* Any shapes: tensors of random rank and sizes, also 0 and huge beside a 0, random integers in the batch's arrays. */
static void test_odd_shapes(void)
{
    static const char *const ops[] = {DELTA, SSD, SCAN, CONV, NORM, "unit_lower_inverse", "linear", "embed_rows"};
    static const int64_t sizes[] = {0, 1, 2, 3, 4, 5, 7, 24};
    int counts[3] = {0};
    sample_seed(4711);
    for (int round = 0; round < 400; round++) {
        struct sample s;
        char shape[120] = "";
        sample_make(&s, ops[round % 8], round % 3 != 0 ? "square=1" : "gate=3", NULL, NULL);
        sample_seed((uint64_t)round * 77777 + 1);
        struct sample_tensor *t = &s.tensor[(int)(sample_uniform() * s.n)];
        const int rank = (int)(sample_uniform() * 6);
        for (int axis = 0; axis < rank; axis++)
            (void)snprintf(shape + strlen(shape), sizeof shape - strlen(shape), "%s%d", axis > 0 ? " " : "",
                           (int)sizes[(int)(sample_uniform() * 8)]);
        reshape(t, shape);
        for (int64_t i = 0; i < t->count; i++)
            if (t->dtype == SEQMIX_ST_I32) ((int32_t *)t->data)[i] = (int32_t)(sample_uniform() * 40) - 8;
        if (t->count == 0 && round % 2 == 0)
            for (int axis = 0; axis < t->rank; axis++)
                if (t->shape[axis] > 1) t->shape[axis] = (int64_t)1 << (int)(sample_uniform() * 50);
        CHECK(sample_write(&s, test_scratch, SEQMIX_ST_F32), "cannot write");
        sample_free(&s);
        char *out, *err;
        const int status = test_run(test_scratch, NULL, &out, &err);
        CHECK(status >= 0 && status <= 2, "status %d", status);
        CHECK(status != SEQMIX_VALIDATE_BAD_INPUT || err[0] != '\0', "refused without a word");
        if (status >= 0 && status <= 2) counts[status]++;
        free(out);
        free(err);
    }
    (void)printf("odd shapes: %d pass, %d fail, %d refused\n", counts[0], counts[1], counts[2]);
}

/* ---------------------------------------------------------------- forms of files */

static void put_axis(struct sample_tensor *t, int axis, int64_t size)
{
    memmove(&t->shape[axis + 1], &t->shape[axis], (size_t)(t->rank - axis) * sizeof t->shape[0]);
    t->shape[axis] = size;
    t->rank++;
}

/* Two equal sequences as a batch axis, and what it means for the states. */
static void test_batch_axis(void)
{
    struct sample s;
    sample_make(&s, DELTA, "gate=1", NULL, NULL);
    static const char *const rows[] = {"q", "k", "v", "gate", "beta", "o"};
    for (int i = 0; i < 6; i++)
        put_axis(sample_find(&s, rows[i]), 0, 1);
    CHECK(sample_write(&s, test_scratch, SEQMIX_ST_F32), "cannot write");
    test_expect(SEQMIX_VALIDATE_PASS, "leading batch axis of 1 dropped");
    for (int i = 0; i < 6; i++) {
        struct sample_tensor *t = sample_find(&s, rows[i]);
        t->shape[0] = 3;
        t->shape[1] = 8;
    }
    CHECK(sample_write(&s, test_scratch, SEQMIX_ST_F32), "cannot write");
    expect_refusal("row_begin is given", NULL);
    sample_find(&s, "q")->shape[0] = 4;
    sample_find(&s, "q")->shape[1] = 6;
    (void)snprintf(sample_find(&s, "row_begin")->name, 16, "unknown");
    CHECK(sample_write(&s, test_scratch, SEQMIX_ST_F32), "cannot write");
    expect_refusal("batch axis", NULL);
    sample_free(&s);

    /* three sequences of equal length, in slots 0 1 2 */
    sample_make(&s, DELTA, "gate=1 even=1", NULL, NULL);
    for (int i = 0; i < 6; i++) {
        struct sample_tensor *t = sample_find(&s, rows[i]);
        put_axis(t, 0, 3);
        t->shape[1] = 8;
    }
    static const char *const arrays[] = {"row_begin", "read_slot", "write_slot"};
    for (int i = 0; i < 3; i++)
        sample_find(&s, arrays[i])->name[0] = '_';
    CHECK(sample_write(&s, test_scratch, SEQMIX_ST_F32), "cannot write");
    test_expect(SEQMIX_VALIDATE_PASS, "leading batch axis of 3");
    sample_free(&s);
}

/* A step op without row_begin: as many sequences as rows. */
static void test_single_rows(void)
{
    struct sample s;
    sample_make(&s, "short_conv_step", "silu=0", NULL, NULL);
    static const char *const unused[] = {"row_begin", "read_slot", "write_slot", "state", "state_out"};
    for (int i = 0; i < 5; i++)
        sample_find(&s, unused[i])->name[0] = '_';
    const float *x = sample_values(&s, "x"), *w = sample_values(&s, "weight"), *bias = sample_values(&s, "bias");
    float *y = sample_find(&s, "y")->data;
    for (int64_t i = 0; i < sample_find(&s, "y")->count; i++)
        y[i] = bias[i % 5] + w[i % 5 * 4 + 3] * x[i];
    CHECK(sample_write(&s, test_scratch, SEQMIX_ST_F32), "cannot write");
    test_expect(SEQMIX_VALIDATE_PASS, "24 sequence(s)");
    sample_free(&s);
}

/* A conv state of K columns, the oldest of which the recurrence does not need. */
static void test_wide_conv_state(void)
{
    static const char *const names[] = {"state", "state_out"};
    struct sample s;
    sample_make(&s, CONV, "", NULL, NULL);
    for (int i = 0; i < 2; i++) {
        struct sample_tensor *t = sample_find(&s, names[i]);
        const int64_t columns = t->shape[0] * t->shape[1], n = t->shape[2];
        float *wide = calloc((size_t)(columns * (n + 1)), sizeof *wide);
        for (int64_t c = 0; c < columns; c++) {
            wide[c * (n + 1)] = 1e9f;
            memcpy(wide + c * (n + 1) + 1, (float *)t->data + c * n, (size_t)n * sizeof *wide);
        }
        free(t->data);
        t->data = wide;
        t->shape[2]++;
        t->count = columns * (n + 1);
    }
    CHECK(sample_write(&s, test_scratch, SEQMIX_ST_F32), "cannot write");
    test_expect(SEQMIX_VALIDATE_PASS, "state_out has K columns: the oldest was dropped");
    sample_free(&s);
}

static void test_forms(void)
{
    struct sample s;
    /* rows alone, and states alone */
    sample_make(&s, SSD, "", NULL, NULL);
    (void)snprintf(sample_find(&s, "state_out")->name, 16, "other");
    CHECK(sample_write(&s, test_scratch, SEQMIX_ST_F32), "cannot write");
    test_expect(SEQMIX_VALIDATE_PASS, "ignored: other");
    (void)snprintf(sample_find(&s, "other")->name, 16, "state_out");
    (void)snprintf(sample_find(&s, "y")->name, 16, "other");
    CHECK(sample_write(&s, test_scratch, SEQMIX_ST_F32), "cannot write");
    test_expect(SEQMIX_VALIDATE_PASS, "only state_out is judged");
    (void)snprintf(sample_find(&s, "state_out")->name, 16, "other2");
    CHECK(sample_write(&s, test_scratch, SEQMIX_ST_F32), "cannot write");
    expect_refusal("no output to judge", NULL);
    sample_free(&s);

    /* rows that belong to no sequence are not judged; all of them: nothing is */
    sample_make(&s, DELTA, "", NULL, NULL);
    (void)snprintf(sample_find(&s, "state_out")->name, 16, "other");
    memset(sample_find(&s, "row_begin")->data, 0, 4 * sizeof(int32_t));
    CHECK(sample_write(&s, test_scratch, SEQMIX_ST_F32), "cannot write");
    expect_refusal("nothing to compare", NULL);
    sample_free(&s);

    /* no state given: sequences start from zeros, only written slots are compared */
    sample_make(&s, SSD, "", "initial-state-ignored", NULL);
    (void)snprintf(sample_find(&s, "state")->name, 16, "other");
    CHECK(sample_write(&s, test_scratch, SEQMIX_ST_F32), "cannot write");
    test_expect(SEQMIX_VALIDATE_PASS, "pass");
    sample_free(&s);

    /* a parameter with axes of 1 */
    sample_make(&s, CONV, "", NULL, NULL);
    put_axis(sample_find(&s, "weight"), 1, 1);
    CHECK(sample_write(&s, test_scratch, SEQMIX_ST_F32), "cannot write");
    test_expect(SEQMIX_VALIDATE_PASS, "axis/axes of size 1 dropped");
    sample_free(&s);

    /* integers that do not fit, of the wrong type, out of range */
    sample_make(&s, SSD, "", NULL, NULL);
    struct sample_tensor *slots = sample_find(&s, "read_slot");
    ((int32_t *)slots->data)[1] = 99;
    CHECK(sample_write(&s, test_scratch, SEQMIX_ST_F32), "cannot write");
    expect_refusal("read_slot[1]=99", NULL);
    slots->dtype = SEQMIX_ST_F32;
    CHECK(sample_write(&s, test_scratch, SEQMIX_ST_F32), "cannot write");
    expect_refusal("must be I32 or I64", NULL);
    slots->dtype = SEQMIX_ST_I32;
    ((int32_t *)slots->data)[1] = 0;
    ((int32_t *)sample_find(&s, "row_begin")->data)[1] = 12;
    CHECK(sample_write(&s, test_scratch, SEQMIX_ST_F32), "cannot write");
    expect_refusal("row_begin[2]=8", NULL);
    sample_free(&s);

    /* rectangular states in the other order: named by shape, and accepted when declared */
    sample_make(&s, DELTA, "", NULL, NULL);
    CHECK(sample_write(&s, test_scratch, SEQMIX_ST_F32), "cannot write");
    char other[600], names[200], *out, *err;
    (void)snprintf(other, sizeof other, "%s.2", test_scratch);
    CHECK(write_transposed(test_scratch, other), "cannot transpose");
    CHECK(test_explanations(other, NULL, names, sizeof names) == SEQMIX_VALIDATE_FAIL &&
              strcmp(names, "state-transposed") == 0,
          "%s", names);
    CHECK(test_run(other, (const char *const[]){"--set", "state_order=VK", NULL}, &out, &err) == SEQMIX_VALIDATE_PASS,
          "%s%s", out, err);
    free(out), free(err);
    (void)remove(other);
    sample_free(&s);
}

void test_files(const char *golden_directory)
{
    test_forms();
    test_batch_axis();
    test_single_rows();
    test_wide_conv_state();
    test_spoilt();
    test_options();
    test_garbage();
    test_odd_shapes();
    if (golden_directory != NULL) test_golden(golden_directory);
}
