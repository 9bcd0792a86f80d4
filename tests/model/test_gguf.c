/* SPDX-License-Identifier: MIT */
/*
 * GGUF: what the gguf package wrote is read back, every block-quantised type widens bit for bit as that package widens it, and
 * each hostile file ends in a sentence that names the thing, and in nothing else.
 */
#include <inttypes.h>

#include "gguf.h"
#include "support.h"

/* ---------------------------------------------------------------- files in a line of text */

/*
 * Words, separated by blanks: 1:N 4:N 8:N a number of so many bytes; s:WORD a string with its length; z:N zeros; @N zeros up
 * to a multiple of N; anything else its own bytes.
 */
static seqmix_bytes assemble(const char *text)
{
    seqmix_bytes out = {0};
    const unsigned char zero = 0;
    while (*text != '\0') {
        const size_t n = strcspn(text, " ");
        const uint64_t number = n > 1 ? strtoull(text + (text[0] == '@' ? 1 : 2), NULL, 10) : 0;
        if (text[0] == '@') {
            while (out.n % number != 0)
                seqmix_bytes_add(&out, &zero, 1);
        } else if (n > 1 && text[1] == ':' && text[0] == 's') {
            for (int i = 0; i < 8; i++)
                seqmix_bytes_add(&out, &(unsigned char){(unsigned char)((uint64_t)(n - 2) >> 8 * i)}, 1);
            seqmix_bytes_add(&out, text + 2, n - 2);
        } else if (n > 1 && text[1] == ':' && text[0] == 'z') {
            for (uint64_t i = 0; i < number; i++)
                seqmix_bytes_add(&out, &zero, 1);
        } else if (n > 1 && text[1] == ':') {
            for (int i = 0; i < text[0] - '0'; i++)
                seqmix_bytes_add(&out, &(unsigned char){(unsigned char)(number >> 8 * i)}, 1);
        } else {
            seqmix_bytes_add(&out, text, n);
        }
        text += n;
        while (*text == ' ')
            text++;
    }
    return out;
}

static bool parse_exact(const seqmix_bytes *file, size_t size, char why[256])
{
    seqmix_gguf g;
    unsigned char *exact = malloc(size + 1); /* of its size, so that the sanitizer sees a stray read */
    if (size > 0) memcpy(exact, file->data, size);
    unsigned char *fit = realloc(exact, size > 0 ? size : 1);
    why[0] = '\0';
    const bool ok = seqmix_gguf_parse(fit, size, "test", &g, (seqmix_why){why, 256});
    if (!ok) ck_assert(g.tensors == NULL && g.values == NULL && g.names == NULL);
    if (ok) seqmix_gguf_close(&g);
    free(fit);
    return ok;
}

/* ---------------------------------------------------------------- hostile files */

#define ONE_TENSOR   "GGUF 4:3 8:1 8:0 "
#define ONE_VALUE    "GGUF 4:3 8:0 8:1 "
#define MANY         "18446744073709551615"
#define HALF         "9223372036854775808"
#define SHAPE(sizes) ONE_TENSOR "s:w " sizes " @32 z:64"

