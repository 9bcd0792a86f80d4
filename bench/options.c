/* SPDX-License-Identifier: MIT */
/* The command line of seqmix-bench. */
#include "bench.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char HELP[] =
    "usage: seqmix-bench [options]\n"
    "Times every op at the shapes of real models, after comparing its result with the recurrence in double.\n"
    "\n"
    "what to run\n"
    "  --suite targets      the goals of the project, one line each, instead of the ops one by one\n"
    "  --model CARD         no timing: what the CUDA kernels would take at least on a card (h200, h100, a100, l40s, or "
    "a\n"
    "                       file), modelled from counts; --launches adds a line for each launch\n"
    "  --quick              a few shapes and rows, under half a minute on two slow cores\n"
    "  --op GLOB            ops by name, e.g. 'deltanet*'; of a suite the lines\n"
    "  --shape GLOB         models by name, e.g. 'qwen3.5-*'\n"
    "  --shapes DIR         where the shape files lie (default: beside the program, or ../share/seqmix/shapes)\n"
    "  --rung NAME          ref, generic, avx2, avx512, amx, best (default) or all; --level is the same\n"
    "  --dtype LIST         of f32, bf16, f16 (default: all three; with --quick f32)\n"
    "  --rows LIST          prefill rows (default 64,512,2048; with --quick 64,256); 'none' leaves prefill out\n"
    "  --seqs LIST          decode sequences, one row each (default 1,8; with --quick 1); 'none' leaves decode out\n"
    "  --workers N          threads of the library's pool (default 1)\n"
    "  --repeats            time the same sizes again for every model that has them\n"
    "  --list               ops and shapes, then leave\n"
    "  --roofline-only      measure the machine, then leave\n"
    "how long\n"
    "  --budget SECONDS     of samples for each line (default 0.5; with --quick 0.1)\n"
    "  --reps N             samples for each line, whatever they take\n"
    "  --limit SECONDS      leave out a line of which one call takes longer (default 20; with --quick 0.8)\n"
    "  --total SECONDS      leave out what has not started by then (default: no end; with --quick 20)\n"
    "what to write\n"
    "  --json [FILE]        one JSON object, of a suite an array; to standard output without FILE or with -\n"
    "                       (tables then go to standard error)\n"
    "  --plot FILE.svg      throughput over rows, and the roofline\n"
    "\n"
    "Exit status: 0, 1 when a result was refused, 2 for a wrong command line or a failure.\n";

struct named {
    const char *name;
    int32_t value;
};

static const struct named LEVELS[] = {{"ref", SEQMIX_LEVEL_CPU_REF},   {"generic", SEQMIX_LEVEL_CPU_GENERIC},
                                      {"avx2", SEQMIX_LEVEL_CPU_AVX2}, {"avx512", SEQMIX_LEVEL_CPU_AVX512},
                                      {"amx", SEQMIX_LEVEL_CPU_AMX},   {"best", SEQMIX_LEVEL_BEST}};
static const struct named DTYPES[] = {{"f32", SEQMIX_F32}, {"bf16", SEQMIX_BF16}, {"f16", SEQMIX_F16}};

enum { N_LEVELS = sizeof LEVELS / sizeof LEVELS[0], N_DTYPES = sizeof DTYPES / sizeof DTYPES[0] };

static int fail(const char *option, const char *value, const char *wanted)
{
    fprintf(stderr, "seqmix-bench: %s: '%s' is not %s\n", option, value, wanted);
    return -1;
}

static int parse_levels(const char *option, const char *value, struct seqmix_bench_options *o)
{
    const char *name = strncmp(value, "cpu-", 4) == 0 ? value + 4 : value;
    o->n_levels = 0;
    o->every_level = strcmp(name, "all") == 0;
    for (int i = 0; i < N_LEVELS; i++) {
        const int wanted = o->every_level ? LEVELS[i].value != SEQMIX_LEVEL_BEST : strcmp(name, LEVELS[i].name) == 0;
        if (wanted) o->levels[o->n_levels++] = LEVELS[i].value;
    }
    return o->n_levels > 0 ? 0 : fail(option, value, "a rung: ref, generic, avx2, avx512, amx, best, all");
}

static int parse_dtypes(const char *option, const char *value, struct seqmix_bench_options *o)
{
    o->n_dtypes = 0;
    for (const char *at = value; *at != '\0';) {
        const size_t n = strcspn(at, ",");
        int found = 0;
        for (int i = 0; i < N_DTYPES && !found; i++)
            if (strlen(DTYPES[i].name) == n && memcmp(DTYPES[i].name, at, n) == 0 && o->n_dtypes < 3) {
                o->dtypes[o->n_dtypes++] = DTYPES[i].value;
                found = 1;
            }
        if (!found) return fail(option, value, "a list of f32, bf16, f16");
        at += n + (at[n] == ',');
    }
    return o->n_dtypes > 0 ? 0 : fail(option, value, "a list of f32, bf16, f16");
}

static int parse_counts(const char *option, const char *value, int64_t out[16], int *n)
{
    *n = 0;
    if (strcmp(value, "none") == 0) return 0;
    for (const char *at = value;;) {
        char *end = NULL;
        errno = 0;
        const long long count = strtoll(at, &end, 10);
        if (end == at || errno != 0 || count < 1 || count > INT32_MAX || *n == 16 || (*end != ',' && *end != '\0'))
            return fail(option, value, "'none' or at most 16 numbers of 1 to 2147483647 with commas");
        out[(*n)++] = count;
        if (*end == '\0') return 0;
        at = end + 1;
    }
}

