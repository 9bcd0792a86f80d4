/* SPDX-License-Identifier: MIT */
/* seqmix-run as its users call it: output, JSON, exit status, messages. */
#define _POSIX_C_SOURCE 200809L

#include <stdio.h>
#include <sys/wait.h>

#include "support.h"

typedef struct outcome {
    int status;
    seqmix_bytes out; /* ends with a NUL */
} outcome;

static const char *model; /* a tiny random one with a tokenizer */

static outcome run(const char *arguments)
{
    char command[2048];
    (void)snprintf(command, sizeof command, "%s %s", SEQMIX_RUN, arguments);
    outcome o = {0};
    char chunk[4096];
    size_t n;
    FILE *pipe = popen(command, "r");
    ck_assert_ptr_nonnull(pipe);
    while ((n = fread(chunk, 1, sizeof chunk, pipe)) > 0)
        ck_assert(seqmix_bytes_add(&o.out, chunk, n));
    ck_assert(seqmix_bytes_add(&o.out, "", 1));
    int status = pclose(pipe);
    o.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return o;
}

static void expect(const char *arguments, int status, const char *part)
{
    outcome o = run(arguments);
    ck_assert_msg(o.status == status && strstr((const char *)o.out.data, part) != NULL,
                  "seqmix-run %s\n  status %d, wanted %d, and '%s' in\n%s", arguments, o.status, status, part,
                  (const char *)o.out.data);
    free(o.out.data);
}

static cJSON *run_json(const char *arguments)
{
    char why[128] = "";
    outcome o = run(arguments);
    ck_assert_msg(o.status == 0, "seqmix-run %s: status %d\n%s", arguments, o.status, (const char *)o.out.data);
    cJSON *tree = seqmix_json_parse(o.out.data, o.out.n - 1, (seqmix_why){why, sizeof why});
    ck_assert_msg(tree != NULL, "%s\n%s", why, (const char *)o.out.data);
    free(o.out.data);
    return tree;
}

static void setup(void)
{
    tiny t = tiny_default;
    t.vocab = 128;
    model = temporary_dir();
    write_tiny(model, &t);
    seqmix_bytes text = {0};
    static const char start[] = "{\"model\":{\"vocab\":{\"\xC4\xA0\":32";
    static const char end[] = "},\"merges\":[]},\"added_tokens\":[{\"id\":0,\"content\":\"<end>\",\"special\":true}],"
                              "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false}}";
    ck_assert(seqmix_bytes_add(&text, start, sizeof start - 1));
    for (int c = 33; c < 127; c++) {
        char piece[32];
        int n = snprintf(piece, sizeof piece, c == '"' || c == '\\' ? ",\"\\%c\":%d" : ",\"%c\":%d", c, c);
        ck_assert(seqmix_bytes_add(&text, piece, (size_t)n));
    }
    ck_assert(seqmix_bytes_add(&text, end, sizeof end - 1));
    write_file(model, "tokenizer.json", text.data, text.n);
    free(text.data);
}

static const char *with_model(const char *format)
{
    static char text[1024];
    (void)snprintf(text, sizeof text, format, model);
    return text;
}

START_TEST(wrong_command_lines)
{
    expect("2>&1", 2, "no MODEL");
    expect("x 2>&1", 2, "exactly one of --prompt, --prompt-file, --tokens and --batch is needed, 0 are given");
    expect("x --prompt a --tokens 1 2>&1", 2, "2 are given");
    expect("x --frob 2>&1", 2, "unknown option '--frob'");
    expect("x y --prompt a 2>&1", 2, "'y' is one argument too many");
    expect("x --prompt 2>&1", 2, "--prompt needs a value");
    expect("x --prompt a -n -1 2>&1", 2, "-n -1: not a whole number in [0, 1000000000]");
    expect("x --prompt a -n 1.5 2>&1", 2, "-n 1.5: not a whole number");
    expect("x --prompt a --prefill-rows 0 2>&1", 2, "--prefill-rows 0: not a whole number in [1, 65536]");
    expect("x --prompt a --top-p 1.5 2>&1", 2, "--top-p 1.5: not a number");
    expect("x --prompt a --temperature nan 2>&1", 2, "--temperature nan: not a number");
    expect("x --prompt a --level fast 2>&1", 2, "--level fast: not one of ref");
    expect("x --tokens 1,,2 2>&1", 2, "is not a token id");
    expect("x --tokens 99999999999 2>&1", 2, "is not a token id");
    expect("tokenize x 2>&1", 2, "tokenize needs one TEXT");
    expect("--help", 0, "usage: seqmix-run MODEL");
}
END_TEST

