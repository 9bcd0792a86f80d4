/* SPDX-License-Identifier: MIT */
/* The command line of seqmix-run (see options.h): one table row per option. */
#include "options.h"

#include <errno.h>

#include "view.h"

const char seqmix_usage[] =
    "usage: seqmix-run MODEL (--prompt TEXT | --prompt-file FILE | --tokens 1,2,3 | --batch FILE) [options]\n"
    "       seqmix-run MODEL --bench [options]\n"
    "       seqmix-run tokenize MODEL TEXT\n"
    "       seqmix-run info MODEL [--json]\n"
    "       seqmix-run parity DIR [--json]\n"
    "       seqmix-run --quantize TYPE MODEL OUT.gguf [--workers W]\n"
    "\n"
    "Runs a model: the prompt in chunks, then token by token, on the same weights and state. MODEL is a directory in "
    "the\n"
    "Hugging Face layout (config.json, model.safetensors or shards, tokenizer.json) or a GGUF file. Families: "
    "Mamba-1,\n"
    "Mamba-2, Nemotron-H (dense, MoE), Qwen3.5 (dense, MoE), Qwen3-Next. info tells sizes, types and memory; parity\n"
    "compares every checkpoint below DIR with the logits and tokens expected of it. --quantize makes a GGUF file of "
    "MODEL\n"
    "with its matrices in F32, F16, BF16, Q8_0, Q4_0, Q5_0, Q5_1, IQ4_NL, Q4_K, Q5_K or Q6_K.\n"
    "\n"
    "  --prompt TEXT       the text to go on from\n"
    "  --prompt-file FILE  the same from a file; - is standard input\n"
    "  --tokens LIST       the same as token ids, separated by commas\n"
    "  --batch FILE        several prompts, one a line, run together\n"
    "  --chat              the prompt is what a user says in a chat, in the format of the model's family\n"
    "  --system TEXT       with --chat: the system message\n"
    "  --think             with --chat: the model thinks before it answers\n"
    "  --hide-thinking     with --chat: its thinking is not printed\n"
    "  -n N                tokens to generate (default 64)\n"
    "  --prefill-rows R    rows per prefill step (default 128)\n"
    "  --context C         rows of the attention cache (default: prompt and N)\n"
    "  --invariant         one order of arithmetic for every row count: cuts and company change no bit\n"
    "  --workers W         threads (default 1)\n"
    "  --temperature T     0 = greedy (default)\n"
    "  --top-k K           sample from the K most likely; 0 = all (default)\n"
    "  --top-p P           sample from the most likely that make up P; 1 = all (default)\n"
    "  --seed S            of the sampling (default 0)\n"
    "  --backend BACKEND   cpu (default) or cuda\n"
    "  --level LEVEL       at most this rung: ref, generic, avx2, avx512, amx; with cuda: simple, sm80, sm90\n"
    "  --ignore-eos        go on after an end-of-text token\n"
    "  --bench             time prefill at several widths and decode, against the memory's and the file's speed\n"
    "  --bench-rows R      rows of its prompt (default 512)\n"
    "  --profile           the time of each op and kind of layer\n"
    "  --json              one JSON object on standard output instead of the text\n"
    "  --no-stream         print the text when it is complete\n"
    "  --verbose           sizes, memory, kernels and progress on standard error\n"
    "  --help              this\n"
    "\n"
    "The text goes to standard output; progress and the report (rows, ms, rows/s of prefill and decode) to standard\n"
    "error. Exit status: 0, 1 on an error, 2 for a wrong command line, 130 when interrupted.\n";

typedef enum kind { TEXT, WHOLE, NUMBER, ON, OFF, IDS } kind;

typedef struct row {
    const char *name;
    kind kind;
    size_t offset;
    double low, high;
} row;

#define AT(field) offsetof(seqmix_options, field)