static const struct {
    const char *text, *wanted;
} files[] = {
    {"GGUF 4:3 8:0 8:0", NULL},
    {"GGUF 4:2 8:0 8:0 z:100", NULL},
    {SHAPE("4:1 8:16 4:0 8:0"), NULL},
    {SHAPE("4:4 8:2 8:2 8:2 8:2 4:0 8:0"), NULL},
    {SHAPE("4:1 8:32 4:8 8:0"), NULL},
    {"GGUF 4:3 8:2 8:0 s:a 4:1 8:8 4:0 8:0 s:b 4:1 8:8 4:0 8:0 @32 z:32", NULL}, /* they share their bytes */
    {"GGUF 4:3 8:1 8:1 s:general.alignment 4:4 4:64 s:w 4:1 8:8 4:0 8:64 @64 z:96", NULL},
    {ONE_VALUE "s:k 4:9 4:9 8:2 4:8 8:1 s:x 4:0 8:3 z:3", NULL},
    {"", "0 bytes is too short"},
    {"GGUF 4:3 8:0", "16 bytes is too short"},
    {"GGUT 4:3 8:0 8:0", "not a GGUF file"},
    {"GGUF 4:1 8:0 8:0", "version 1, must be 2 or 3"},
    {"GGUF 4:4 8:0 8:0", "version 4, must be 2 or 3"},
    {"GGUF 4:50331648 8:0 8:0", "big-endian"},
    {"GGUF 4:3 8:" MANY " 8:0", "do not fit into 24 bytes"},
    {"GGUF 4:3 8:0 8:" MANY, "do not fit into 24 bytes"},
    {"GGUF 4:3 8:3 8:2 z:100", "2 values and 3 tensors do not fit into 124 bytes"},
    {ONE_VALUE "8:0 4:4 4:1 z:9", "a key at byte 24 has 0 bytes, must be 1 to 255"},
    {ONE_VALUE "8:" MANY " z:9", "a key at byte 24 has " MANY " bytes"},
    {ONE_VALUE "8:256 z:300", "a key at byte 24 has 256 bytes"},
    {ONE_VALUE "8:200 z:9", "the file ends at byte 41, inside a key"},
    {ONE_VALUE "8:2 a 1:10 4:4 4:1 z:9", "a key at byte 24 holds a control character"},
    {ONE_VALUE "8:2 a 1:0 4:4 4:1 z:9", "a key at byte 24 holds a control character"},
    {ONE_VALUE "s:k 4:13 z:9", "value 'k' has type 13, which is no type"},
    {ONE_VALUE "s:k 4:4294967295 z:9", "which is no type"},
    {ONE_VALUE "s:key 4:4 1:0 1:0 1:0", "value 'key' claims 1 elements, 3 bytes are left"},
    {ONE_VALUE "s:k 4:7 1:2 z:9", "value 'k' holds a bool of 2"},
    {ONE_VALUE "s:k 4:8 8:" MANY " z:9", "value 'k' holds a string of " MANY " bytes, 9 are left"},
    {ONE_VALUE "s:k 4:9 4:13 8:0 z:9", "value 'k' has type 13, which is no type"},
    {ONE_VALUE "s:k 4:9 4:4 8:" MANY " z:9", "value 'k' claims " MANY " elements, 9 bytes are left"},
    {ONE_VALUE "s:k 4:9 4:8 8:3 s:a z:7", "claims 3 elements, 16 bytes are left"},
    {ONE_VALUE "s:k 4:9 4:8 8:2 s:abcdefgh z:3", "the file ends at byte 68, inside k at byte 65"},
    {ONE_VALUE "s:k 4:9 4:9 8:1 4:9 8:1 4:9 8:1 4:9 8:1 4:0 8:0", "nests arrays more than 4 deep"},
    {ONE_VALUE "s:k 4:9 4:9 8:" HALF " z:12", "claims " HALF " elements, 12 bytes are left"},
    {"GGUF 4:3 8:0 8:2 s:k 4:0 1:1 s:k 4:0 1:2", "value 'k' occurs twice"},
    {"GGUF 4:3 8:1 8:1 s:general.alignment 4:4 4:0 s:w 4:1 8:8 4:0 8:0 @32 z:32",
     "general.alignment is no power of two"},
    {"GGUF 4:3 8:0 8:1 s:general.alignment 4:4 4:48", "general.alignment is no power of two from 8 to"},
    {"GGUF 4:3 8:0 8:1 s:general.alignment 4:4 4:1", "general.alignment is no power of two from 8 to"},
    {"GGUF 4:3 8:0 8:1 s:general.alignment 4:4 4:2147483648", "general.alignment is no power of two from 8 to"},
    {"GGUF 4:3 8:0 8:1 s:general.alignment 4:8 s:32", "general.alignment is no power of two from 8 to"},
    {SHAPE("4:0 4:0 8:0"), "tensor 'w' has 0 axes, must be 1 to 4"},
    {SHAPE("4:5 8:1 8:1 8:1 8:1 8:1 4:0 8:0"), "tensor 'w' has 5 axes, must be 1 to 4"},
    {SHAPE("4:4294967295 4:0 8:0"), "has 4294967295 axes"},
    {SHAPE("4:2 8:4 8:0 4:0 8:0"), "tensor 'w' shape[0] is 0"},
    {SHAPE("4:2 8:0 8:4 4:0 8:0"), "tensor 'w' shape[1] is 0"},
    {SHAPE("4:1 8:" HALF " 4:0 8:0"), "tensor 'w' shape[0] is " HALF},
    {SHAPE("4:2 8:4294967296 8:4294967296 4:0 8:0"), "size overflows"},
    {SHAPE("4:4 8:65536 8:65536 8:65536 8:65536 4:24 8:0"), "size overflows"},
    {SHAPE("4:2 8:4611686018427387904 8:1 4:0 8:0"), "size overflows"},
    {SHAPE("4:2 8:9223372036854775552 8:1 4:16 8:0"), "takes 2377900603251621822 bytes"},
    {SHAPE("4:2 8:256 8:36028797018963968 4:18 8:0"), "size overflows"},
    {SHAPE("4:1 8:16 4:4 8:0"), "tensor 'w' has type 4, which is no type known here"},
    {SHAPE("4:1 8:16 4:4294967295 8:0"), "which is no type known here"},
    {SHAPE("4:1 8:16 4:8 8:0"), "tensor 'w' has rows of 16, no multiple of the 32 elements of a Q8_0 block"},
    {SHAPE("4:2 8:255 8:256 4:12 8:0"), "tensor 'w' has rows of 255, no multiple of the 256 elements of a Q4_K block"},
    {SHAPE("4:1 8:17 4:0 8:0"), "tensor 'w' takes 68 bytes from offset 0, the file has 64 bytes of data"},
    {SHAPE("4:1 8:9 4:0 8:32"), "tensor 'w' takes 36 bytes from offset 32, the file has 64 bytes"},
    {SHAPE("4:1 8:1 4:0 8:96"), "from offset 96, the file has 64 bytes of data"},
    {SHAPE("4:1 8:1 4:0 8:18446744073709551584"), "from offset 18446744073709551584"},
    {SHAPE("4:1 8:1 4:0 8:4"), "tensor 'w' is at offset 4, no multiple of the alignment 32"},
    {ONE_TENSOR "s:w 4:1 8:1 4:0 8:0", "from offset 0, the file has 0 bytes of data"},
    {ONE_TENSOR "8:2 a 1:127 4:1 8:1 4:0 8:0 @32 z:32", "a tensor's name at byte 24 holds a control character"},
    {"GGUF 4:3 8:2 8:0 s:a 4:1 8:8 4:0 8:0 s:a 4:1 8:8 4:0 8:0 @32 z:32", "tensor 'a' occurs twice"},
};

