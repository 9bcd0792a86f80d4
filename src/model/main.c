/* SPDX-License-Identifier: MIT */
/*
 * seqmix-run: a prompt through a model and on (see options.c for its command line). Standard output carries the text, or
 * one JSON object; everything else goes to standard error.
 */
#define _POSIX_C_SOURCE 200809L

#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "file.h"
#include "options.h"
#include "report.h"
#include "sample.h"
#include "tokenizer.h"

enum { EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_INTERRUPTED = 130 };

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal_number)
{
    (void)signal_number;
    interrupted = 1;
}

/* Ctrl-C ends the run at the next pass; a second one ends the process. */
static void catch_interrupt(void)
{
    struct sigaction action = {0};
    action.sa_handler = on_interrupt;
    action.sa_flags = (int)SA_RESETHAND;
    (void)sigaction(SIGINT, &action, NULL);
}

static double now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* All that a run holds; freed in one place. */
typedef struct app {
    seqmix_options options;
    seqmix_tokenizer *tokenizer; /* NULL: ids only */
    seqmix_model *model;
    seqmix_ctx *ctx;
    seqmix_session *session;
    seqmix_sampler sampler;
    seqmix_ids prompt, generated;
    seqmix_bytes text; /* what was generated, decoded */
    size_t printed;    /* of it */
    seqmix_utf8_stream stream;
    bool progress; /* show it */
    seqmix_phase prefill, decode;
    char why[512];
} app;

static seqmix_why why_of(app *a)
{
    return (seqmix_why){a->why, sizeof a->why};
}

static bool read_stream(FILE *file, seqmix_bytes *out)
{
    char chunk[4096];
    size_t n;
    while ((n = fread(chunk, 1, sizeof chunk, file)) > 0)
        if (!seqmix_bytes_add(out, chunk, n)) return false;
    return ferror(file) == 0;
}

static bool encode_file(app *a, const char *path)
{
    seqmix_bytes text = {0};
    bool ok;
    if (strcmp(path, "-") == 0) {
        ok = read_stream(stdin, &text) || seqmix_fail(why_of(a), "cannot read standard input");
        ok = ok && seqmix_tokenizer_encode(a->tokenizer, text.data, text.n, true, &a->prompt, why_of(a));
    } else {
        seqmix_file file;
        ok = seqmix_file_map(path, &file, why_of(a));
        if (ok) {
            ok = seqmix_tokenizer_encode(a->tokenizer, file.bytes, file.size, true, &a->prompt, why_of(a));
            seqmix_file_unmap(&file);
        }
    }
    free(text.data);
    return ok;
}

static bool get_prompt(app *a)
{
    const seqmix_options *o = &a->options;
    bool ok = true;
    if (o->tokens_given) {
        for (size_t i = 0; ok && i < o->tokens.n; i++)
            ok = seqmix_ids_add(&a->prompt, o->tokens.data[i]) || seqmix_fail(why_of(a), "no memory for the prompt");
    } else if (o->prompt != NULL) {
        ok = seqmix_tokenizer_encode(a->tokenizer, o->prompt, strlen(o->prompt), true, &a->prompt, why_of(a));
    } else {
        ok = encode_file(a, o->prompt_file);
    }
    if (ok && a->prompt.n == 0) ok = seqmix_fail(why_of(a), "the prompt has no tokens");
    return ok;
}

/* With --tokens a model needs no tokenizer; one that is there must be good all the same. */
static bool open_tokenizer(app *a)
{
    char path[4096];
    int n = snprintf(path, sizeof path, "%s/tokenizer.json", a->options.model_dir);
    if (a->options.tokens_given && n > 0 && (size_t)n < sizeof path && !seqmix_file_exists(path)) return true;
    a->tokenizer = seqmix_tokenizer_open(a->options.model_dir, why_of(a));
    return a->tokenizer != NULL;
}

