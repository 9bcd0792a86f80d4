/* SPDX-License-Identifier: MIT */
/*
 * Tests of `seqmix-check validate`: sound dumps of every op pass; every fault of a made-up engine is named, it alone; golden
 * dumps pass, and fail with the right name once their states are transposed; unusable files are refused with status 2.
 */
#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "safetensors.h"
#include "safetensors_write.h"
#include "test_validate.h"
#include "validate.h"
#include "validate_case.h"

static int n_checks, n_failures;
static char scratch[512];

#define CHECK(condition, ...)                                                                                          \
    do {                                                                                                               \
        n_checks++;                                                                                                    \
        if (!(condition)) {                                                                                            \
            n_failures++;                                                                                              \
            (void)printf("FAILED line %d: ", __LINE__);                                                                \
            (void)printf(__VA_ARGS__);                                                                                 \
            (void)printf("\n");                                                                                        \
        }                                                                                                              \
    } while (0)

/* ---------------------------------------------------------------- running the subcommand */

static char *read_all(FILE *file)
{
    char *text = calloc(1, 1 << 18);
    rewind(file);
    if (text != NULL) text[fread(text, 1, (1 << 18) - 1, file)] = '\0';
    (void)fclose(file);
    return text;
}

/* The exit status; what was printed goes to *out and *err, to be freed. */
static int validate(const char *path, const char *const *extra, char **out, char **err)
{
    char *argv[16] = {(char[]){"validate"}, NULL};
    char copies[14][128];
    int argc = 1;
    if (path != NULL) {
        (void)snprintf(copies[0], sizeof copies[0], "%s", path);
        argv[argc++] = copies[0];
    }
    for (int i = 0; extra != NULL && extra[i] != NULL && argc < 14; i++) {
        (void)snprintf(copies[argc], sizeof copies[0], "%s", extra[i]);
        argv[argc] = copies[argc];
        argc++;
    }
    FILE *o = tmpfile(), *e = tmpfile();
    if (o == NULL || e == NULL) exit(2);
    const int status = seqmix_validate_to(argc, argv, o, e);
    *out = read_all(o);
    *err = read_all(e);
    return status;
}

/* Runs with --json and collects the names of what explains the dump: "a", "a+b", "a, b". */
static int explanations(const char *path, char *names, size_t size)
{
    char *out, *err;
    const int status = validate(path, (const char *const[]){"--json", NULL}, &out, &err);
    cJSON *root = cJSON_Parse(out);
    names[0] = '\0';
    const cJSON *finding, *cause;
    cJSON_ArrayForEach(finding, cJSON_GetObjectItem(root, "hypotheses"))
    {
        if (!cJSON_IsTrue(cJSON_GetObjectItem(finding, "explains"))) continue;
        const char *between = names[0] != '\0' ? ", " : "";
        cJSON_ArrayForEach(cause, cJSON_GetObjectItem(finding, "causes"))
        {
            const size_t at = strlen(names);
            (void)snprintf(names + at, size - at, "%s%s", between, cJSON_GetStringValue(cause));
            between = "+";
        }
    }
    if (root == NULL) (void)snprintf(names, size, "no JSON; %s", err);
    cJSON_Delete(root);
    free(out);
    free(err);
    return status;
}

/* ---------------------------------------------------------------- planted faults */

struct plant {
    const char *op, *traits, *fault, *second;
    const char *also; /* another cause that comes to the same thing for these data */
};

#define CONV  "short_conv_rows"
#define SCAN  "selective_scan_rows"
#define SSD   "ssd_chunk_forward"
#define DELTA "deltanet_chunk_forward"
#define NORM  "gated_rms_norm_rows"

/* Faults that every op with state can have. */
static const char *const state_faults[] = {
    "state-transposed", "initial-state-transposed", "final-state-transposed", "initial-state-ignored", "final-state-early",
    "rows-late",        "rows-early",               "sequences-joined",       "initial-slots",         "final-slots",
};
static const char *const state_ops[] = {CONV, SCAN, SSD, DELTA};