START_TEST(test_hostile)
{
    for (int i = 0; i < COUNT(files); i++) {
        char why[256];
        seqmix_bytes file = assemble(files[i].text);
        const bool ok = parse_exact(&file, file.n, why);
        judge(ok, why, files[i].wanted, files[i].text);
        free(file.data);
    }
}
END_TEST

/* No prefix of a good file is a good file, as its last tensor ends with it. */
START_TEST(test_truncated)
{
    seqmix_bytes file = read_file(golden("blocks/blocks.gguf"));
    char why[256];
    ck_assert(parse_exact(&file, file.n, why));
    for (size_t size = 0; size < file.n; size += size < 3000 ? 1 : 977)
        ck_assert_msg(!parse_exact(&file, size, why) && why[0] != '\0', "%zu bytes of %zu pass", size, file.n);
    free(file.data);
}
END_TEST

/* ---------------------------------------------------------------- a file of the gguf package */

static seqmix_gguf open_blocks(void)
{
    seqmix_gguf g;
    char why[256];
    ck_assert_msg(seqmix_gguf_open(golden("blocks/blocks.gguf"), &g, (seqmix_why){why, sizeof why}), "%s", why);
    return g;
}

START_TEST(test_metadata)
{
    static const struct {
        const char *key;
        int64_t value;
    } whole[] = {{"test.u8", 200},         {"test.i8", -100},
                 {"test.u16", 60000},      {"test.i16", -30000},
                 {"test.u32", 4000000000}, {"test.i32", -2000000000},
                 {"test.u64", INT64_MAX},  {"test.i64", -4611686018427387904}};
    seqmix_gguf g = open_blocks();
    char why[256];
    const seqmix_why to = {why, sizeof why};
    int64_t n = 0, ints[3];
    double number = 0;
    bool flag = false, flags[2];
    seqmix_gguf_text text;
    ck_assert_int_eq(g.version, 3);
    for (int i = 0; i < COUNT(whole); i++) {
        ck_assert_msg(seqmix_gguf_int(&g, whole[i].key, INT64_MIN, INT64_MAX, &n, to), "%s", why);
        ck_assert_int_eq(n, whole[i].value);
    }
    ck_assert(seqmix_gguf_number(&g, "test.f32", &number, to) && number == 0.25);
    ck_assert(seqmix_gguf_number(&g, "test.f64", &number, to) && number == 1e300);
    ck_assert(seqmix_gguf_number(&g, "test.i8", &number, to) && number == -100.0);
    ck_assert(seqmix_gguf_bool(&g, "test.bool", &flag, to) && flag);
    ck_assert(seqmix_gguf_string(&g, "test.string", &text, to) && seqmix_gguf_text_is(text, "na\xc3\xafve"));
    ck_assert(seqmix_gguf_ints(&g, "test.ints", 3, -1, 3, ints, to));
    ck_assert(ints[0] == 3 && ints[1] == -1 && ints[2] == 2);
    ck_assert(seqmix_gguf_ints(&g, "test.u8", 2, 0, 255, ints, to) && ints[0] == 200 && ints[1] == 200);
    ck_assert(seqmix_gguf_bools(&g, "test.bools", 2, flags, to) && flags[0] && !flags[1]);

    ck_assert(!seqmix_gguf_int(&g, "test.none", 0, 9, &n, to));
    ck_assert_str_eq(why, "test.none is missing");
    ck_assert(!seqmix_gguf_int(&g, "test.f32", 0, 9, &n, to));
    ck_assert_str_eq(why, "test.f32 is no integer");
    ck_assert(!seqmix_gguf_int(&g, "test.ints", 0, 9, &n, to));
    ck_assert_str_eq(why, "test.ints is no integer");
    ck_assert(!seqmix_gguf_int(&g, "test.u8", 0, 199, &n, to));
    ck_assert_str_eq(why, "test.u8=200 is not in [0, 199]");
    ck_assert(!seqmix_gguf_ints(&g, "test.ints", 2, -9, 9, ints, to));
    ck_assert_str_eq(why, "test.ints has 3 elements, must have 2");
    ck_assert(!seqmix_gguf_ints(&g, "test.ints", 3, 0, 9, ints, to));
    ck_assert_str_eq(why, "test.ints=-1 is not in [0, 9]");
    ck_assert(!seqmix_gguf_string(&g, "test.bool", &text, to));
    ck_assert_str_eq(why, "test.bool is no string");
    seqmix_gguf_close(&g);
}
END_TEST