static const row rows[] = {
    {"--prompt", TEXT, AT(prompt), 0, 0},
    {"--prompt-file", TEXT, AT(prompt_file), 0, 0},
    {"--tokens", IDS, AT(tokens), 0, 0},
    {"--batch", TEXT, AT(batch_file), 0, 0},
    {"--quantize", TEXT, AT(quantize), 0, 0},
    {"--chat", ON, AT(chat), 0, 0},
    {"--system", TEXT, AT(system), 0, 0},
    {"--think", ON, AT(think), 0, 0},
    {"--hide-thinking", ON, AT(hide_thinking), 0, 0},
    {"-n", WHOLE, AT(n), 0, 1e9},
    {"--prefill-rows", WHOLE, AT(prefill_rows), 1, 65536},
    {"--context", WHOLE, AT(context), 1, 16777216},
    {"--invariant", ON, AT(invariant), 0, 0},
    {"--bench", ON, AT(bench), 0, 0},
    {"--bench-rows", WHOLE, AT(bench_rows), 1, 65536},
    {"--profile", ON, AT(profile), 0, 0},
    {"--workers", WHOLE, AT(workers), 1, 1024},
    {"--temperature", NUMBER, AT(temperature), 0, 1000},
    {"--top-k", WHOLE, AT(top_k), 0, 1e9},
    {"--top-p", NUMBER, AT(top_p), 1e-6, 1},
    {"--seed", WHOLE, AT(seed), 0, 9007199254740992.0},
    {"--backend", TEXT, AT(backend_name), 0, 0},
    {"--level", TEXT, AT(level_name), 0, 0},
    {"--ignore-eos", ON, AT(ignore_eos), 0, 0},
    {"--json", ON, AT(json), 0, 0},
    {"--no-stream", OFF, AT(stream), 0, 0},
    {"--verbose", ON, AT(verbose), 0, 0},
    {"--help", ON, AT(help), 0, 0},
    {"-h", ON, AT(help), 0, 0},
};
#define N_ROWS (sizeof rows / sizeof rows[0])

static const struct {
    const char *name;
    int32_t backend, level;
} levels[] = {
    {"ref", SEQMIX_BACKEND_CPU, SEQMIX_LEVEL_CPU_REF},     {"generic", SEQMIX_BACKEND_CPU, SEQMIX_LEVEL_CPU_GENERIC},
    {"avx2", SEQMIX_BACKEND_CPU, SEQMIX_LEVEL_CPU_AVX2},   {"avx512", SEQMIX_BACKEND_CPU, SEQMIX_LEVEL_CPU_AVX512},
    {"amx", SEQMIX_BACKEND_CPU, SEQMIX_LEVEL_CPU_AMX},     {"simple", SEQMIX_BACKEND_CUDA, SEQMIX_LEVEL_CUDA_SIMPLE},
    {"sm80", SEQMIX_BACKEND_CUDA, SEQMIX_LEVEL_CUDA_SM80}, {"sm90", SEQMIX_BACKEND_CUDA, SEQMIX_LEVEL_CUDA_SM90}};

static bool parse_ids(const char *text, seqmix_ids *ids, seqmix_why why)
{
    ids->n = 0;
    for (const char *at = text;; at++) {
        char *end;
        errno = 0;
        long long id = strtoll(at, &end, 10);
        if (end == at || errno != 0 || id < INT32_MIN || id > INT32_MAX || (*end != ',' && *end != '\0'))
            return seqmix_fail(why, "--tokens: '%.24s' is not a token id", at);
        if (!seqmix_ids_add(ids, (int32_t)id)) return seqmix_fail(why, "no memory for the token ids");
        at = end;
        if (*at == '\0') return true;
    }
}

static bool parse_number(const row *r, const char *value, double *out, seqmix_why why)
{
    char *end;
    *out = strtod(value, &end);
    bool whole = r->kind != WHOLE || (*out >= -1e15 && *out <= 1e16 && (double)(int64_t)*out == *out);
    if (end != value && *end == '\0' && *out >= r->low && *out <= r->high && whole) return true;
    return seqmix_fail(why, "%s %.24s: not a %snumber in [%.9g, %.16g]", r->name, value,
                       r->kind == WHOLE ? "whole " : "", r->low, r->high);
}

static bool choose_backend(seqmix_options *o, seqmix_why why)
{
    const char *name = o->backend_name != NULL ? o->backend_name : "cpu";
    const bool device = strcmp(name, "cuda") == 0;
    if (!device && strcmp(name, "cpu") != 0) return seqmix_fail(why, "--backend %.24s: not one of cpu, cuda", name);
    o->backend = device ? SEQMIX_BACKEND_CUDA : SEQMIX_BACKEND_CPU;
    if (o->level_name == NULL) return true;
    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++)
        if (levels[i].backend == o->backend && strcmp(o->level_name, levels[i].name) == 0)
            o->level_cap = levels[i].level;
    return o->level_cap != 0 || seqmix_fail(why, "--level %.24s: not one of %s", o->level_name,
                                            device ? "simple, sm80, sm90" : "ref, generic, avx2, avx512, amx");
}