static const char *const mixer_faults[] = {
    "dt-softplus-missing", "dt-softplus-twice",  "dt-bias-ignored", "dt-bias-twice",  "dt-bf16",
    "A-bf16",              "A-positive",         "A-log-used",      "A-exp-missing",  "A-is-log",
    "decay-base-2",        "B-C-swapped",        "skip-missing",    "z-missing",      "z-sigmoid",
    "input-without-dt",    "input-zoh",          "groups-interleaved", "read-before-write", "decay-after-write",
};

static const struct plant plants[] = {
    {CONV, "", "conv-kernel-flipped", NULL, NULL},
    {CONV, "", "conv-state-newest-first", NULL, NULL},
    {CONV, "", "conv-final-newest-first", NULL, NULL},
    {CONV, "", "conv-bias-ignored", NULL, NULL},
    {CONV, "", "activation-missing", NULL, NULL},
    {CONV, "silu=0", "activation-extra", NULL, NULL},
    {SCAN, "softplus=0", "dt-softplus-extra", NULL, NULL},
    {SSD, "softplus=0", "dt-softplus-extra", NULL, NULL},
    {SSD, "clamp=1", "dt-clamp-ignored", NULL, NULL},
    {DELTA, "gate=2", "gate-as-log", NULL, NULL},
    {DELTA, "gate=3", "gate-as-log", NULL, NULL},
    {DELTA, "gate=1", "gate-as-alpha", NULL, NULL},
    {DELTA, "gate=1 channels=1", "gate-as-alpha", NULL, NULL},
    {DELTA, "gate=3", "gate-as-alpha", NULL, NULL},
    {DELTA, "gate=1", "gate-log-of-gate", NULL, NULL},
    {DELTA, "gate=1 spare=1", "gate-is-raw", NULL, NULL},
    {DELTA, "gate=1", "gate-ignored", NULL, NULL},
    {DELTA, "gate=4 channels=1", "gate-ignored", NULL, NULL},
    {DELTA, "gate=1", "gate-base-2", NULL, NULL},
    {DELTA, "gate=3 channels=1", "gate-base-2", NULL, NULL},
    {DELTA, "gate=1", "gate-log2e", NULL, NULL},
    {DELTA, "gate=1", "gate-negated", NULL, NULL},
    {DELTA, "gate=1", "gate-bf16", NULL, NULL},
    {DELTA, "gate=2", "gate-bf16", NULL, NULL},
    {DELTA, "gate=3", "gate-bf16", NULL, NULL},
    {DELTA, "gate=3", "dt-bias-ignored", NULL, NULL},
    {DELTA, "gate=4 channels=1", "dt-bias-ignored", NULL, NULL},
    {DELTA, "gate=3 channels=1", "gate-softplus-missing", NULL, NULL},
    {DELTA, "gate=3", "gate-softplus-twice", NULL, NULL},
    {DELTA, "gate=3", "A-positive", NULL, "gate-negated"},
    {DELTA, "gate=4", "A-positive", NULL, NULL},
    {DELTA, "gate=3", "A-log-used", NULL, NULL},
    {DELTA, "gate=3", "A-is-log", NULL, NULL},
    {DELTA, "beta=1", "beta-not-squashed", NULL, NULL},
    {DELTA, "beta=2", "beta-not-squashed", NULL, NULL},
    {DELTA, "beta=0", "beta-squashed", NULL, NULL},
    {DELTA, "beta=1", "beta-squashed-twice", NULL, NULL},
    {DELTA, "beta=1", "beta-doubled", NULL, NULL},
    {DELTA, "beta=0", "beta-doubled", NULL, NULL},
    {DELTA, "beta=2", "beta-not-doubled", NULL, NULL},
    {DELTA, "", "heads-tiled", NULL, NULL},
    {DELTA, "tiled=1", "heads-grouped", NULL, NULL},
    {DELTA, "", "scale-missing", NULL, NULL},
    {DELTA, "", "scale-twice", NULL, NULL},
    {DELTA, "scale=30", "scale-twice", NULL, NULL},
    {DELTA, "scale=30", "scale-1-over-DK", NULL, NULL},
    {DELTA, "scale=30", "scale-default", NULL, NULL},
    {DELTA, "", "l2norm-missing", NULL, NULL},
    {DELTA, "norm=0", "l2norm-extra", NULL, NULL},
    {DELTA, "tiny=1", "l2norm-max-eps", NULL, NULL},
    {DELTA, "tiny=1", "l2norm-eps-on-mean", NULL, NULL},
    {DELTA, "tiny=1", "l2norm-eps-missing", NULL, NULL},
    {DELTA, "", "l2norm-of-q-missing", NULL, NULL},
    {DELTA, "", "l2norm-of-k-missing", NULL, NULL},
    {DELTA, "", "q-k-swapped", NULL, NULL},
    {DELTA, "", "predict-undecayed", NULL, NULL},
    {DELTA, "gate=3 channels=1", "predict-undecayed", NULL, NULL},
    {DELTA, "", "decay-after-write", NULL, NULL},
    {DELTA, "", "no-prediction", NULL, NULL},
    {DELTA, "", "read-before-write", NULL, NULL},
    {NORM, "", "norm-z-missing", NULL, NULL},
    {NORM, "", "norm-gate-order", NULL, NULL},
    {NORM, "before=1", "norm-gate-order", NULL, NULL},
    {NORM, "", "norm-weight-ignored", NULL, NULL},
    {NORM, "", "norm-weight-plus-one", NULL, NULL},
    {NORM, "plus=1", "norm-weight-plus-one-missing", NULL, NULL},
    {NORM, "", "norm-gate-act", NULL, NULL},
    {NORM, "sigmoid=1", "norm-gate-act", NULL, NULL},
    {NORM, "", "norm-eps-missing", NULL, NULL},
    {NORM, "z=0", "norm-eps-on-sum", NULL, NULL},
    {NORM, "group=4", "norm-group-ignored", NULL, NULL},
    {NORM, "group=4", "norm-centred", NULL, NULL},
    {NORM, "before=1", "norm-centred", NULL, NULL},
    {"unit_lower_inverse", "", "inverse-sign", NULL, NULL},
    {"unit_lower_inverse", "", "inverse-upper", NULL, NULL},
    {"unit_lower_inverse", "", "inverse-transposed", NULL, NULL},
    {"linear", "", "linear-bias-ignored", NULL, NULL},
    {"linear", "", "linear-residual-ignored", NULL, NULL},
    {"linear", "", "linear-weight-transposed", NULL, NULL},
    {DELTA, "", "scale-missing", "heads-tiled", NULL},
    {DELTA, "square=1", "state-transposed", "beta-not-squashed", NULL},
    {SSD, "", "dt-bias-ignored", "skip-missing", NULL},
    {SCAN, "", "A-positive", "initial-state-ignored", NULL},
    {CONV, "", "conv-kernel-flipped", "activation-missing", NULL},
    {NORM, "", "norm-gate-act", "norm-weight-plus-one", NULL},
};

