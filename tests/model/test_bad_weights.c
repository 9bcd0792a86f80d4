/* SPDX-License-Identifier: MIT */
/*
 * Bad input, files of weights: each hostile file ends in a sentence that names the thing, and in nothing else (the sanitizer
 * build tells of leaks and stray reads). Every table also holds files that must pass, so that a reader that refuses all is
 * caught.
 */
#include "support.h"

/* ---- safetensors: a header and so many bytes of data ---- */

#define X(rest) "{\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":" rest

static const struct {
    const char *header;
    size_t data;
    const char *wanted;
} headers[] = {
    {"{}      ", 0, NULL},
    {X("[0,8]}}  "), 8, NULL},
    {"{\"__metadata__\":{\"a\":\"b\"},\"x\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}", 1, NULL},
    {"{\"e\":{\"dtype\":\"U8\",\"shape\":[0,7],\"data_offsets\":[0,0]},\"x\":{\"dtype\":\"U8\",\"shape\":[1],\"data_"
     "offsets\":[0,1]}}",
     1, NULL},
    {X("[0,8]}}  "), 7, "tensor 'x' ends at byte 8 of 7"},
    {X("[0,8]}}  "), 9, "the tensors end at byte 8, the data at 9"},
    {X("[8,16]}} "), 16, "bytes 0 to 8 before tensor 'x' belong to no tensor"},
    {X("[8,0]}}"), 16, "ends at byte 0, before its begin 8"},
    {X("[-8,0]}}"), 8, "data_offsets are not two whole numbers"},
    {X("[0]}}"), 8, "data_offsets are not two whole numbers"},
    {X("[0,8,8]}}"), 8, "data_offsets are not two whole numbers"},
    {X("[0,8.5]}}"), 8, "data_offsets are not two whole numbers"},
    {X("[0,1e300]}}"), 8, "data_offsets are not two whole numbers"},
    {X("[0,1e999]}}"), 8, "data_offsets are not two whole numbers"},
    {X("[0,18446744073709551616]}}"), 8, "data_offsets are not two whole numbers"},
    {X("[0,9007199254740992]}}"), 8, "ends at byte 9007199254740992 of 8"},
    {X("\"0,8\"}}"), 8, "data_offsets are not two whole numbers"},
    {"{\"x\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8, "data_offsets are not two whole numbers"},
    {"{\"x\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]}}", 8,
     "holds 8 bytes, but its shape and dtype F32 make 12"},
    {"{\"x\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8,
     "holds 8 bytes, but its shape and dtype F64 make 16"},
    {"{\"x\":{\"dtype\":\"F31\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "tensor 'x' has unknown dtype 'F31'"},
    {"{\"x\":{\"dtype\":1,\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "tensor 'x' has no dtype"},
    {"{\"x\":{\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "tensor 'x' has no dtype"},
    {"{\"x\":{\"dtype\":\"F32\",\"data_offsets\":[0,8]}}", 8, "tensor 'x' has no shape array"},
    {"{\"x\":{\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]}}", 8, "shape[0] is not a whole number"},
    {"{\"x\":{\"dtype\":\"F32\",\"shape\":[1,1e17],\"data_offsets\":[0,8]}}", 8, "shape[1] is not a whole number"},
    {"{\"x\":{\"dtype\":\"F32\",\"shape\":[\"2\"],\"data_offsets\":[0,8]}}", 8, "shape[0] is not a whole number"},
    {"{\"x\":{\"dtype\":\"F32\",\"shape\":[4503599627370496,4503599627370496],\"data_offsets\":[0,8]}}", 8,
     "size overflows"},
    {"{\"x\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,2],\"data_offsets\":[0,8]}}", 8, "more than 8 axes"},
    {"{\"x\":[1]}", 0, "tensor 'x' is not a JSON object"},
    {"{\"x\":null}", 0, "tensor 'x' is not a JSON object"},
    {"[]", 0, "does not begin with '{'"},
    {" {}", 0, "does not begin with '{'"},
    {"", 0, "does not begin with '{'"},
    {"{", 0, "not valid JSON near byte"},
    {"{\"x\":1,", 0, "not valid JSON near byte"},
    {"{}x", 0, "not valid JSON near byte 2"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_"
     "offsets\":[2,6]}}",
     6, "tensor 'b' begins at byte 2 and overlaps 'a', which ends at 4"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_"
     "offsets\":[2,4]}}",
     4, "tensor 'a' occurs twice"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_"
     "offsets\":[1,5]}}",
     5, "not a multiple of its element size 4"},
    {"{\"__metadata__\":{\"a\":1}}", 0, "__metadata__ 'a' is not a string"},
    {"{\"__metadata__\":[]}", 0, "__metadata__ is not an object"},
    {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "__metadata__ occurs twice"},
    {"{\"__metadata__\":{}}", 5, "5 bytes of data, but no tensor"},
};

START_TEST(safetensors_headers)
{
    char why[512] = "";
    seqmix_safetensors st;
    seqmix_bytes file = st_raw(headers[_i].header, headers[_i].data);
    bool ok = seqmix_st_parse(file.data, file.n, "file", &st, (seqmix_why){why, sizeof why});
    judge(ok, why, headers[_i].wanted, headers[_i].header);
    ck_assert(ok || (st.n_tensors == 0 && st.tensors == NULL && st.parts == NULL));
    seqmix_st_close(&st);
    free(file.data);
}
END_TEST

START_TEST(safetensors_lengths)
{
    static const struct {
        size_t size;
        uint64_t length;
        const char *wanted;
    } cases[] = {{0, 0, "0 bytes is too short"},
                 {7, 0, "7 bytes is too short"},
                 {8, 0, "does not begin with '{'"},
                 {16, 9, "header of 9 bytes in a file of 16"},
                 {16, UINT64_MAX, "header of 18446744073709551615 bytes in a file of 16"},
                 {16, UINT64_MAX - 7, "in a file of 16"},
                 {16, 100000001, "header of 100000001 bytes"}};
    for (int i = 0; i < COUNT(cases); i++) {
        char why[256] = "";
        unsigned char *bytes = aligned_alloc(8, 24);
        ck_assert_ptr_nonnull(bytes);
        memset(bytes, ' ', 24);
        for (int k = 0; k < 8; k++)
            bytes[k] = (unsigned char)(cases[i].length >> (8 * k));
        seqmix_safetensors st;
        judge(seqmix_st_parse(bytes, cases[i].size, "file", &st, (seqmix_why){why, sizeof why}), why, cases[i].wanted,
              "");
        free(bytes);
    }
}
END_TEST

/* A header nested deeper than any parser should follow. */
START_TEST(safetensors_nesting)
{
    seqmix_bytes text = {0};
    char why[256] = "";
    seqmix_safetensors st;
    ck_assert(seqmix_bytes_add(&text, "{\"x\":", 5));
    for (int i = 0; i < 200000; i++)
        ck_assert(seqmix_bytes_add(&text, "[", 1));
    ck_assert(seqmix_bytes_add(&text, "", 1));
    seqmix_bytes file = st_raw((const char *)text.data, 0);
    judge(seqmix_st_parse(file.data, file.n, "file", &st, (seqmix_why){why, sizeof why}), why, "not valid JSON", "");
    free(text.data);
    free(file.data);
}
END_TEST

/* Every prefix of a good file is refused. */
START_TEST(safetensors_truncated)
{
    st_builder b = {0};
    const int64_t shape[2] = {2, 3};
    const float data[6] = {0};
    st_add(&b, "a", "F32", 2, shape, data, sizeof data);
    st_add(&b, "b", "F16", 2, shape, data, 12);
    seqmix_bytes file = st_finish(&b);
    for (size_t n = 0; n <= file.n; n++) {
        char why[256] = "";
        seqmix_safetensors st;
        unsigned char *part = aligned_alloc(8, (n + 8) / 8 * 8);
        ck_assert_ptr_nonnull(part);
        memcpy(part, file.data, n);
        bool ok = seqmix_st_parse(part, n, "file", &st, (seqmix_why){why, sizeof why});
        ck_assert_msg(ok == (n == file.n) && (ok || why[0] != '\0'), "%zu of %zu bytes: %s", n, file.n, why);
        seqmix_st_close(&st);
        free(part);
    }
    free(file.data);
}
END_TEST

/* ---- shards ---- */

#define ONE(name) "{\"" name "\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}"

static const struct {
    const char *index, *wanted;
} indexes[] = {
    {"{\"weight_map\":{\"a\":\"m1.safetensors\",\"b\":\"m2.safetensors\"}}", NULL},
    {"{\"weight_map\":{\"a\":\"m1.safetensors\",\"c\":\"m2.safetensors\"}}", "tensor 'c' is not in m2.safetensors"},
    {"{\"weight_map\":{\"a\":\"m1.safetensors\",\"b\":\"m3.safetensors\"}}", "No such file"},
    {"{\"weight_map\":{\"a\":\"m1.safetensors\",\"b\":\"m4.safetensors\"}}", "tensor 'a' occurs twice"},
    {"{\"weight_map\":{\"a\":\"m5.safetensors\"}}", "m5.safetensors: tensor 'a' ends at byte 1 of 0"},
    {"{\"weight_map\":{\"a\":\"../m1.safetensors\"}}", "not a plain .safetensors file name"},
    {"{\"weight_map\":{\"a\":\"/tmp/m1.safetensors\"}}", "not a plain .safetensors file name"},
    {"{\"weight_map\":{\"a\":\"sub/m1.safetensors\"}}", "not a plain .safetensors file name"},
    {"{\"weight_map\":{\"a\":\"/etc/passwd\"}}", "not a plain .safetensors file name"},
    {"{\"weight_map\":{\"a\":\".safetensors\"}}", "not a plain .safetensors file name"},
    {"{\"weight_map\":{\"a\":\"m1.bin\"}}", "not a plain .safetensors file name"},
    {"{\"weight_map\":{\"a\":1}}", "weight_map 'a' is not a file name"},
    {"{\"weight_map\":{}}", "weight_map is not an object with entries"},
    {"{\"weight_map\":[]}", "weight_map is not an object with entries"},
    {"{}", "weight_map is not an object with entries"},
    {"[]", "weight_map is not an object with entries"},
    {"{", "not valid JSON"},
    {"", "empty JSON text"},
};

START_TEST(shard_indexes)
{
    char why[512] = "";
    const char *dir = temporary_dir();
    static const char *const shards[][2] = {{"m1.safetensors", ONE("a")},
                                            {"m2.safetensors", ONE("b")},
                                            {"m4.safetensors", ONE("a")},
                                            {"m5.safetensors", ONE("a")}};
    for (int i = 0; i < COUNT(shards); i++) {
        seqmix_bytes file = st_raw(shards[i][1], i == 3 ? 0 : 1);
        write_file(dir, shards[i][0], file.data, file.n);
        free(file.data);
    }
    write_text(dir, "model.safetensors.index.json", indexes[_i].index);
    seqmix_safetensors st;
    bool ok = seqmix_st_open_model(dir, &st, (seqmix_why){why, sizeof why});
    judge(ok, why, indexes[_i].wanted, indexes[_i].index);
    ck_assert(!ok || (seqmix_st_find(&st, "a") != NULL && seqmix_st_find(&st, "b") != NULL &&
                      seqmix_st_find(&st, "c") == NULL));
    seqmix_st_close(&st);
}
END_TEST

START_TEST(no_weights_at_all)
{
    char why[512] = "";
    seqmix_safetensors st;
    judge(seqmix_st_open_model(temporary_dir(), &st, (seqmix_why){why, sizeof why}), why,
          "neither model.safetensors nor", "");
    judge(seqmix_st_open("/nonexistent/x", &st, (seqmix_why){why, sizeof why}), why, "/nonexistent/x: No such file",
          "");
    judge(seqmix_st_open("/tmp", &st, (seqmix_why){why, sizeof why}), why, "/tmp: not a regular file", "");
}
END_TEST

START_TEST(json_texts)
{
    static const struct {
        const char *text;
        size_t n;
        const char *wanted;
    } cases[] = {{"{\"a\":1}  \n", 10, NULL},
                 {"{\"a\":1}\0", 8, "holds a NUL byte"},
                 {"{\"1\":1,", 7, "not valid JSON"}, /* cJSON 1.7.15 alone reads past the end */
                 {"{\"a\":1}}", 8, "not valid JSON near byte 7 of 8"},
                 {"", 0, "empty JSON text"}};
    for (int i = 0; i < COUNT(cases); i++) {
        char why[128] = "", *copy = malloc(cases[i].n + (cases[i].n == 0));
        ck_assert_ptr_nonnull(copy);
        memcpy(copy, cases[i].text, cases[i].n);
        cJSON *tree = seqmix_json_parse(copy, cases[i].n, (seqmix_why){why, sizeof why});
        judge(tree != NULL, why, cases[i].wanted, cases[i].text);
        cJSON_Delete(tree);
        free(copy);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("bad weights");
    TCase *cases = tcase_create("bad weights");
    tcase_set_timeout(cases, 120);
    tcase_add_loop_test(cases, safetensors_headers, 0, COUNT(headers));
    tcase_add_test(cases, safetensors_lengths);
    tcase_add_test(cases, safetensors_nesting);
    tcase_add_test(cases, safetensors_truncated);
    tcase_add_loop_test(cases, shard_indexes, 0, COUNT(indexes));
    tcase_add_test(cases, no_weights_at_all);
    tcase_add_test(cases, json_texts);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