START_TEST(test_arrays)
{
    static const char *const words[] = {"a", "", "bcd"};
    seqmix_gguf g = open_blocks();
    char why[256];
    const seqmix_why to = {why, sizeof why};
    const seqmix_gguf_value *v;
    seqmix_gguf_text text;
    size_t at = 0;
    ck_assert(seqmix_gguf_array(&g, "test.strings", SEQMIX_GGUF_STRING, &v, to) && v->n == 3);
    for (int i = 0; i < 3; i++)
        ck_assert(seqmix_gguf_next_string(v, &at, &text) && seqmix_gguf_text_is(text, words[i]));
    ck_assert(!seqmix_gguf_next_string(v, &at, &text));
    ck_assert(seqmix_gguf_array(&g, "test.floats", SEQMIX_GGUF_F32, &v, to) && v->n == 2);
    ck_assert(seqmix_gguf_number_at(v, 0) == 0.5 && seqmix_gguf_number_at(v, 1) == -2.0);
    ck_assert(seqmix_gguf_array(&g, "test.ints", SEQMIX_GGUF_I32, &v, to) && seqmix_gguf_int_at(v, 1) == -1);
    ck_assert(!seqmix_gguf_array(&g, "test.ints", SEQMIX_GGUF_STRING, &v, to) && v == NULL);
    ck_assert_str_eq(why, "test.ints is no array of strings");
    ck_assert(!seqmix_gguf_array(&g, "test.u8", SEQMIX_GGUF_I32, &v, to));
    seqmix_gguf_close(&g);
}
END_TEST