static void check_plant(const struct plant *p, int32_t dtype)
{
    struct sample s;
    char names[400], expected[120], other[120];
    sample_make(&s, p->op, p->traits, p->fault, p->second);
    CHECK(sample_write(&s, scratch, dtype), "cannot write %s", scratch);
    const int status = explanations(scratch, names, sizeof names);
    sample_free(&s);
    (void)snprintf(expected, sizeof expected, "%s%s%s", p->fault != NULL ? p->fault : "", p->second != NULL ? "+" : "",
                   p->second != NULL ? p->second : "");
    (void)snprintf(other, sizeof other, "%s+%s", p->second != NULL ? p->second : "", p->fault != NULL ? p->fault : "");
    bool same = strcmp(names, expected) == 0 || strcmp(names, other) == 0;
    if (p->also != NULL) same = strstr(names, p->fault) != NULL && strstr(names, p->also) != NULL;
    CHECK(same, "%s %s: planted '%s', named '%s'", p->op, p->traits, expected, names);
    CHECK(status == (p->fault != NULL ? SEQMIX_VALIDATE_FAIL : SEQMIX_VALIDATE_PASS), "%s %s %s: status %d", p->op, p->traits,
          expected, status);
}

static void test_plants(void)
{
    for (int o = 0; o < 4; o++)
        for (size_t f = 0; f < sizeof state_faults / sizeof state_faults[0]; f++) {
            const bool square = strstr(state_faults[f], "transposed") != NULL;
            check_plant(&(struct plant){state_ops[o], square ? "square=1" : "", state_faults[f], NULL, NULL}, SEQMIX_ST_F32);
        }
    for (int o = 1; o < 3; o++)
        for (size_t f = 0; f < sizeof mixer_faults / sizeof mixer_faults[0]; f++)
            check_plant(&(struct plant){state_ops[o], "", mixer_faults[f], NULL, NULL}, SEQMIX_ST_F32);
    for (size_t i = 0; i < sizeof plants / sizeof plants[0]; i++)
        check_plant(&plants[i], SEQMIX_ST_F32);
}

