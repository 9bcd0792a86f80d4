/* SPDX-License-Identifier: MIT */
/* Tests of `seqmix-check validate`: sound dumps of every op pass; every fault of a made-up engine is named, it alone. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "safetensors.h"
#include "test_validate.h"
#include "validate.h"
#include "validate_case.h"

int test_checks, test_failures;
char test_scratch[512];

/* ---------------------------------------------------------------- running the subcommand */

static char *read_all(FILE *file)
{
    char *text = calloc(1, 1 << 18);
    rewind(file);
    if (text != NULL) text[fread(text, 1, (1 << 18) - 1, file)] = '\0';
    (void)fclose(file);
    return text;
}

int test_run(const char *path, const char *const *extra, char **out, char **err)
{
    char *argv[16] = {(char[]){"validate"}, NULL};
    char copies[14][1200];
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

int test_explanations(const char *path, const char *rows, char *names, size_t size)
{
    char *out, *err;
    const int status =
        test_run(path, (const char *const[]){"--json", rows != NULL ? "--rows" : NULL, rows, NULL}, &out, &err);
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

void test_expect(int wanted, const char *word)
{
    char *out, *err;
    const int status = test_run(test_scratch, NULL, &out, &err);
    CHECK(status == wanted, "status %d, wanted %d: %s%s", status, wanted, out, err);
    CHECK(strstr(out, word) != NULL, "'%s' is not in: %s", word, out);
    free(out);
    free(err);
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
    "state-transposed",
    "initial-state-transposed",
    "final-state-transposed",
    "initial-state-ignored",
    "final-state-early",
    "rows-late",
    "rows-early",
    "sequences-joined",
    "initial-slots",
    "final-slots",
};
static const char *const state_ops[] = {CONV, SCAN, SSD, DELTA};

static const char *const mixer_faults[] = {
    "dt-softplus-missing",
    "dt-softplus-twice",
    "dt-bias-ignored",
    "dt-bias-twice",
    "dt-bf16",
    "A-bf16",
    "A-positive",
    "A-log-used",
    "A-exp-missing",
    "A-is-log",
    "decay-base-2",
    "B-C-swapped",
    "skip-missing",
    "z-missing",
    "z-sigmoid",
    "input-without-dt",
    "input-zoh",
    "groups-interleaved",
    "read-before-write",
    "decay-after-write",
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
    {DELTA, "tiny=2", "l2norm-max-eps", NULL, NULL},
    {DELTA, "tiny=1", "l2norm-eps-on-mean", NULL, NULL},
    {DELTA, "tiny=2", "l2norm-eps-missing", NULL, NULL},
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
    {"deltanet_step", "", "scale-missing", NULL, NULL},
    {"ssd_step", "", "A-positive", NULL, NULL},
    {"selective_scan_step", "", "skip-missing", NULL, NULL},
    {"short_conv_step", "", "conv-bias-ignored", NULL, NULL},
    {DELTA, "bf16=1", "heads-tiled", NULL, NULL},
    {SSD, "ckpt=5", "dt-bias-ignored", NULL, NULL},
    {SSD, "ckpt=5", "A-positive", NULL, NULL},
    {DELTA, "", "scale-missing", "heads-tiled", NULL},
    {DELTA, "square=1", "state-transposed", "beta-not-squashed", NULL},
    {SSD, "", "dt-bias-ignored", "skip-missing", NULL},
    {SCAN, "", "A-positive", "initial-state-ignored", NULL},
    {CONV, "", "conv-kernel-flipped", "activation-missing", NULL},
    {NORM, "", "norm-gate-act", "norm-weight-plus-one", NULL},
};

static void check_plant(const struct plant *p, int32_t dtype, const char *rows)
{
    struct sample s;
    char names[400], expected[120], other[120];
    sample_make(&s, p->op, p->traits, p->fault, p->second);
    CHECK(sample_write(&s, test_scratch, dtype), "cannot write %s", test_scratch);
    const int status = test_explanations(test_scratch, rows, names, sizeof names);
    sample_free(&s);
    (void)snprintf(expected, sizeof expected, "%s%s%s", p->fault != NULL ? p->fault : "", p->second != NULL ? "+" : "",
                   p->second != NULL ? p->second : "");
    (void)snprintf(other, sizeof other, "%s+%s", p->second != NULL ? p->second : "", p->fault != NULL ? p->fault : "");
    bool same = strcmp(names, expected) == 0 || strcmp(names, other) == 0;
    if (p->also != NULL) same = strstr(names, p->fault) != NULL && strstr(names, p->also) != NULL;
    CHECK(same, "%s %s: planted '%s', named '%s'", p->op, p->traits, expected, names);
    CHECK(status == (p->fault != NULL ? SEQMIX_VALIDATE_FAIL : SEQMIX_VALIDATE_PASS), "%s %s %s: status %d", p->op,
          p->traits, expected, status);
}

static void test_plants(void)
{
    for (int o = 0; o < 4; o++)
        for (size_t f = 0; f < sizeof state_faults / sizeof state_faults[0]; f++) {
            const bool square = strstr(state_faults[f], "transposed") != NULL;
            check_plant(&(struct plant){state_ops[o], square ? "square=1" : "", state_faults[f], NULL, NULL},
                        SEQMIX_ST_F32, NULL);
        }
    for (int o = 1; o < 3; o++)
        for (size_t f = 0; f < sizeof mixer_faults / sizeof mixer_faults[0]; f++)
            check_plant(&(struct plant){state_ops[o], "", mixer_faults[f], NULL, NULL}, SEQMIX_ST_F32, NULL);
    for (size_t i = 0; i < sizeof plants / sizeof plants[0]; i++)
        check_plant(&plants[i], SEQMIX_ST_F32, NULL);
}

/* Tried on few rows, as in large dumps, causes must still hold on all of them, states included. */
static void test_cut(void)
{
    static const struct plant cut[] = {
        {DELTA, "", "scale-missing", NULL, NULL},          {DELTA, "square=1", "state-transposed", NULL, NULL},
        {CONV, "", "conv-state-newest-first", NULL, NULL}, {SCAN, "", "initial-state-ignored", NULL, NULL},
        {SSD, "", "final-state-early", NULL, NULL},        {SSD, "", "final-slots", NULL, NULL},
        {SSD, "", "sequences-joined", NULL, NULL},         {SSD, "", "skip-missing", "final-state-early", NULL},
    };
    for (size_t i = 0; i < sizeof cut / sizeof cut[0]; i++)
        check_plant(&cut[i], SEQMIX_ST_F32, "5");
}

static bool is_planted(const char *name)
{
    for (size_t i = 0; i < sizeof state_faults / sizeof state_faults[0]; i++)
        if (strcmp(state_faults[i], name) == 0) return true;
    for (size_t i = 0; i < sizeof mixer_faults / sizeof mixer_faults[0]; i++)
        if (strcmp(mixer_faults[i], name) == 0) return true;
    for (size_t i = 0; i < sizeof plants / sizeof plants[0]; i++)
        if (plants[i].second == NULL && strcmp(plants[i].fault, name) == 0) return true;
    return false;
}

static void test_every_cause_planted(void)
{
    const struct seqmix_val_cause *const tables[] = {seqmix_val_causes_common, seqmix_val_causes_dt,
                                                     seqmix_val_causes_delta, seqmix_val_causes_rows};
    int n = 0;
    for (int t = 0; t < 4; t++)
        for (const struct seqmix_val_cause *cause = tables[t]; cause->name != NULL; cause++, n++)
            CHECK(is_planted(cause->name), "no test plants '%s'", cause->name);
    (void)printf("hypotheses: %d\n", n);
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
        check_plant(&sound[i], SEQMIX_ST_F32, NULL);
        check_plant(&sound[i], SEQMIX_ST_F64, NULL);
    }
    static const char *const narrow[] = {CONV, SCAN, SSD, DELTA, NORM, "unit_lower_inverse", "linear"};
    for (size_t i = 0; i < sizeof narrow / sizeof narrow[0]; i++) {
        check_plant(&(struct plant){narrow[i], "bf16=1", NULL, NULL, NULL}, SEQMIX_ST_BF16, NULL);
        check_plant(&(struct plant){narrow[i], "bf16=1", NULL, NULL, NULL}, SEQMIX_ST_F16, NULL);
        check_plant(&(struct plant){narrow[i], "ckpt=5", NULL, NULL, NULL}, SEQMIX_ST_F32, NULL);
        check_plant(&(struct plant){narrow[i], "even=1", NULL, NULL, NULL}, SEQMIX_ST_F32, NULL);
    }
    /* a fault of half a unit in bf16 is none */
    char *out, *err;
    struct sample s;
    sample_make(&s, DELTA, "", NULL, NULL);
    CHECK(sample_write(&s, test_scratch, SEQMIX_ST_F32), "cannot write");
    const char *const sets[][4] = {
        {"--op", "deltanet_chunk_forward", NULL}, {"--set", "chunk=64", "--json", NULL}, {NULL}};
    for (int i = 0; i < 3; i++) {
        CHECK(test_run(test_scratch, sets[i], &out, &err) == SEQMIX_VALIDATE_PASS, "%s", err);
        free(out);
        free(err);
    }
    CHECK(test_run(test_scratch, (const char *const[]){"--bound", "1e-12", NULL}, &out, &err) == SEQMIX_VALIDATE_FAIL,
          "%s", err);
    CHECK(strstr(out, "lost precision") == NULL && strstr(out, "FAIL") != NULL, "%s", out);
    free(out);
    free(err);
    sample_free(&s);
}

/* Without a twist, the twisted recurrence is the oracle. */
static void test_twist(void)
{
    static const char *const cases[][2] = {{SCAN, ""},
                                           {SCAN, "softplus=0"},
                                           {SSD, ""},
                                           {SSD, "clamp=1"},
                                           {DELTA, "gate=0 ckpt=5"},
                                           {DELTA, "gate=1"},
                                           {DELTA, "gate=2 tiled=1"},
                                           {DELTA, "gate=3 beta=2"},
                                           {DELTA, "gate=4 channels=1 beta=0"},
                                           {DELTA, "gate=3 channels=1 norm=0 scale=30"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sample s;
        struct seqmix_val_dump *dump = malloc(sizeof *dump);
        struct seqmix_val_result r;
        char why[SEQMIX_VAL_TEXT] = "";
        sample_make(&s, cases[i][0], cases[i][1], NULL, NULL);
        CHECK(sample_write(&s, test_scratch, SEQMIX_ST_F32), "cannot write");
        bool ok = dump != NULL && seqmix_val_load(test_scratch, NULL, NULL, 0, dump, why);
        if (ok) dump->base.dump = dump;
        ok = ok && seqmix_val_check(&dump->base, why) && seqmix_val_evaluate(&dump->base, &r, why);
        CHECK(ok, "%s", why);
        if (ok) {
            const int64_t n_out = dump->out.count, n_state = dump->state_out.count;
            double *out = calloc((size_t)n_out, sizeof *out), *state = calloc((size_t)n_state, sizeof *state),
                   worst = 0;
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

/* ---------------------------------------------------------------- errors and their places */

/* One bad vector among many: too little for the tensor's RMS, too much for the vector's. */
static void test_one_vector(void)
{
    struct sample s;
    sample_make(&s, SSD, "", NULL, NULL);
    float *y = sample_find(&s, "y")->data;
    const int64_t count = sample_find(&s, "y")->count;
    double square = 0;
    for (int64_t i = 0; i < count; i++)
        square += (double)y[i] * (double)y[i];
    const double rms = sqrt(square / (double)count);
    int64_t at = 0;
    while (at < count - 3 && fmax(fabs((double)y[at]), fmax(fabs((double)y[at + 1]), fabs((double)y[at + 2]))) > rms)
        at += 3;
    for (int i = 0; i < 3; i++)
        y[at + i] += (float)(0.05 * rms);
    CHECK(sample_write(&s, test_scratch, SEQMIX_ST_F32), "cannot write");
    char *out, *err;
    CHECK(test_run(test_scratch, (const char *const[]){"--bound", "0.01", NULL}, &out, &err) == SEQMIX_VALIDATE_FAIL,
          "%s", out);
    CHECK(strstr(out, "1 of 96 vectors are bad") != NULL, "%s", out);
    free(out), free(err);
    CHECK(test_run(test_scratch, (const char *const[]){"--bound", "0.02", NULL}, &out, &err) == SEQMIX_VALIDATE_PASS,
          "%s", out);
    free(out), free(err);
    sample_free(&s);
}

/* A NaN in the dump where the recurrence has none is a fault with a place. */
static void test_nonfinite(void)
{
    struct sample s;
    sample_make(&s, SSD, "", NULL, NULL);
    ((float *)sample_find(&s, "y")->data)[(9 * 4 + 2) * 3 + 1] = NAN;
    CHECK(sample_write(&s, test_scratch, SEQMIX_ST_F32), "cannot write");
    test_expect(SEQMIX_VALIDATE_FAIL, "first bad vector: row 9 head 2; 1 of 96 vectors are bad");
    test_expect(SEQMIX_VALIDATE_FAIL, "1 element(s) finite in one and not in the other");
    ((float *)sample_find(&s, "y")->data)[(9 * 4 + 2) * 3 + 1] = 0.25f;
    CHECK(sample_write(&s, test_scratch, SEQMIX_ST_F32), "cannot write");
    test_expect(SEQMIX_VALIDATE_FAIL, "largest difference: row 9 head 2 element 1: 0.25,");
    test_expect(SEQMIX_VALIDATE_FAIL, "explained by none of");
    sample_free(&s);
}

int main(int argc, char **argv)
{
    const char *directory = argc > 1 ? argv[1] : NULL, *work = getenv("TMPDIR");
    (void)snprintf(test_scratch, sizeof test_scratch, "%s/seqmix-test-validate-%p.safetensors",
                   work != NULL ? work : "/tmp", (void *)&argc);
    test_twist();
    test_sound();
    test_plants();
    test_every_cause_planted();
    test_cut();
    test_one_vector();
    test_nonfinite();
    test_files(directory);
    (void)remove(test_scratch);
    (void)printf("%d checks, %d failed\n", test_checks, test_failures);
    return test_failures > 0 ? 1 : 0;
}