/* ---------------------------------------------------------------- what blocks stand for */

START_TEST(test_widening)
{
    enum { ROWS = 3, COLUMNS = 1024 };
    static const char *const names[] = {"q8_0", "q4_0", "q5_0", "q5_1", "iq4_nl", "q4_k", "q5_k", "q6_k"};
    static float got[ROWS * COLUMNS];
    seqmix_gguf g = open_blocks();
    seqmix_ctx *ctx;
    const seqmix_ctx_desc desc = {.struct_size = sizeof desc};
    ck_assert_int_eq(seqmix_ctx_create(seqmix_get_api(SEQMIX_ABI_VERSION), &desc, &ctx, NULL, 0), SEQMIX_OK);
    for (int i = 0; i < COUNT(names); i++) {
        char wide_name[16];
        (void)snprintf(wide_name, sizeof wide_name, "%s.wide", names[i]);
        const seqmix_gguf_tensor *t = seqmix_gguf_find(&g, names[i]), *wide = seqmix_gguf_find(&g, wide_name);
        ck_assert(t != NULL && wide != NULL && t->rank == 2 && t->shape[0] == ROWS && t->shape[1] == COLUMNS);
        ck_assert(t->dtype != 0 && seqmix_gguf_dtype_type(t->dtype) == t->type);
        const int32_t tokens[ROWS] = {0, 1, 2};
        const seqmix_embed_args args = {
            .struct_size = sizeof args,
            .n_tokens = ROWS,
            .tokens = tokens,
            .table = {(void *)(uintptr_t)t->data, t->dtype, 2, {ROWS, COLUMNS}, {COLUMNS, 1}},
            .y = {got, SEQMIX_F32, 2, {ROWS, COLUMNS}, {COLUMNS, 1}}};
        ck_assert_msg(seqmix_embed_rows(ctx, &args, NULL, 0) == SEQMIX_OK, "%s", seqmix_last_error(ctx));
        ck_assert_msg(memcmp(got, wide->data, sizeof got) == 0, "%s differs", names[i]);
    }
    seqmix_ctx_destroy(ctx);
    seqmix_gguf_close(&g);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("gguf");
    TCase *tests = tcase_create("gguf");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, test_hostile);
    tcase_add_test(tests, test_truncated);
    tcase_add_test(tests, test_metadata);
    tcase_add_test(tests, test_arrays);
    tcase_add_test(tests, test_widening);
    suite_add_tcase(suite, tests);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