/* ---------------------------------------------------------------- sound dumps */

static void test_sound(void)
{
    static const struct plant sound[] = {
        {CONV, "", NULL, NULL, NULL},
        {CONV, "silu=0", NULL, NULL, NULL},
        {SCAN, "", NULL, NULL, NULL},
        {SCAN, "softplus=0", NULL, NULL, NULL},
        {SSD, "", NULL, NULL, NULL},
        {SSD, "clamp=1", NULL, NULL, NULL},
        {DELTA, "gate=0", NULL, NULL, NULL},
        {DELTA, "gate=1", NULL, NULL, NULL},
        {DELTA, "gate=2 tiled=1", NULL, NULL, NULL},
        {DELTA, "gate=3 beta=2", NULL, NULL, NULL},
        {DELTA, "gate=4 channels=1 beta=0", NULL, NULL, NULL},
        {DELTA, "gate=1 norm=0 scale=30", NULL, NULL, NULL},
        {NORM, "", NULL, NULL, NULL},
        {NORM, "before=1 plus=1 sigmoid=1 group=4", NULL, NULL, NULL},
        {"unit_lower_inverse", "", NULL, NULL, NULL},
        {"linear", "", NULL, NULL, NULL},
        {"embed_rows", "", NULL, NULL, NULL},
    };
    for (size_t i = 0; i < sizeof sound / sizeof sound[0]; i++) {
        check_plant(&sound[i], SEQMIX_ST_F32);
        check_plant(&sound[i], SEQMIX_ST_F64);
    }
    /* a fault of half a unit in bf16 is none */
    char *out, *err;
    struct sample s;
    sample_make(&s, DELTA, "", NULL, NULL);
    CHECK(sample_write(&s, scratch, SEQMIX_ST_F32), "cannot write");
    const char *const sets[][4] = {{"--op", "deltanet_chunk_forward", NULL}, {"--set", "chunk=64", "--json", NULL}, {NULL}};
    for (int i = 0; i < 3; i++) {
        CHECK(validate(scratch, sets[i], &out, &err) == SEQMIX_VALIDATE_PASS, "%s", err);
        free(out);
        free(err);
    }
    CHECK(validate(scratch, (const char *const[]){"--bound", "1e-12", NULL}, &out, &err) == SEQMIX_VALIDATE_FAIL, "%s", err);
    CHECK(strstr(out, "lost precision") == NULL && strstr(out, "FAIL") != NULL, "%s", out);
    free(out);
    free(err);
    sample_free(&s);
}