START_TEST(errors_of_a_run)
{
    expect("/nonexistent --prompt a 2>&1", 1, "seqmix-run: /nonexistent/tokenizer.json: No such file or directory");
    expect("/nonexistent --tokens 1 2>&1", 1, "seqmix-run: /nonexistent/config.json: No such file or directory");
    expect(with_model("%s --tokens 1,128 2>&1"), 1, "seqmix-run: token 1 is 128, not in [0, 128)");
    expect(with_model("%s --prompt '' 2>&1"), 1, "the prompt has no tokens");
    expect(with_model("%s --prompt-file /nonexistent 2>&1"), 1, "/nonexistent: No such file");
    expect(with_model("%s --prompt \"$(printf 'ab\\377')\" 2>&1"), 1, "the text is not UTF-8 at byte 2 of 3");
}
END_TEST

START_TEST(tokenize)
{
    expect(with_model("tokenize %s 'a b<end>'"), 0, "97,32,98,0\n");
    expect(with_model("tokenize %s -- -n"), 0, "45,110\n");
}
END_TEST

static int size_of(const cJSON *tree, const char *key)
{
    return cJSON_GetArraySize(cJSON_GetObjectItem(tree, key));
}

START_TEST(json_object)
{
    cJSON *tree =
        run_json(with_model("%s --prompt 'Hello you' -n 10 --ignore-eos --prefill-rows 4 --json 2>/dev/null"));
    ck_assert_int_eq(size_of(tree, "prompt_tokens"), 9);
    ck_assert_int_eq(size_of(tree, "tokens"), 10);
    ck_assert(cJSON_IsString(cJSON_GetObjectItem(tree, "text")));
    const cJSON *prefill = cJSON_GetObjectItem(tree, "prefill"), *decode = cJSON_GetObjectItem(tree, "decode");
    ck_assert_int_eq(cJSON_GetObjectItem(prefill, "rows")->valueint, 9);
    ck_assert_int_eq(cJSON_GetObjectItem(prefill, "prefill_rows")->valueint, 4);
    ck_assert_int_eq(cJSON_GetObjectItem(decode, "rows")->valueint, 9);
    ck_assert(cJSON_GetObjectItem(prefill, "ms")->valuedouble > 0 &&
              cJSON_GetObjectItem(decode, "rows_per_s")->valuedouble > 0);
    ck_assert(cJSON_GetObjectItem(cJSON_GetObjectItem(tree, "kernels"), "selective_scan_step") != NULL);
    ck_assert_str_eq(cJSON_GetObjectItem(cJSON_GetObjectItem(tree, "model"), "family")->valuestring, "mamba");
    ck_assert(cJSON_IsString(cJSON_GetObjectItem(tree, "level")));
    cJSON_Delete(tree);
}
END_TEST

/* The same text, whether streamed or printed at the end, from a prompt, a file or standard input. */
START_TEST(ways_to_the_same_text)
{
    write_text(model, "prompt.txt", "Hello you");
    cJSON *tree = run_json(with_model("%s --prompt 'Hello you' -n 30 --ignore-eos --json 2>/dev/null"));
    outcome ways[4];
    ways[0] = run(with_model("%s --prompt 'Hello you' -n 30 --ignore-eos 2>/dev/null"));
    ways[1] = run(with_model("%s --prompt 'Hello you' -n 30 --ignore-eos --no-stream --prefill-rows 1 2>/dev/null"));
    ways[2] = run(with_model("%1$s --prompt-file %1$s/prompt.txt -n 30 --ignore-eos --workers 2 2>/dev/null"));
    ways[3] = run(with_model("%1$s --prompt-file - -n 30 --ignore-eos --level ref 2>/dev/null < %1$s/prompt.txt"));
    for (int i = 0; i < 4; i++) {
        const char *text = (const char *)ways[i].out.data;
        size_t n = strlen(text);
        ck_assert_int_eq(ways[i].status, 0);
        ck_assert(n > 1 && text[n - 1] == '\n');
        ck_assert(strncmp(text, cJSON_GetObjectItem(tree, "text")->valuestring, n - 1) == 0);
        free(ways[i].out.data);
    }
    cJSON_Delete(tree);
}
END_TEST