const char *seqmix_level_name(int32_t backend, int32_t level)
{
    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++)
        if (levels[i].backend == backend && levels[i].level == level) return levels[i].name;
    return "?";
}

bool seqmix_is_device(const seqmix_options *o)
{
    return o->backend != SEQMIX_BACKEND_CPU;
}

static bool set(seqmix_options *o, const row *r, const char *value, seqmix_why why)
{
    void *field = (char *)o + r->offset;
    double number = 0.0;
    switch (r->kind) {
    case TEXT:
        *(const char **)field = value;
        return true;
    case WHOLE:
        if (!parse_number(r, value, &number, why)) return false;
        *(int64_t *)field = (int64_t)number;
        return true;
    case NUMBER:
        if (!parse_number(r, value, &number, why)) return false;
        *(float *)field = (float)number;
        return true;
    case ON:
    case OFF:
        *(bool *)field = r->kind == ON;
        return true;
    case IDS:
        o->tokens_given = true;
        return parse_ids(value, field, why);
    }
    return false;
}

static bool set_positional(seqmix_options *o, const char *value, seqmix_why why)
{
    if (o->model_dir == NULL)
        o->model_dir = value;
    else if (o->quantize != NULL && o->output == NULL)
        o->output = value;
    else if (o->command == SEQMIX_COMMAND_TOKENIZE && o->prompt == NULL)
        o->prompt = value;
    else
        return seqmix_fail(why, "'%.64s' is one argument too many", value);
    return true;
}

static bool check(const seqmix_options *o, seqmix_why why)
{
    if (o->help) return true;
    if (o->model_dir == NULL) return seqmix_fail(why, "no MODEL");
    int given = (o->prompt != NULL) + (o->prompt_file != NULL) + (o->tokens_given ? 1 : 0) + (o->batch_file != NULL);
    if (o->command == SEQMIX_COMMAND_TOKENIZE)
        return (given == 1 && !o->tokens_given && o->batch_file == NULL) || seqmix_fail(why, "tokenize needs one TEXT");
    if (o->quantize != NULL && o->output == NULL) return seqmix_fail(why, "--quantize needs MODEL and OUT.gguf");
    bool needs_prompt = o->command == SEQMIX_COMMAND_RUN && !o->bench && o->quantize == NULL;
    if (given != (needs_prompt ? 1 : 0))
        return seqmix_fail(why,
                           needs_prompt
                               ? "exactly one of --prompt, --prompt-file, --tokens and --batch is needed, %d are given"
                               : "no prompt is needed, %d are given",
                           given);
    return !(o->chat && o->tokens_given) || seqmix_fail(why, "--chat needs a text, not --tokens");
}

/* The first word, where it is no path of a model. */
static seqmix_command command_of(const char *word)
{
    if (strcmp(word, "tokenize") == 0) return SEQMIX_COMMAND_TOKENIZE;
    if (strcmp(word, "info") == 0) return SEQMIX_COMMAND_INFO;
    return strcmp(word, "parity") == 0 ? SEQMIX_COMMAND_PARITY : SEQMIX_COMMAND_RUN;
}

bool seqmix_options_parse(int argc, char **argv, seqmix_options *o, seqmix_why why)
{
    *o = (seqmix_options){.n = 64, .prefill_rows = 128, .bench_rows = 512, .workers = 1, .top_p = 1.0F, .stream = true};
    if (argc > 1) o->command = command_of(argv[1]);
    int i = o->command == SEQMIX_COMMAND_RUN ? 1 : 2;
    for (bool only_positional = false; i < argc; i++) {
        const row *found = NULL;
        for (size_t k = 0; k < N_ROWS && !only_positional; k++)
            if (strcmp(argv[i], rows[k].name) == 0) found = &rows[k];
        if (!only_positional && strcmp(argv[i], "--") == 0) {
            only_positional = true;
        } else if (found == NULL) {
            if (!only_positional && argv[i][0] == '-') return seqmix_fail(why, "unknown option '%.64s'", argv[i]);
            if (!set_positional(o, argv[i], why)) return false;
        } else {
            bool takes_value = found->kind != ON && found->kind != OFF;
            if (takes_value && i + 1 == argc) return seqmix_fail(why, "%s needs a value", found->name);
            if (!set(o, found, takes_value ? argv[i + 1] : "", why)) return false;
            if (takes_value) i++;
        }
    }
    return choose_backend(o, why) && check(o, why);
}

void seqmix_options_free(seqmix_options *o)
{
    free(o->tokens.data);
    o->tokens = (seqmix_ids){0};
}