/* Without a twist, the twisted recurrence is the oracle. */
static void test_twist(void)
{
    static const char *const cases[][2] = {{SCAN, ""}, {SCAN, "softplus=0"}, {SSD, ""}, {SSD, "clamp=1"}, {DELTA, "gate=0"},
                                           {DELTA, "gate=1"}, {DELTA, "gate=2 tiled=1"}, {DELTA, "gate=3 beta=2"},
                                           {DELTA, "gate=4 channels=1 beta=0"}, {DELTA, "gate=3 channels=1 norm=0 scale=30"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sample s;
        struct seqmix_val_dump *dump = malloc(sizeof *dump);
        struct seqmix_val_result r;
        char why[SEQMIX_VAL_TEXT] = "";
        sample_make(&s, cases[i][0], cases[i][1], NULL, NULL);
        CHECK(sample_write(&s, scratch, SEQMIX_ST_F32), "cannot write");
        bool ok = dump != NULL && seqmix_val_load(scratch, NULL, NULL, 0, dump, why);
        if (ok) dump->base.dump = dump;
        ok = ok && seqmix_val_check(&dump->base, why) && seqmix_val_evaluate(&dump->base, &r, why);
        CHECK(ok, "%s", why);
        if (ok) {
            const int64_t n_out = dump->out.count, n_state = dump->state_out.count;
            double *out = calloc((size_t)n_out, sizeof *out), *state = calloc((size_t)n_state, sizeof *state), worst = 0;
            memcpy(state, dump->base.pool, (size_t)n_state * sizeof *state);
            seqmix_val_twisted(&dump->base, out, state);
            for (int64_t j = 0; j < n_out; j++)
                worst = fmax(worst, fabs(out[j] - r.out[j]));
            for (int64_t j = 0; j < n_state; j++)
                worst = fmax(worst, fabs(state[j] - r.state[j]));
            CHECK(worst < 1e-13, "%s %s: twist 0 is %g off the oracle", cases[i][0], cases[i][1], worst);
            free(out);
            free(state);
        }
        if (dump != NULL) seqmix_val_dump_free(dump);
        free(dump);
        sample_free(&s);
    }
}

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
    if (!seqmix_st_open(from, &st, (seqmix_why){why, sizeof why}) || st.n_tensors > 32 || st.n_metadata > 32) return false;
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
    const int status = validate(path, NULL, &out, &err);
    CHECK(status == SEQMIX_VALIDATE_PASS, "%s: status %d\n%s%s", path, status, out, err);
    free(out);
    free(err);
    if (!write_transposed(path, scratch)) return;
    CHECK(explanations(scratch, names, sizeof names) == SEQMIX_VALIDATE_FAIL, "%s: passes with its state transposed", path);
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
    const int status = validate(scratch, extra, &out, &err);
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
        {DELTA, "", "v", "24 3 5", "v.shape[1]=3"},
        {DELTA, "", "q", "24 8", "q has shape [24, 8]"},
        {DELTA, "", "q", "2 2 6 2 4", "q has shape"},
        {DELTA, "", "o", "24 4 4", "o.shape[2]=4"},
        {DELTA, "", "state", "5 4 4 7", "state_out.shape[3]=5 differs from state.shape[3]=7"},
        {DELTA, "", "state_out", "4 4 4 5", "state_out.shape[0]=4"},
        {DELTA, "", "row_begin", "1", "row_begin has 1 entries"},
        {DELTA, "", "row_begin", "7", "read_slot has 3 entries"},
        {DELTA, "", "read_slot", "2", "read_slot has 2 entries"},
        {DELTA, "", "write_slot", "3", "slot 0"},
        {SSD, "", "B", "24 3 5", "B.shape[1]=3"},
        {SSD, "", "dt", "24 3", "dt.shape[1]=3"},
        {SSD, "", "x", "0 4611686018427387904 0", "x"},
        {SCAN, "", "A", "4 300", "300"},
        {CONV, "", "weight", "5 40", "40"},
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
        CHECK(sample_write(&s, scratch, SEQMIX_ST_F32), "cannot write");
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
        {{"--op", "deltanet_step", NULL}, "rows"},
        {{"--op", NULL}, "needs a value"},
        {{"--bound", "-3", NULL}, "--bound"},
        {{"--rows", "0", NULL}, "--rows"},
        {{"--frobnicate", NULL}, "--frobnicate"},
        {{"another.safetensors", NULL}, "one file"},
    };
    struct sample s;
    sample_make(&s, DELTA, "", NULL, NULL);
    CHECK(sample_write(&s, scratch, SEQMIX_ST_F32), "cannot write");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect_refusal(cases[i].word, cases[i].extra);
    sample_free(&s);

    sample_make(&s, DELTA, "gate=1", NULL, NULL); /* no metadata at all */
    s.n_strings = 0;
    CHECK(sample_write(&s, scratch, SEQMIX_ST_F32), "cannot write");
    expect_refusal("no op", NULL);
    expect_refusal("gate_kind=LOG", (const char *const[]){"--op", DELTA, NULL});
    sample_free(&s);

    char *out, *err;
    CHECK(validate(NULL, NULL, &out, &err) == SEQMIX_VALIDATE_BAD_INPUT && strstr(err, "no file") != NULL, "%s", err);
    free(out), free(err);
    CHECK(validate("/nonexistent/file", NULL, &out, &err) == SEQMIX_VALIDATE_BAD_INPUT, "%s", err);
    free(out), free(err);
    CHECK(validate(NULL, (const char *const[]){"--help", NULL}, &out, &err) == SEQMIX_VALIDATE_PASS, "%s", err);
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
        CHECK(sample_write(&s, scratch, SEQMIX_ST_F32), "cannot write");
        sample_free(&s);
        FILE *file = fopen(scratch, "r+b");
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
        const int status = validate(scratch, NULL, &out, &err);
        CHECK(status >= 0 && status <= 2, "status %d", status);
        CHECK(status != SEQMIX_VALIDATE_BAD_INPUT || err[0] != '\0', "refused without a word");
        if (status >= 0 && status <= 2) counts[status]++;
        free(out);
        free(err);
    }
    (void)printf("garbage: %d pass, %d fail, %d refused\n", counts[0], counts[1], counts[2]);
}

