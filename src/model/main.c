/* SPDX-License-Identifier: MIT */
/* seqmix-run (see options.c for its command line): which command, and its exit status. */
#include <stdio.h>

#include "commands.h"
#include "prompt.h"
#include "quantize.h"

static int run_tokenize(const seqmix_options *o, seqmix_why why)
{
    seqmix_tokenizer *t;
    seqmix_prompts prompts = {0};
    bool ok = seqmix_open_tokenizer(o->model_dir, false, &t, why) && seqmix_read_prompts(o, t, "", &prompts, why);
    for (size_t i = 0; ok && i < prompts.prompts[0].n; i++)
        (void)printf(i > 0 ? ",%d" : "%d", prompts.prompts[0].data[i]);
    if (ok) (void)fputc('\n', stdout);
    seqmix_free_prompts(&prompts);
    seqmix_tokenizer_free(t);
    return ok ? 0 : SEQMIX_EXIT_FAILED;
}

static int run_quantize(const seqmix_options *o, seqmix_why why)
{
    seqmix_quantized done = {0};
    if (!seqmix_quantize_file(o->quantize, o->model_dir, o->output, o->workers, &done, why)) return SEQMIX_EXIT_FAILED;
    (void)fprintf(
        stderr,
        "%s: %lld tensors, %lld of another type than before (%lld whose rows %s does not divide), %.1f MiB, was %.1f\n",
        o->output, (long long)done.tensors, (long long)done.changed, (long long)done.fallbacks, o->quantize,
        (double)done.bytes_after / 1048576.0, (double)done.bytes_before / 1048576.0);
    if (done.note[0] != '\0') (void)fprintf(stderr, "%s: %s\n", o->output, done.note);
    return 0;
}

static int run_command(const seqmix_options *o, seqmix_why why)
{
    if (o->quantize != NULL) return run_quantize(o, why);
    switch (o->command) {
    case SEQMIX_COMMAND_TOKENIZE:
        return run_tokenize(o, why);
    case SEQMIX_COMMAND_INFO:
        return seqmix_command_info(o, why);
    case SEQMIX_COMMAND_PARITY:
        return seqmix_command_parity(o, why);
    default:
        return o->bench ? seqmix_command_bench(o, why) : seqmix_command_run(o, why);
    }
}

int main(int argc, char **argv)
{
    char text[512] = "";
    seqmix_why why = {text, sizeof text};
    seqmix_options options;
    int code = 0;
    if (!seqmix_options_parse(argc, argv, &options, why)) {
        (void)fprintf(stderr, "seqmix-run: %s\ntry seqmix-run --help\n", text);
        code = SEQMIX_EXIT_USAGE;
    } else if (options.help) {
        (void)fputs(seqmix_usage, stdout);
    } else {
        code = run_command(&options, why);
        if (code == SEQMIX_EXIT_FAILED) (void)fprintf(stderr, "seqmix-run: %s\n", text);
    }
    seqmix_options_free(&options);
    return code;
}