START_TEST(sampling_by_seed)
{
    static const char *const seeds[] = {"1", "1", "2"};
    char *tokens[3];
    for (int i = 0; i < 3; i++) {
        char format[160];
        (void)snprintf(format, sizeof format,
                       "%%s --tokens 5,6,7 -n 40 --temperature 2 --top-k 50 --seed %s --ignore-eos --json 2>/dev/null",
                       seeds[i]);
        cJSON *tree = run_json(with_model(format));
        tokens[i] = cJSON_PrintUnformatted(cJSON_GetObjectItem(tree, "tokens"));
        cJSON_Delete(tree);
    }
    ck_assert_str_eq(tokens[0], tokens[1]);
    ck_assert_str_ne(tokens[0], tokens[2]);
    for (int i = 0; i < 3; i++)
        cJSON_free(tokens[i]);
}
END_TEST

/* The trained model writes what transformers wrote, however its prompt is cut. */
START_TEST(golden_tokens)
{
    static const int widths[] = {1, 7, 64, 512};
    char why[128] = "", arguments[1024];
    seqmix_bytes raw = read_file(golden("mamba-tiny/expected.json"));
    cJSON *expected = seqmix_json_parse(raw.data, raw.n, (seqmix_why){why, sizeof why});
    ck_assert_msg(expected != NULL, "%s", why);
    const cJSON *prompt = cJSON_GetObjectItem(expected, "prompts")->child;
    const char *text = cJSON_GetObjectItem(prompt, "text")->valuestring;
    ck_assert_ptr_null(strchr(text, '\''));
    for (int k = 0; k < COUNT(widths); k++) {
        (void)snprintf(arguments, sizeof arguments,
                       "%s --prompt '%s' -n 64 --ignore-eos --json --prefill-rows %d 2>/dev/null", golden("mamba-tiny"),
                       text, widths[k]);
        cJSON *tree = run_json(arguments);
        const cJSON *got = cJSON_GetObjectItem(tree, "tokens")->child;
        const cJSON *wanted = cJSON_GetObjectItem(prompt, "greedy")->child;
        for (int i = 0; i < 64; i++, got = got->next, wanted = wanted->next)
            ck_assert_msg(got != NULL && got->valueint == wanted->valueint, "prefill rows %d, token %d", widths[k], i);
        ck_assert_ptr_null(got);
        cJSON_Delete(tree);
    }
    cJSON_Delete(expected);
    free(raw.data);
}
END_TEST

/* ---- several prompts, other files, other commands ---- */

static char *tokens_of(const cJSON *answer)
{
    char *text = cJSON_PrintUnformatted(cJSON_GetObjectItem(answer, "tokens"));
    ck_assert_ptr_nonnull(text);
    return text;
}

START_TEST(batch_like_solo)
{
    static const char *const names[] = {"models/nemotron-h", "models/qwen35", "models/gguf/qwen35-tied-mix.gguf"};
    static const char *const prompts[] = {"The LORD is my shepherd; I shall not want.", "a", "In the beginning"};
    char command[1024], file[256], lines[256];
    (void)snprintf(file, sizeof file, "%s", in_dir(temporary_dir(), "batch.txt"));
    (void)snprintf(lines, sizeof lines, "%s\n\n%s\r\n%s", prompts[0], prompts[1], prompts[2]);
    FILE *out = fopen(file, "wb");
    ck_assert(out != NULL && fputs(lines, out) >= 0 && fclose(out) == 0);
    (void)snprintf(command, sizeof command,
                   "%s --batch %s -n 20 --ignore-eos --json --invariant --prefill-rows 7 2>/dev/null",
                   golden(names[_i]), file);
    cJSON *together = run_json(command);
    const cJSON *answer = cJSON_GetObjectItem(together, "answers")->child;
    for (int i = 0; i < 3; i++, answer = answer->next) {
        (void)snprintf(command, sizeof command, "%s --prompt '%s' -n 20 --ignore-eos --json --invariant 2>/dev/null",
                       golden(names[_i]), prompts[i]);
        cJSON *alone = run_json(command);
        ck_assert_ptr_nonnull(answer);
        char *got = tokens_of(answer), *wanted = tokens_of(alone);
        ck_assert_msg(strcmp(got, wanted) == 0, "%s, prompt %d: %s, alone %s", names[_i], i, got, wanted);
        cJSON_free(got);
        cJSON_free(wanted);
        cJSON_Delete(alone);
    }
    ck_assert_ptr_null(answer);
    cJSON_Delete(together);
}
END_TEST

