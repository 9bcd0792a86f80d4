/* SPDX-License-Identifier: MIT */
/*
 * seqmix-run MODEL: a prompt through a model and on, or several together. Standard output carries the text, or one JSON
 * object; everything else goes to standard error.
 */
#define _POSIX_C_SOURCE 200809L

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "commands.h"
#include "prompt.h"
#include "report.h"

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
    const seqmix_options *options;
    seqmix_tokenizer *tokenizer; /* NULL: ids only */
    seqmix_model *model;
    seqmix_ctx *ctx;
    seqmix_session *session;
    seqmix_prompts prompts;
    seqmix_answer *answers; /* one for each prompt */
    seqmix_profile profile;
    bool progress; /* show it */
    seqmix_phase prefill, decode;
    seqmix_why why;
} app;

/* A tokenizer that is there must be good, also when --tokens needs none. */
static bool open_model(app *a)
{
    const seqmix_options *o = a->options;
    if (!seqmix_open_tokenizer(o->model_dir, o->tokens_given, &a->tokenizer, a->why)) return false;
    a->model = seqmix_model_open(o->model_dir, a->why);
    if (a->model == NULL) return false;
    if (a->progress) seqmix_report_model(o->model_dir, a->model, stderr);
    return seqmix_read_prompts(o, a->tokenizer, a->model->config.family_name, &a->prompts, a->why);
}

/* Rows that the run can use: no more than the model was made for, unless a prompt is longer. */
static int64_t wanted_context(const app *a, int64_t longest)
{
    int64_t most = a->model->config.context > 0 ? a->model->config.context : INT64_C(1) << 24;
    int64_t wanted = longest + a->options->n;
    if (a->options->context > 0) return a->options->context;
    if (wanted > most) wanted = most;
    return wanted > longest ? wanted : longest;
}

static bool open_session(app *a)
{
    const seqmix_options *o = a->options;
    int64_t longest = 0, all = 0;
    for (int32_t i = 0; i < a->prompts.n; i++) {
        int64_t n = (int64_t)a->prompts.prompts[i].n;
        all += n;
        if (n > longest) longest = n;
    }
    if (!seqmix_open_context(o, &a->ctx, a->why)) return false;
    /* Buffers for more rows than the prompts have would only be paid for. */
    seqmix_session_desc desc = {.model = a->model,
                                .ctx = a->ctx,
                                .on_device = seqmix_is_device(o),
                                .prefill_rows = o->prefill_rows < all ? o->prefill_rows : all,
                                .context = wanted_context(a, longest),
                                .n_seqs = a->prompts.n,
                                .invariant = o->invariant};
    a->session = seqmix_session_create(&desc, a->why);
    if (a->session == NULL) return false;
    if (o->verbose) seqmix_report_session(a->session, stderr);
    if (o->profile) seqmix_session_profile(a->session, &a->profile);
    a->answers = calloc((size_t)a->prompts.n, sizeof *a->answers);
    if (a->answers == NULL) return seqmix_fail(a->why, "no memory");
    for (int32_t i = 0; i < a->prompts.n; i++) {
        seqmix_answer *answer = &a->answers[i];
        answer->prompt = &a->prompts.prompts[i];
        answer->sampler = (seqmix_sampler){
            .temperature = o->temperature, .top_k = (int32_t)o->top_k, .top_p = o->top_p, .state = (uint64_t)o->seed};
        if (o->chat && !seqmix_chat_view_begin(&answer->view, o->think, o->hide_thinking, &answer->text))
            return seqmix_fail(a->why, "no memory for the text");
    }
    return true;
}

/* ---- output ---- */

/* Of one answer alone, what is new of it; several are printed when they are complete. */
static void print_new(const app *a, seqmix_answer *answer)
{
    if (a->options->json || !a->options->stream || a->prompts.n > 1 || answer->text.n == answer->printed) return;
    (void)fwrite(answer->text.data + answer->printed, 1, answer->text.n - answer->printed, stdout);
    (void)fflush(stdout);
    answer->printed = answer->text.n;
}

/* Without a tokenizer, the ids. */
static bool add_id(seqmix_answer *answer, int32_t token)
{
    char text[16];
    int n = snprintf(text, sizeof text, answer->generated.n > 1 ? ",%d" : "%d", token);
    return seqmix_bytes_add(&answer->text, text, (size_t)n);
}

/* Appends a token and its text; prints what is complete. */
static bool emit(app *a, seqmix_answer *answer, int32_t token)
{
    bool ok = seqmix_ids_add(&answer->generated, token);
    if (ok && a->tokenizer == NULL)
        ok = add_id(answer, token);
    else if (ok && a->options->chat)
        ok = seqmix_chat_view_push(&answer->view, a->tokenizer, token, &answer->text);
    else if (ok)
        ok = seqmix_tokenizer_decode(a->tokenizer, &answer->stream, &token, 1, true, false, &answer->text);
    if (!ok) return seqmix_fail(a->why, "no memory for the text");
    print_new(a, answer);
    return true;
}

static bool finish_texts(app *a)
{
    for (int32_t i = 0; i < a->prompts.n; i++) {
        seqmix_answer *answer = &a->answers[i];
        bool ok = true;
        if (a->tokenizer != NULL)
            ok = a->options->chat
                     ? seqmix_chat_view_end(&answer->view, &answer->text)
                     : seqmix_tokenizer_decode(a->tokenizer, &answer->stream, NULL, 0, true, true, &answer->text);
        if (!ok || !seqmix_bytes_add(&answer->text, "", 1)) return seqmix_fail(a->why, "no memory for the text");
        if (a->options->json) continue;
        if (a->prompts.n > 1) (void)printf("==> %d <==\n", i + 1);
        (void)fwrite(answer->text.data + answer->printed, 1, answer->text.n - 1 - answer->printed, stdout);
        (void)fputc('\n', stdout);
    }
    return fflush(stdout) == 0 || seqmix_fail(a->why, "cannot write to standard output");
}