/* ---------------------------------------------------------------- forms of files */

static void expect_status(int wanted, const char *word)
{
    char *out, *err;
    const int status = validate(scratch, NULL, &out, &err);
    CHECK(status == wanted, "status %d, wanted %d: %s%s", status, wanted, out, err);
    CHECK(strstr(out, word) != NULL, "'%s' is not in: %s", word, out);
    free(out);
    free(err);
}

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
    CHECK(sample_write(&s, scratch, SEQMIX_ST_F32), "cannot write");
    expect_status(SEQMIX_VALIDATE_PASS, "leading batch axis of 1 dropped");
    for (int i = 0; i < 6; i++) {
        struct sample_tensor *t = sample_find(&s, rows[i]);
        t->shape[0] = 3;
        t->shape[1] = 8;
    }
    CHECK(sample_write(&s, scratch, SEQMIX_ST_F32), "cannot write");
    expect_refusal("row_begin is given", NULL);
    sample_find(&s, "q")->shape[0] = 4;
    sample_find(&s, "q")->shape[1] = 6;
    (void)snprintf(sample_find(&s, "row_begin")->name, 16, "unknown");
    CHECK(sample_write(&s, scratch, SEQMIX_ST_F32), "cannot write");
    expect_refusal("batch axis", NULL);
    sample_free(&s);
}

