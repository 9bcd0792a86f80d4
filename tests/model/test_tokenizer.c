/* SPDX-License-Identifier: MIT */
/*
 * Tokenizers: every case of tests/golden against the ids and texts of the `tokenizers` package, then what those files do
 * not reach: split behaviours, templates, options of added tokens, streams, long words.
 */
#include "tokenizer.h"

#include <stdio.h>

#include "support.h"
#include "tokenizer_cases.h"

START_TEST(golden_cases)
{
    char why[256] = "";
    seqmix_tokenizer *t = seqmix_tokenizer_open(golden(golden_tokenizers[_i].dir), (seqmix_why){why, sizeof why});
    ck_assert_msg(t != NULL, "%s", why);
    check_golden_cases(t, _i);
    seqmix_tokenizer_free(t);
}
END_TEST

/* ---- small tokenizers made here: the letters a-z, the blank and the digits are tokens by their code ---- */

static seqmix_tokenizer *make(const char *pre_tokenizer, const char *more_vocab, const char *merges, const char *added,
                              const char *rest)
{
    seqmix_bytes text = {0};
    char piece[64];
    static const char start[] = "{\"model\":{\"type\":\"BPE\",\"vocab\":{";
    ck_assert(seqmix_bytes_add(&text, start, strlen(start)));
    for (int c = 33; c < 127; c++) {
        if (c == '"' || c == '\\') continue;
        int n = snprintf(piece, sizeof piece, "\"%c\":%d,", c, c);
        ck_assert(seqmix_bytes_add(&text, piece, (size_t)n));
    }
    ck_assert(seqmix_bytes_add(&text, "\"\xC4\xA0\":32", 7)); /* the blank */
    const char *parts[] = {more_vocab, "},\"merges\":[",       merges,        "]},\"added_tokens\":[",
                           added,      "],\"pre_tokenizer\":", pre_tokenizer, rest,
                           "}"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        ck_assert(seqmix_bytes_add(&text, parts[i], strlen(parts[i])));
    char why[256] = "";
    seqmix_tokenizer *t = seqmix_tokenizer_parse(text.data, text.n, "test", (seqmix_why){why, sizeof why});
    ck_assert_msg(t != NULL, "%s", why);
    free(text.data);
    return t;
}

#define BYTE_LEVEL "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}"

/* Encodes and compares with the ids, written as text. */
static void expect(seqmix_tokenizer *t, const char *text, bool with_template, const char *wanted)
{
    char why[256] = "", got[512];
    seqmix_ids ids = {0};
    ck_assert_msg(seqmix_tokenizer_encode(t, text, strlen(text), with_template, &ids, (seqmix_why){why, sizeof why}),
                  "%s", why);
    print_ids(&ids, got, sizeof got);
    ck_assert_msg(strcmp(got, wanted) == 0, "'%s' gives %s, wanted %s", text, got, wanted);
    free(ids.data);
}

/* Words that are tokens tell where the cuts were: 200 "ab", 201 "a-", 202 "-b", 203 "--", 204 "-". */
static void expect_split(const char *behaviour, const char *invert, const char *text, const char *wanted)
{
    char pre[512];
    (void)snprintf(pre, sizeof pre,
                   "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"String\":\"-\"},"
                   "\"behavior\":\"%s\",\"invert\":%s}," BYTE_LEVEL "]}",
                   behaviour, invert);
    seqmix_tokenizer *t =
        make(pre, ",\"a-\":201,\"-b\":202,\"--\":203,\"ab\":204", "\"a -\",\"- b\",\"- -\",\"a b\"", "", "");
    expect(t, text, false, wanted);
    seqmix_tokenizer_free(t);
}

START_TEST(split_behaviours)
{
    expect_split("Isolated", "false", "a-b", "97 45 98 ");
    expect_split("Removed", "false", "a-b", "97 98 ");
    expect_split("Removed", "true", "a-b", "45 ");
    expect_split("MergedWithPrevious", "false", "a-b", "201 98 ");
    expect_split("MergedWithNext", "false", "a-b", "97 202 ");
    expect_split("Contiguous", "false", "a--b", "97 203 98 ");
    expect_split("Isolated", "false", "a--b", "97 45 45 98 ");
    expect_split("MergedWithPrevious", "false", "a--b", "201 45 98 ");
    expect_split("MergedWithNext", "false", "a--b", "97 45 202 ");
}
END_TEST

START_TEST(digits_and_prefix_space)
{
    seqmix_tokenizer *t =
        make("{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\",\"individual_digits\":false},"
             "{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"use_regex\":true}]}",
             ",\"12\":300,\"\xC4\xA0"
             "1\":301,\"a1\":302",
             "\"1 2\",\"\xC4\xA0 1\",\"a 1\"", "", "");
    expect(t, "a12", false, "32 97 32 300 ");
    expect(t, " a1", false, "32 97 301 ");
    seqmix_tokenizer_free(t);
    t = make("{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\",\"individual_digits\":true}," BYTE_LEVEL
             "]}",
             ",\"12\":300", "\"1 2\"", "", "");
    expect(t, "12", false, "49 50 ");
    seqmix_tokenizer_free(t);
}
END_TEST

START_TEST(added_token_options)
{
    seqmix_tokenizer *t = make(BYTE_LEVEL, "", "",
                               "{\"id\":500,\"content\":\"<s>\",\"special\":true,\"lstrip\":true,\"rstrip\":true},"
                               "{\"id\":501,\"content\":\"<s>x\",\"special\":true},{\"id\":502,\"content\":\"end\","
                               "\"single_word\":true,\"normalized\":false},"
                               "{\"id\":503,\"content\":\"\"}",
                               "");
    expect(t, "a  <s>  b", false, "97 500 98 ");
    expect(t, "<s>x<s>", false, "501 500 ");      /* the longest wins */
    expect(t, "send", false, "115 101 110 100 "); /* inside a word */
    expect(t, "end", false, "502 ");
    expect(t, "(end)", false, "40 502 41 ");
    expect(t, "", false, "");
    seqmix_tokenizer_free(t);
}
END_TEST

START_TEST(template_around_text)
{
    seqmix_tokenizer *t = make(
        BYTE_LEVEL, "", "", "{\"id\":500,\"content\":\"<s>\",\"special\":true}",
        ",\"post_processor\":{\"type\":\"Sequence\",\"processors\":[{\"type\":\"ByteLevel\"},{\"type\":"
        "\"TemplateProcessing\","
        "\"single\":[{\"SpecialToken\":{\"id\":\"<s>\",\"type_id\":0}},{\"Sequence\":{\"id\":\"A\",\"type_id\":0}},"
        "{\"SpecialToken\":{\"id\":\"a\",\"type_id\":0}}],\"special_tokens\":{\"<s>\":{\"id\":\"<s>\",\"ids\":[500]},"
        "\"a\":{\"id\":\"a\",\"ids\":[97,98]}}}]}");
    expect(t, "x", true, "500 120 97 98 ");
    expect(t, "x", false, "120 ");
    ck_assert(seqmix_tokenizer_is_special(t, 500) && !seqmix_tokenizer_is_special(t, 97));
    seqmix_tokenizer_free(t);
}
END_TEST

/* Two no-break spaces: blanks to the pattern, of which the last one leaves the run before a letter. */
START_TEST(blanks_are_unicode)
{
    seqmix_tokenizer *t =
        make("{\"type\":\"ByteLevel\",\"add_prefix_space\":false}",
             ",\"\xC3\x82\":194,\"\xC5\x82\":160,\"\xC3\x82\xC5\x82\":300,\"\xC3\x82\xC5\x82\xC3\x82\xC5\x82\":301",
             "\"\xC3\x82 \xC5\x82\",\"\xC3\x82\xC5\x82 \xC3\x82\xC5\x82\"", "", "");
    expect(t,
           "a\xC2\xA0\xC2\xA0"
           "b",
           false, "97 300 300 98 ");
    expect(t, "a\xC2\xA0\xC2\xA0", false, "97 301 ");
    seqmix_tokenizer_free(t);
}
END_TEST

START_TEST(bytes_without_token_are_dropped)
{
    seqmix_tokenizer *t = make(BYTE_LEVEL, "", "", "", "");
    expect(t, "a\nb", false, "97 98 ");
    seqmix_tokenizer_free(t);
}
END_TEST

/* Merges of a and b in every order of rank; the outcome is the same as merging pair by pair, lowest rank first. */
START_TEST(merge_order)
{
    seqmix_tokenizer *t = make(BYTE_LEVEL, ",\"ab\":200,\"aa\":201,\"abab\":202,\"aab\":203",
                               "\"a b\",\"a a\",\"ab ab\",\"a ab\"", "", "");
    expect(t, "ab", false, "200 ");
    expect(t, "aab", false, "203 ");
    expect(t, "abab", false, "202 ");
    expect(t, "aaab", false, "201 200 ");
    expect(t, "ababab", false, "202 200 ");
    expect(t, "aaaaa", false, "201 201 97 ");
    seqmix_tokenizer_free(t);
}
END_TEST

/* A word of a million letters; quadratic merging would not end within the time limit. */
START_TEST(long_word)
{
    size_t n = 1000000;
    char *text = malloc(n), why[128] = "";
    ck_assert_ptr_nonnull(text);
    memset(text, 'a', n);
    seqmix_tokenizer *t = make(BYTE_LEVEL, ",\"aa\":200,\"aaaa\":201", "[\"a\",\"a\"],[\"aa\",\"aa\"]", "", "");
    seqmix_ids ids = {0};
    ck_assert_msg(seqmix_tokenizer_encode(t, text, n, false, &ids, (seqmix_why){why, sizeof why}), "%s", why);
    ck_assert_uint_eq(ids.n, n / 4);
    free(ids.data);
    free(text);
    seqmix_tokenizer_free(t);
}
END_TEST

START_TEST(text_must_be_utf8)
{
    static const char *const bad[] = {"ab\x80", "ab\xC3", "ab\xED\xA0\x80", "ab\xF5\x80\x80\x80", "ab\xE0\x80\x80"};
    seqmix_tokenizer *t = make(BYTE_LEVEL, "", "", "", "");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char why[128] = "";
        seqmix_ids ids = {0};
        ck_assert(!seqmix_tokenizer_encode(t, bad[i], strlen(bad[i]), false, &ids, (seqmix_why){why, sizeof why}));
        ck_assert_msg(strstr(why, "not UTF-8 at byte 2 of") != NULL, "%s", why);
        free(ids.data);
    }
    seqmix_tokenizer_free(t);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tokenizer");
    TCase *cases = tcase_create("tokenizer");
    tcase_set_timeout(cases, 60);
    tcase_add_loop_test(cases, golden_cases, 0, N_GOLDEN_TOKENIZERS);
    tcase_add_test(cases, split_behaviours);
    tcase_add_test(cases, digits_and_prefix_space);
    tcase_add_test(cases, added_token_options);
    tcase_add_test(cases, template_around_text);
    tcase_add_test(cases, blanks_are_unicode);
    tcase_add_test(cases, bytes_without_token_are_dropped);
    tcase_add_test(cases, merge_order);
    tcase_add_test(cases, long_word);
    tcase_add_test(cases, text_must_be_utf8);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