/* ---- running ---- */

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

static bool is_stop(const app *a, int32_t token)
{
    const seqmix_config *c = &a->model->config;
    int32_t stops[SEQMIX_CHAT_MAX_STOPS];
    int32_t n = a->options->chat ? seqmix_chat_stops(a->tokenizer, a->prompts.format, stops) : 0;
    for (int32_t i = 0; i < n; i++)
        if (stops[i] == token) return true;
    for (int32_t i = 0; i < c->n_stop; i++)
        if (c->stop[i] == token) return true;
    return false;
}

/* The next token of every answer that goes on, each as a piece of its own; false on an error. */
static bool choose(app *a, seqmix_piece *pieces, int32_t *n_pieces)
{
    const seqmix_options *o = a->options;
    *n_pieces = 0;
    for (int32_t i = 0; i < a->prompts.n; i++) {
        seqmix_answer *answer = &a->answers[i];
        if (answer->finish != NULL) continue;
        if ((int64_t)answer->generated.n == o->n) {
            answer->finish = "length";
            continue;
        }
        const float *logits = seqmix_session_logits_of(a->session, i);
        answer->token = seqmix_sample(&answer->sampler, logits, a->model->config.vocab);
        if (answer->token < 0) return seqmix_fail(a->why, "no memory for sampling");
        bool stop = !o->ignore_eos && is_stop(a, answer->token);
        if (!(stop && o->chat) && !emit(a, answer, answer->token)) return false;
        int64_t context = seqmix_session_context(a->session);
        int64_t used = (int64_t)answer->prompt->n + (int64_t)answer->generated.n;
        if (stop)
            answer->finish = "stop";
        else if (interrupted != 0)
            answer->finish = "interrupted";
        else if ((int64_t)answer->generated.n == o->n)
            answer->finish = "length";
        else if (context > 0 && used > context)
            answer->finish = "context";
        else
            pieces[(*n_pieces)++] = (seqmix_piece){i, &answer->token, 1};
    }
    return true;
}

static bool prefill(app *a, seqmix_piece *pieces)
{
    seqmix_watch watch = {.user = a, .progress = on_prefill};
    for (int32_t i = 0; i < a->prompts.n; i++) {
        pieces[i] = (seqmix_piece){i, a->prompts.prompts[i].data, (int64_t)a->prompts.prompts[i].n};
        a->prefill.rows += pieces[i].n;
    }
    double start = now_ms();
    bool ok = seqmix_session_eval_batch(a->session, pieces, a->prompts.n, &watch, a->why);
    a->prefill.ms = now_ms() - start;
    if (!ok) a->prefill.rows = 0;
    for (int32_t i = 0; !ok && interrupted != 0 && i < a->prompts.n; i++)
        a->answers[i].finish = "interrupted";
    return ok || interrupted != 0;
}

/* Each phase is timed to the completion of its last state update. */
static bool generate(app *a)
{
    int32_t n = 0;
    seqmix_piece *pieces = calloc((size_t)a->prompts.n, sizeof *pieces);
    bool ok = pieces != NULL || seqmix_fail(a->why, "no memory");
    ok = ok && prefill(a, pieces);
    while (ok && choose(a, pieces, &n) && n > 0) {
        double start = now_ms();
        ok = seqmix_session_eval_batch(a->session, pieces, n, NULL, a->why);
        a->decode.ms += now_ms() - start;
        a->decode.rows += n;
    }
    free(pieces);
    return ok && n == 0;
}

static bool report(app *a)
{
    seqmix_run run = {.model_dir = a->options->model_dir,
                      .model = a->model,
                      .session = a->session,
                      .answers = a->answers,
                      .n_answers = a->prompts.n,
                      .batch = a->options->batch_file != NULL,
                      .has_text = a->tokenizer != NULL,
                      .prefill_rows = a->options->prefill_rows,
                      .workers = a->options->workers,
                      .backend = a->options->backend,
                      .prefill = a->prefill,
                      .decode = a->decode,
                      .profile = a->options->profile ? &a->profile : NULL};
    seqmix_report_phases(&run, stderr);
    if (a->options->profile) seqmix_report_profile(&run, stderr);
    return !a->options->json || seqmix_report_json(&run, stdout) || seqmix_fail(a->why, "cannot write the JSON report");
}

static void close_app(app *a)
{
    for (int32_t i = 0; a->answers != NULL && i < a->prompts.n; i++) {
        free(a->answers[i].generated.data);
        free(a->answers[i].text.data);
        seqmix_sampler_free(&a->answers[i].sampler);
    }
    free(a->answers);
    seqmix_session_free(a->session);
    seqmix_model_close(a->model);
    seqmix_ctx_destroy(a->ctx);
    seqmix_tokenizer_free(a->tokenizer);
    seqmix_free_prompts(&a->prompts);
}

int seqmix_command_run(const seqmix_options *o, seqmix_why why)
{
    app a = {.options = o, .progress = o->verbose || isatty(STDERR_FILENO) != 0, .why = why};
    bool ok = open_model(&a) && open_session(&a);
    if (ok) catch_interrupt();
    ok = ok && generate(&a) && finish_texts(&a) && report(&a);
    close_app(&a);
    return !ok ? SEQMIX_EXIT_FAILED : interrupted != 0 ? SEQMIX_EXIT_INTERRUPTED : 0;
}