static const char *with_golden(const char *format, const char *name)
{
    static char text[1024];
    (void)snprintf(text, sizeof text, format, golden(name));
    return text;
}

START_TEST(other_commands)
{
    expect(with_golden("info %s --json", "models/qwen35"), 0, "\"family\":\t\"qwen3_5\"");
    expect(with_golden("info %s", "models/gguf/nemotron-h-moe-mix.gguf"), 0, "IQ4_NL");
    expect("info /nonexistent 2>&1", 1, "/nonexistent/config.json: No such file");
    expect(with_golden("parity %s", "models/mamba2"), 0, "96/96 tokens");
    expect(with_model("parity %s 2>&1"), 1, "no expected.json below it");
    expect(with_model("info %s --prompt a 2>&1"), 2, "no prompt is needed, 1 are given");
    expect(with_golden("%s --bench --json -n 2", "models/mamba2"), 0, "read_peak_gb_per_s");
    expect(with_golden("%s --prompt 'a b c' --context 2 2>&1", "models/qwen35"), 1, "do not fit into a context of 2");
    expect(with_golden("%s --prompt 'a b' --context 9 -n 99 --ignore-eos --json 2>&1", "models/qwen35"), 0,
           "\"finish\":\"context\"");
    expect(with_golden("%s --prompt a --chat 2>&1", "models/mamba2"), 1, "no chat format is known");
    expect(with_golden("%s --prompt a --chat -n 3", "models/qwen35"), 0, "\n");
    expect(with_golden("%s --tokens 1 --chat 2>&1", "models/qwen35"), 2, "--chat needs a text");
    expect(with_golden("%s --tokens 5,6 -n 3 --profile 2>&1", "models/qwen35-moe"), 0, "moe_experts");
    expect(with_golden("%s --batch /dev/null 2>&1", "models/mamba2"), 1, "/dev/null: not a regular file");
}
END_TEST

START_TEST(quantize_command)
{
    char out[256], arguments[1024];
    (void)snprintf(out, sizeof out, "%s", in_dir(temporary_dir(), "a.gguf"));
    (void)snprintf(arguments, sizeof arguments, "--quantize Q8_0 %s %s --workers 2 2>&1", golden("models/qwen35"), out);
    expect(arguments, 0, "a.gguf: tokenizer.json is inside");
    (void)snprintf(arguments, sizeof arguments, "%s --prompt 'In the beginning' -n 3 --json 2>/dev/null", out);
    expect(arguments, 0, "\"dtype\":\"Q8_0\"");
    expect("--quantize Q8_0 x 2>&1", 2, "--quantize needs MODEL and OUT.gguf");
    (void)snprintf(arguments, sizeof arguments, "--quantize Q8_0 /nonexistent %s 2>&1", out);
    expect(arguments, 1, "seqmix-run: /nonexistent/config.json: No such file");
}
END_TEST

/* Without -n's end, only the stop token or a signal ends a run. */
START_TEST(interrupt)
{
    outcome o = run(with_model("%s --prompt 'Hello you' -n 1000000000 --ignore-eos --json 2>/dev/null & "
                               "sleep 1; kill -INT $!; wait $!"));
    ck_assert_int_eq(o.status, 130);
    ck_assert_msg(strstr((const char *)o.out.data, "\"finish\":\"interrupted\"") != NULL, "%.400s",
                  (const char *)o.out.data);
    free(o.out.data);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("command line");
    TCase *cases = tcase_create("command line");
    tcase_set_timeout(cases, 120);
    tcase_add_checked_fixture(cases, setup, NULL);
    tcase_add_test(cases, wrong_command_lines);
    tcase_add_test(cases, errors_of_a_run);
    tcase_add_test(cases, tokenize);
    tcase_add_test(cases, json_object);
    tcase_add_test(cases, ways_to_the_same_text);
    tcase_add_test(cases, sampling_by_seed);
    tcase_add_test(cases, golden_tokens);
    tcase_add_loop_test(cases, batch_like_solo, 0, 3);
    tcase_add_test(cases, other_commands);
    tcase_add_test(cases, quantize_command);
    tcase_add_test(cases, interrupt);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