static void test_forms(void)
{
    struct sample s;
    /* rows alone, and states alone */
    sample_make(&s, SSD, "", NULL, NULL);
    (void)snprintf(sample_find(&s, "state_out")->name, 16, "other");
    CHECK(sample_write(&s, scratch, SEQMIX_ST_F32), "cannot write");
    expect_status(SEQMIX_VALIDATE_PASS, "ignored: other");
    (void)snprintf(sample_find(&s, "other")->name, 16, "state_out");
    (void)snprintf(sample_find(&s, "y")->name, 16, "other");
    CHECK(sample_write(&s, scratch, SEQMIX_ST_F32), "cannot write");
    expect_status(SEQMIX_VALIDATE_PASS, "only state_out is judged");
    (void)snprintf(sample_find(&s, "state_out")->name, 16, "other2");
    CHECK(sample_write(&s, scratch, SEQMIX_ST_F32), "cannot write");
    expect_refusal("no output to judge", NULL);
    sample_free(&s);

    /* no state given: sequences start from zeros, only written slots are compared */
    sample_make(&s, SSD, "", "initial-state-ignored", NULL);
    (void)snprintf(sample_find(&s, "state")->name, 16, "other");
    CHECK(sample_write(&s, scratch, SEQMIX_ST_F32), "cannot write");
    expect_status(SEQMIX_VALIDATE_PASS, "pass");
    sample_free(&s);

    /* a parameter with axes of 1 */
    sample_make(&s, CONV, "", NULL, NULL);
    put_axis(sample_find(&s, "weight"), 1, 1);
    CHECK(sample_write(&s, scratch, SEQMIX_ST_F32), "cannot write");
    expect_status(SEQMIX_VALIDATE_PASS, "axis/axes of size 1 dropped");
    sample_free(&s);

    /* integers that do not fit, of the wrong type, out of range */
    sample_make(&s, SSD, "", NULL, NULL);
    struct sample_tensor *slots = sample_find(&s, "read_slot");
    ((int32_t *)slots->data)[1] = 99;
    CHECK(sample_write(&s, scratch, SEQMIX_ST_F32), "cannot write");
    expect_refusal("read_slot[1]=99", NULL);
    slots->dtype = SEQMIX_ST_F32;
    CHECK(sample_write(&s, scratch, SEQMIX_ST_F32), "cannot write");
    expect_refusal("must be I32 or I64", NULL);
    slots->dtype = SEQMIX_ST_I32;
    ((int32_t *)slots->data)[1] = 0;
    ((int32_t *)sample_find(&s, "row_begin")->data)[1] = 12;
    CHECK(sample_write(&s, scratch, SEQMIX_ST_F32), "cannot write");
    expect_refusal("row_begin[2]=8", NULL);
    sample_free(&s);

    /* rectangular states in the other order: named by shape, and accepted when declared */
    sample_make(&s, DELTA, "", NULL, NULL);
    CHECK(sample_write(&s, scratch, SEQMIX_ST_F32), "cannot write");
    char other[600], names[200], *out, *err;
    (void)snprintf(other, sizeof other, "%s.2", scratch);
    CHECK(write_transposed(scratch, other), "cannot transpose");
    CHECK(explanations(other, names, sizeof names) == SEQMIX_VALIDATE_FAIL && strcmp(names, "state-transposed") == 0, "%s", names);
    CHECK(validate(other, (const char *const[]){"--set", "state_order=VK", NULL}, &out, &err) == SEQMIX_VALIDATE_PASS, "%s%s", out,
          err);
    free(out), free(err);
    (void)remove(other);
    sample_free(&s);
}

/* A NaN in the dump where the recurrence has none is a fault with a place. */
static void test_nonfinite(void)
{
    struct sample s;
    sample_make(&s, SSD, "", NULL, NULL);
    ((float *)sample_find(&s, "y")->data)[(9 * 4 + 2) * 3 + 1] = NAN;
    CHECK(sample_write(&s, scratch, SEQMIX_ST_F32), "cannot write");
    expect_status(SEQMIX_VALIDATE_FAIL, "first bad vector: row 9 head 2; 1 of 96 vectors are bad");
    expect_status(SEQMIX_VALIDATE_FAIL, "1 element(s) finite in one and not in the other");
    ((float *)sample_find(&s, "y")->data)[(9 * 4 + 2) * 3 + 1] = 0.25f;
    CHECK(sample_write(&s, scratch, SEQMIX_ST_F32), "cannot write");
    expect_status(SEQMIX_VALIDATE_FAIL, "largest difference: row 9 head 2 element 1: 0.25,");
    expect_status(SEQMIX_VALIDATE_FAIL, "explained by none of");
    sample_free(&s);
}

int main(int argc, char **argv)
{
    const char *directory = argc > 1 ? argv[1] : NULL, *work = getenv("TMPDIR");
    (void)snprintf(scratch, sizeof scratch, "%s/seqmix-test-validate-%p.safetensors", work != NULL ? work : "/tmp", (void *)&argc);
    test_twist();
    test_sound();
    test_plants();
    test_forms();
    test_batch_axis();
    test_nonfinite();
    test_spoilt();
    test_options();
    test_garbage();
    if (directory != NULL) test_golden(directory);
    (void)remove(scratch);
    (void)printf("%d checks, %d failed\n", n_checks, n_failures);
    return n_failures > 0 ? 1 : 0;
}