static bool open_session(app *a)
{
    const seqmix_options *o = &a->options;
    a->model = seqmix_model_open(o->model_dir, why_of(a));
    if (a->model == NULL) return false;
    if (a->progress) seqmix_report_model(o->model_dir, a->model, stderr);
    seqmix_ctx_desc desc = {.struct_size = sizeof desc,
                            .backend = SEQMIX_BACKEND_CPU,
                            .level_cap = o->level_cap,
                            .n_workers = (int32_t)o->workers};
    if (seqmix_ctx_create(seqmix_get_api(SEQMIX_ABI_VERSION), &desc, &a->ctx, a->why, sizeof a->why) != SEQMIX_OK)
        return false;
    /* Buffers for more rows than the prompt has would only be paid for. */
    int64_t rows = o->prefill_rows < (int64_t)a->prompt.n ? o->prefill_rows : (int64_t)a->prompt.n;
    seqmix_session_desc session = {.model = a->model, .ctx = a->ctx, .prefill_rows = rows};
    a->session = seqmix_session_create(&session, why_of(a));
    if (a->session != NULL && o->verbose) seqmix_report_session(a->session, stderr);
    return a->session != NULL;
}

/* Appends a token and its text; prints what is complete. */
static bool emit(app *a, int32_t token)
{
    const seqmix_options *o = &a->options;
    if (!seqmix_ids_add(&a->generated, token)) return seqmix_fail(why_of(a), "no memory for the tokens");
    if (a->tokenizer == NULL) {
        if (!o->json) (void)printf(a->generated.n > 1 ? ",%d" : "%d", token);
        if (!o->json && o->stream) (void)fflush(stdout);
        return true;
    }
    if (!seqmix_tokenizer_decode(a->tokenizer, &a->stream, &token, 1, true, false, &a->text))
        return seqmix_fail(why_of(a), "no memory for the text");
    if (!o->json && o->stream && a->text.n > a->printed) {
        (void)fwrite(a->text.data + a->printed, 1, a->text.n - a->printed, stdout);
        (void)fflush(stdout);
        a->printed = a->text.n;
    }
    return true;
}

static bool finish_text(app *a)
{
    if (a->tokenizer != NULL && (!seqmix_tokenizer_decode(a->tokenizer, &a->stream, NULL, 0, true, true, &a->text) ||
                                 !seqmix_bytes_add(&a->text, "", 1)))
        return seqmix_fail(why_of(a), "no memory for the text");
    if (a->options.json) return true;
    if (a->text.n > 0) (void)fwrite(a->text.data + a->printed, 1, a->text.n - 1 - a->printed, stdout);
    (void)fputc('\n', stdout);
    return fflush(stdout) == 0 || seqmix_fail(why_of(a), "cannot write to standard output");
}

static bool on_prefill(void *user, int64_t done, int64_t rows)
{
    const app *a = user;
    if (a->progress) {
        bool terminal = isatty(STDERR_FILENO) != 0;
        (void)fprintf(stderr, terminal ? "\rprefill %lld of %lld rows%s" : "prefill %lld of %lld rows%s",
                      (long long)done, (long long)rows, done == rows || !terminal ? "\n" : "");
    }
    return interrupted == 0;
}

static bool is_stop(const seqmix_config *c, int32_t token)
{
    for (int32_t i = 0; i < c->n_stop; i++)
        if (c->stop[i] == token) return true;
    return false;
}