static int parse_int(const char *option, const char *value, int least, int most, int *out)
{
    char *end = NULL;
    errno = 0;
    const long number = strtol(value, &end, 10);
    if (end == value || *end != '\0' || errno != 0 || number < least || number > most) {
        fprintf(stderr, "seqmix-bench: %s: '%s' is not a number of %d to %d\n", option, value, least, most);
        return -1;
    }
    *out = (int)number;
    return 0;
}

static int parse_seconds(const char *option, const char *value, double *out)
{
    char *end = NULL;
    *out = strtod(value, &end);
    return end != value && *end == '\0' && *out > 0 && *out < 1e6 ? 0 : fail(option, value, "a number of seconds");
}

/* Options without a value. 1 when `arg` was one. */
static int parse_flag(const char *arg, struct seqmix_bench_options *o)
{
    const struct {
        const char *name;
        int *flag;
    } flags[] = {{"--quick", &o->quick},
                 {"--list", &o->list},
                 {"--roofline-only", &o->roofline_only},
                 {"--repeats", &o->repeats},
                 {"--launches", &o->launches},
                 {"--plant-fault", &o->plant_fault}}; /* not in the help: a test of the refusal */
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
        if (strcmp(arg, flags[i].name) == 0) return *flags[i].flag = 1;
    return 0;
}

static int parse_suite(const char *option, const char *value, struct seqmix_bench_options *o)
{
    o->suite = value;
    return strcmp(value, "targets") == 0 ? 0 : fail(option, value, "a suite: targets");
}

static int parse_value(const char *arg, const char *value, struct seqmix_bench_options *o)
{
    if (strcmp(arg, "--op") == 0) return o->op = value, 0;
    if (strcmp(arg, "--shape") == 0) return o->shape = value, 0;
    if (strcmp(arg, "--shapes") == 0) return o->shapes_dir = value, 0;
    if (strcmp(arg, "--plot") == 0) return o->plot = value, 0;
    if (strcmp(arg, "--model") == 0) return o->model = value, 0;
    if (strcmp(arg, "--suite") == 0) return parse_suite(arg, value, o);
    if (strcmp(arg, "--rung") == 0 || strcmp(arg, "--level") == 0) return parse_levels(arg, value, o);
    if (strcmp(arg, "--dtype") == 0) return parse_dtypes(arg, value, o);
    if (strcmp(arg, "--rows") == 0) return parse_counts(arg, value, o->prefill, &o->n_prefill);
    if (strcmp(arg, "--seqs") == 0) return parse_counts(arg, value, o->decode, &o->n_decode);
    if (strcmp(arg, "--workers") == 0) return parse_int(arg, value, 1, 256, &o->workers);
    if (strcmp(arg, "--reps") == 0) return parse_int(arg, value, 1, 1000, &o->reps);
    if (strcmp(arg, "--budget") == 0) return parse_seconds(arg, value, &o->budget);
    if (strcmp(arg, "--limit") == 0) return parse_seconds(arg, value, &o->limit);
    if (strcmp(arg, "--total") == 0) return parse_seconds(arg, value, &o->total);
    fprintf(stderr, "seqmix-bench: unknown option '%s'; --help lists them\n", arg);
    return -1;
}

/* A model is of large calls, and one dtype tells it. */
static void set_model_defaults(struct seqmix_bench_options *o)
{
    if (o->n_prefill < 0) o->prefill[0] = 8192, o->n_prefill = 1;
    if (o->n_decode < 0) o->decode[0] = 64, o->n_decode = 1;
    if (o->n_dtypes == 0) o->dtypes[o->n_dtypes++] = SEQMIX_BF16;
}

static void set_defaults(struct seqmix_bench_options *o)
{
    static const int64_t prefill[2][3] = {{64, 512, 2048}, {64, 256, 0}}, decode[2][2] = {{1, 8}, {1, 0}};
    const int quick = o->quick;
    if (o->model != NULL) set_model_defaults(o);
    if (o->n_prefill < 0) {
        o->n_prefill = quick ? 2 : 3;
        memcpy(o->prefill, prefill[quick], sizeof prefill[quick]);
    }
    if (o->n_decode < 0) {
        o->n_decode = quick ? 1 : 2;
        memcpy(o->decode, decode[quick], sizeof decode[quick]);
    }
    if (o->n_dtypes == 0) {
        o->n_dtypes = quick ? 1 : 3;
        for (int i = 0; i < o->n_dtypes; i++)
            o->dtypes[i] = DTYPES[i].value;
    }
    if (o->n_levels == 0) o->levels[o->n_levels++] = SEQMIX_LEVEL_BEST;
    if (o->budget <= 0) o->budget = quick ? 0.1 : o->suite != NULL ? 1.0 : 0.5;
    if (o->limit <= 0) o->limit = quick ? 0.8 : 20.0;
    if (o->total <= 0) o->total = quick ? 20.0 : 0.0;
}

int seqmix_bench_parse(int argc, char **argv, struct seqmix_bench_options *o)
{
    *o = (struct seqmix_bench_options){.op = "*", .shape = "*", .n_prefill = -1, .n_decode = -1, .workers = 1};
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i], *next = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0) {
            fputs(HELP, stdout);
            return 1;
        }
        if (parse_flag(arg, o)) continue;
        if (strcmp(arg, "--json") == 0) {
            o->json_wanted = 1;
            o->json = NULL;
            if (next != NULL && strcmp(next, "-") == 0)
                i++;
            else if (next != NULL && next[0] != '-')
                o->json = argv[++i];
            continue;
        }
        if (next == NULL && arg[0] == '-' && arg[1] == '-') {
            fprintf(stderr, "seqmix-bench: %s needs a value, or is unknown; --help lists the options\n", arg);
            return -1;
        }
        if (parse_value(arg, next != NULL ? next : "", o) != 0) return -1;
        i++;
    }
    set_defaults(o);
    return 0;
}