/* NULL on an error. Each phase is timed to the completion of its last state update. */
static const char *generate(app *a)
{
    const seqmix_options *o = &a->options;
    seqmix_watch watch = {.user = a, .progress = on_prefill};
    double start = now_ms();
    bool ok = seqmix_session_eval(a->session, a->prompt.data, (int64_t)a->prompt.n, &watch, why_of(a));
    a->prefill.ms = now_ms() - start;
    a->prefill.rows = seqmix_session_position(a->session);
    if (!ok) return interrupted != 0 ? "interrupted" : NULL;
    a->sampler = (seqmix_sampler){
        .temperature = o->temperature, .top_k = (int32_t)o->top_k, .top_p = o->top_p, .state = (uint64_t)o->seed};
    for (int64_t i = 0; i < o->n; i++) {
        int32_t token = seqmix_sample(&a->sampler, seqmix_session_logits(a->session), a->model->config.vocab);
        if (token < 0) {
            (void)seqmix_fail(why_of(a), "no memory for sampling");
            return NULL;
        }
        if (!emit(a, token)) return NULL;
        if (!o->ignore_eos && is_stop(&a->model->config, token)) return "stop";
        if (interrupted != 0) return "interrupted";
        if (i + 1 == o->n) break;
        start = now_ms();
        ok = seqmix_session_eval(a->session, &token, 1, NULL, why_of(a));
        a->decode.ms += now_ms() - start;
        if (!ok) return NULL;
        a->decode.rows++;
    }
    return "length";
}

static int run_model(app *a)
{
    if (!open_tokenizer(a) || !get_prompt(a) || !open_session(a)) return EXIT_FAILED;
    catch_interrupt();
    const char *finish = generate(a);
    if (finish == NULL || !finish_text(a)) return EXIT_FAILED;
    seqmix_run run = {.model_dir = a->options.model_dir,
                      .model = a->model,
                      .session = a->session,
                      .prompt = &a->prompt,
                      .generated = &a->generated,
                      .text = &a->text,
                      .has_text = a->tokenizer != NULL,
                      .prefill_rows = a->options.prefill_rows,
                      .workers = a->options.workers,
                      .prefill = a->prefill,
                      .decode = a->decode,
                      .finish = finish};
    seqmix_report_phases(&run, stderr);
    if (a->options.json && !seqmix_report_json(&run, stdout)) {
        (void)seqmix_fail(why_of(a), "cannot write the JSON report");
        return EXIT_FAILED;
    }
    return interrupted != 0 ? EXIT_INTERRUPTED : 0;
}

static int run_tokenize(app *a)
{
    a->tokenizer = seqmix_tokenizer_open(a->options.model_dir, why_of(a));
    if (a->tokenizer == NULL) return EXIT_FAILED;
    bool ok = a->options.prompt_file != NULL
                  ? encode_file(a, a->options.prompt_file)
                  : seqmix_tokenizer_encode(a->tokenizer, a->options.prompt, strlen(a->options.prompt), true,
                                            &a->prompt, why_of(a));
    if (!ok) return EXIT_FAILED;
    for (size_t i = 0; i < a->prompt.n; i++)
        (void)printf(i > 0 ? ",%d" : "%d", a->prompt.data[i]);
    (void)fputc('\n', stdout);
    return 0;
}

static void close_app(app *a)
{
    seqmix_session_free(a->session);
    seqmix_ctx_destroy(a->ctx);
    seqmix_model_close(a->model);
    seqmix_tokenizer_free(a->tokenizer);
    seqmix_sampler_free(&a->sampler);
    seqmix_options_free(&a->options);
    free(a->prompt.data);
    free(a->generated.data);
    free(a->text.data);
}

int main(int argc, char **argv)
{
    app a = {0};
    int code = 0;
    if (!seqmix_options_parse(argc, argv, &a.options, why_of(&a))) {
        (void)fprintf(stderr, "seqmix-run: %s\ntry seqmix-run --help\n", a.why);
        code = EXIT_USAGE;
    } else if (a.options.help) {
        (void)fputs(seqmix_usage, stdout);
    } else {
        a.progress = a.options.verbose || isatty(STDERR_FILENO) != 0;
        code = a.options.tokenize ? run_tokenize(&a) : run_model(&a);
        if (code == EXIT_FAILED) (void)fprintf(stderr, "seqmix-run: %s\n", a.why);
    }
    close_app(&a);
    return code;
}
