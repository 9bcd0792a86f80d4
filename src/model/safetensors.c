/* SPDX-License-Identifier: MIT */
/*
 * safetensors: header parsing and checking, single files and sharded checkpoints (see safetensors.h).
 */
#define _POSIX_C_SOURCE 200809L

#include "safetensors.h"

#include "file.h"

/* The writers' own limit; a longer header is damage or malice. */
#define MAX_HEADER 100000000u

struct seqmix_st_part {
    seqmix_file file; /* empty when the caller owns the bytes */
    cJSON *header;    /* owns the names */
};

static const struct {
    const char *name;
    int32_t dtype;
    size_t size;
} dtypes[] = {
    {"F32", SEQMIX_ST_F32, 4},   {"BF16", SEQMIX_ST_BF16, 2},       {"F16", SEQMIX_ST_F16, 2},
    {"F64", SEQMIX_ST_F64, 8},   {"I64", SEQMIX_ST_I64, 8},         {"U64", SEQMIX_ST_U64, 8},
    {"I32", SEQMIX_ST_I32, 4},   {"U32", SEQMIX_ST_U32, 4},         {"I16", SEQMIX_ST_I16, 2},
    {"U16", SEQMIX_ST_U16, 2},   {"I8", SEQMIX_ST_I8, 1},           {"U8", SEQMIX_ST_U8, 1},
    {"BOOL", SEQMIX_ST_BOOL, 1}, {"F8_E4M3", SEQMIX_ST_F8_E4M3, 1}, {"F8_E5M2", SEQMIX_ST_F8_E5M2, 1},
};
#define N_DTYPES (sizeof dtypes / sizeof dtypes[0])

size_t seqmix_st_dtype_size(int32_t dtype)
{
    for (size_t i = 0; i < N_DTYPES; i++)
        if (dtypes[i].dtype == dtype) return dtypes[i].size;
    return 0;
}

const char *seqmix_st_dtype_name(int32_t dtype)
{
    for (size_t i = 0; i < N_DTYPES; i++)
        if (dtypes[i].dtype == dtype) return dtypes[i].name;
    return "?";
}

/* Where one file's data lie, for the checks of its tensors. */
typedef struct data_range {
    const char *label;
    const unsigned char *bytes;
    size_t start, size; /* of the data, in the file */
} data_range;

static bool parse_shape(const cJSON *shape, const data_range *in, seqmix_st_tensor *t, seqmix_why why)
{
    if (!cJSON_IsArray(shape)) return seqmix_fail(why, "%s: tensor '%s' has no shape array", in->label, t->name);
    size_t count = 1;
    for (const cJSON *axis = shape->child; axis != NULL; axis = axis->next) {
        if (t->rank == SEQMIX_ST_MAX_RANK)
            return seqmix_fail(why, "%s: tensor '%s' has more than %d axes", in->label, t->name, SEQMIX_ST_MAX_RANK);
        int64_t length;
        if (!seqmix_json_whole(axis, 0, INT64_C(1) << 53, &length))
            return seqmix_fail(why, "%s: tensor '%s' shape[%d] is not a whole number in [0, 2^53]", in->label, t->name,
                               t->rank);
        if (length > 0 && count > SIZE_MAX / 8 / (size_t)length)
            return seqmix_fail(why, "%s: tensor '%s' has a shape whose size overflows", in->label, t->name);
        count *= (size_t)length;
        t->shape[t->rank++] = length;
    }
    size_t wanted = count * seqmix_st_dtype_size(t->dtype);
    if (wanted != t->bytes)
        return seqmix_fail(why, "%s: tensor '%s' holds %zu bytes, but its shape and dtype %s make %zu", in->label,
                           t->name, t->bytes, seqmix_st_dtype_name(t->dtype), wanted);
    return true;
}

static bool parse_tensor(const cJSON *node, const data_range *in, seqmix_st_tensor *t, seqmix_why why)
{
    *t = (seqmix_st_tensor){.name = node->string};
    if (!cJSON_IsObject(node)) return seqmix_fail(why, "%s: tensor '%s' is not a JSON object", in->label, t->name);
    const cJSON *dtype = cJSON_GetObjectItemCaseSensitive(node, "dtype");
    if (!cJSON_IsString(dtype)) return seqmix_fail(why, "%s: tensor '%s' has no dtype", in->label, t->name);
    for (size_t i = 0; i < N_DTYPES; i++)
        if (strcmp(dtypes[i].name, dtype->valuestring) == 0) t->dtype = dtypes[i].dtype;
    if (t->dtype == 0)
        return seqmix_fail(why, "%s: tensor '%s' has unknown dtype '%.32s'", in->label, t->name, dtype->valuestring);

    const cJSON *offsets = cJSON_GetObjectItemCaseSensitive(node, "data_offsets");
    const cJSON *first = cJSON_IsArray(offsets) ? offsets->child : NULL;
    const cJSON *second = first != NULL ? first->next : NULL;
    int64_t begin, end;
    if (second == NULL || second->next != NULL || !seqmix_json_whole(first, 0, INT64_C(1) << 53, &begin) ||
        !seqmix_json_whole(second, 0, INT64_C(1) << 53, &end))
        return seqmix_fail(why, "%s: tensor '%s' data_offsets are not two whole numbers in [0, 2^53]", in->label,
                           t->name);
    if (end < begin)
        return seqmix_fail(why, "%s: tensor '%s' ends at byte %lld, before its begin %lld", in->label, t->name,
                           (long long)end, (long long)begin);
    if ((uint64_t)end > in->size)
        return seqmix_fail(why, "%s: tensor '%s' ends at byte %lld of %zu", in->label, t->name, (long long)end,
                           in->size);
    size_t at = in->start + (size_t)begin;
    t->data = in->bytes + at;
    t->bytes = (size_t)(end - begin);
    if (!parse_shape(cJSON_GetObjectItemCaseSensitive(node, "shape"), in, t, why)) return false;
    size_t align = seqmix_st_dtype_size(t->dtype);
    if (at % align != 0)
        return seqmix_fail(why,
                           "%s: tensor '%s' starts at byte %zu of the file, not a multiple of its element size %zu",
                           in->label, t->name, at, align);
    return true;
}

static int by_name(const void *a, const void *b)
{
    const seqmix_st_tensor *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static int by_place(const void *a, const void *b)
{
    const seqmix_st_tensor *x = a, *y = b;
    const unsigned char *p = x->data, *q = y->data;
    if (p != q) return p < q ? -1 : 1;
    return x->bytes != y->bytes ? (x->bytes < y->bytes ? -1 : 1) : 0;
}

/* Tensors must tile the data: no overlap, no hole, nothing behind the last. */
static bool check_tiling(seqmix_st_tensor *tensors, int64_t n, const data_range *in, seqmix_why why)
{
    qsort(tensors, (size_t)n, sizeof tensors[0], by_place);
    size_t expected = 0;
    for (int64_t i = 0; i < n; i++) {
        size_t begin = (size_t)((const unsigned char *)tensors[i].data - in->bytes) - in->start;
        if (begin < expected)
            return seqmix_fail(why, "%s: tensor '%s' begins at byte %zu and overlaps '%s', which ends at %zu",
                               in->label, tensors[i].name, begin, tensors[i - 1].name, expected);
        if (begin > expected)
            return seqmix_fail(why, "%s: bytes %zu to %zu before tensor '%s' belong to no tensor", in->label, expected,
                               begin, tensors[i].name);
        expected = begin + tensors[i].bytes;
    }
    if (expected != in->size)
        return seqmix_fail(why, "%s: the tensors end at byte %zu, the data at %zu", in->label, expected, in->size);
    return true;
}

static bool check_names(seqmix_st_tensor *tensors, int64_t n, const char *label, seqmix_why why)
{
    if (n == 0) return true;
    qsort(tensors, (size_t)n, sizeof tensors[0], by_name);
    for (int64_t i = 1; i < n; i++)
        if (strcmp(tensors[i - 1].name, tensors[i].name) == 0)
            return seqmix_fail(why, "%s: tensor '%s' occurs twice", label, tensors[i].name);
    return true;
}

static bool parse_metadata(const cJSON *node, const char *label, seqmix_safetensors *st, seqmix_why why)
{
    if (!cJSON_IsObject(node)) return seqmix_fail(why, "%s: __metadata__ is not an object", label);
    size_t n = 0;
    for (const cJSON *item = node->child; item != NULL; item = item->next) {
        if (!cJSON_IsString(item))
            return seqmix_fail(why, "%s: __metadata__ '%s' is not a string", label, item->string);
        n++;
    }
    if (n == 0) return true;
    seqmix_st_entry *grown = realloc(st->metadata, ((size_t)st->n_metadata + n) * sizeof *grown);
    if (grown == NULL) return seqmix_fail(why, "%s: no memory for %zu metadata entries", label, n);
    st->metadata = grown;
    for (const cJSON *item = node->child; item != NULL; item = item->next)
        st->metadata[st->n_metadata++] = (seqmix_st_entry){item->string, item->valuestring};
    return true;
}

/* The header's tensors are appended to `st`. */
static bool parse_tensors(const cJSON *header, const data_range *in, seqmix_safetensors *st, seqmix_why why)
{
    size_t n = 0;
    for (const cJSON *node = header->child; node != NULL; node = node->next)
        n++;
    if (n > 0) {
        seqmix_st_tensor *grown = realloc(st->tensors, ((size_t)st->n_tensors + n) * sizeof *grown);
        if (grown == NULL) return seqmix_fail(why, "%s: no memory for %zu tensor entries", in->label, n);
        st->tensors = grown;
    }
    int64_t first = st->n_tensors;
    bool seen_metadata = false;
    for (const cJSON *node = header->child; node != NULL; node = node->next) {
        if (strcmp(node->string, "__metadata__") == 0) {
            if (seen_metadata) return seqmix_fail(why, "%s: __metadata__ occurs twice", in->label);
            seen_metadata = true;
            if (!parse_metadata(node, in->label, st, why)) return false;
        } else {
            if (!parse_tensor(node, in, &st->tensors[st->n_tensors], why)) return false;
            st->n_tensors++;
        }
    }
    if (st->n_tensors == first) {
        if (in->size != 0) return seqmix_fail(why, "%s: %zu bytes of data, but no tensor", in->label, in->size);
        return true;
    }
    return check_names(st->tensors + first, st->n_tensors - first, in->label, why) &&
           check_tiling(st->tensors + first, st->n_tensors - first, in, why);
}

/* Adds one file's tensors to `st`; takes over `file` in every case. */
static bool add_part(seqmix_file file, const void *bytes, size_t size, const char *label, seqmix_safetensors *st,
                     seqmix_why why)
{
    struct seqmix_st_part *grown = realloc(st->parts, ((size_t)st->n_parts + 1) * sizeof *grown);
    if (grown == NULL) {
        seqmix_file_unmap(&file);
        return seqmix_fail(why, "%s: no memory", label);
    }
    st->parts = grown;
    struct seqmix_st_part *part = &st->parts[st->n_parts++];
    *part = (struct seqmix_st_part){.file = file};

    const unsigned char *raw = bytes;
    if (size < 8) return seqmix_fail(why, "%s: %zu bytes is too short for a safetensors file", label, size);
    if ((uintptr_t)raw % 8 != 0) return seqmix_fail(why, "%s: the bytes in memory are not aligned to 8", label);
    uint64_t length = 0;
    for (int i = 7; i >= 0; i--)
        length = length << 8 | raw[i];
    if (length > MAX_HEADER || length > size - 8)
        return seqmix_fail(why, "%s: header of %llu bytes in a file of %zu (limit %u)", label,
                           (unsigned long long)length, size, MAX_HEADER);
    if (length == 0 || raw[8] != '{') return seqmix_fail(why, "%s: the header does not begin with '{'", label);
    char reason[128] = "";
    part->header = seqmix_json_parse(raw + 8, (size_t)length, (seqmix_why){reason, sizeof reason});
    if (part->header == NULL) return seqmix_fail(why, "%s: header: %s", label, reason);
    if (!cJSON_IsObject(part->header)) return seqmix_fail(why, "%s: the header is not a JSON object", label);
    data_range in = {label, raw, 8 + (size_t)length, size - 8 - (size_t)length};
    return parse_tensors(part->header, &in, st, why);
}

/* Closes `st` unless all went well; names of different parts must differ too. */
static bool finish(bool ok, const char *label, seqmix_safetensors *st, seqmix_why why)
{
    ok = ok && check_names(st->tensors, st->n_tensors, label, why);
    if (!ok) seqmix_st_close(st);
    return ok;
}

bool seqmix_st_parse(const void *bytes, size_t size, const char *label, seqmix_safetensors *st, seqmix_why why)
{
    *st = (seqmix_safetensors){0};
    return finish(add_part((seqmix_file){0}, bytes, size, label, st, why), label, st, why);
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static bool add_file(const char *path, seqmix_safetensors *st, seqmix_why why)
{
    seqmix_file file;
    return seqmix_file_map(path, &file, why) && add_part(file, file.bytes, file.size, base_name(path), st, why);
}

bool seqmix_st_open(const char *path, seqmix_safetensors *st, seqmix_why why)
{
    *st = (seqmix_safetensors){0};
    return finish(add_file(path, st, why), base_name(path), st, why);
}

void seqmix_st_close(seqmix_safetensors *st)
{
    for (int64_t i = 0; i < st->n_parts; i++) {
        cJSON_Delete(st->parts[i].header);
        seqmix_file_unmap(&st->parts[i].file);
    }
    free(st->parts);
    free(st->tensors);
    free(st->metadata);
    *st = (seqmix_safetensors){0};
}

const seqmix_st_tensor *seqmix_st_find(const seqmix_safetensors *st, const char *name)
{
    seqmix_st_tensor key = {.name = name};
    if (st->n_tensors == 0) return NULL;
    return bsearch(&key, st->tensors, (size_t)st->n_tensors, sizeof key, by_name);
}

const char *seqmix_st_metadata(const seqmix_safetensors *st, const char *key)
{
    for (int64_t i = 0; i < st->n_metadata; i++)
        if (strcmp(st->metadata[i].key, key) == 0) return st->metadata[i].value;
    return NULL;
}

bool seqmix_st_index_parse(const void *bytes, size_t size, const char *label, cJSON **weight_map, seqmix_why why)
{
    *weight_map = NULL;
    char reason[128] = "";
    cJSON *tree = seqmix_json_parse(bytes, size, (seqmix_why){reason, sizeof reason});
    if (tree == NULL) return seqmix_fail(why, "%s: %s", label, reason);
    cJSON *map = cJSON_IsObject(tree) ? cJSON_DetachItemFromObjectCaseSensitive(tree, "weight_map") : NULL;
    cJSON_Delete(tree);
    bool ok = cJSON_IsObject(map) && map->child != NULL;
    if (!ok) (void)seqmix_fail(why, "%s: weight_map is not an object with entries", label);
    for (const cJSON *item = ok ? map->child : NULL; ok && item != NULL; item = item->next) {
        ok = cJSON_IsString(item);
        if (!ok) {
            (void)seqmix_fail(why, "%s: weight_map '%s' is not a file name", label, item->string);
            break;
        }
        /* A shard lies beside its index; anything else could name any file of the machine. */
        const char *name = item->valuestring, *dot = strrchr(name, '.');
        ok = strchr(name, '/') == NULL && name[0] != '.' && dot != NULL && strcmp(dot, ".safetensors") == 0;
        if (!ok)
            (void)seqmix_fail(why, "%s: weight_map '%s' names '%.64s', not a plain .safetensors file name", label,
                              item->string, name);
    }
    if (!ok) {
        cJSON_Delete(map);
        return false;
    }
    *weight_map = map;
    return true;
}

static int by_text(const void *a, const void *b)
{
    const char *const *x = a, *const *y = b;
    return strcmp(*x, *y);
}

static bool add_shards(const char *dir, const char *label, const cJSON *map, seqmix_safetensors *st, seqmix_why why)
{
    size_t n = 0;
    for (const cJSON *item = map->child; item != NULL; item = item->next)
        n++;
    const char **names = malloc(n * sizeof *names);
    if (names == NULL) return seqmix_fail(why, "%s: no memory for %zu entries", label, n);
    n = 0;
    for (const cJSON *item = map->child; item != NULL; item = item->next)
        names[n++] = item->valuestring;
    qsort(names, n, sizeof *names, by_text);
    bool ok = true;
    for (size_t i = 0; ok && i < n; i++) {
        if (i > 0 && strcmp(names[i - 1], names[i]) == 0) continue;
        size_t room = strlen(dir) + strlen(names[i]) + 2;
        char *path = malloc(room);
        ok = path != NULL || seqmix_fail(why, "%s: no memory", label);
        if (ok) {
            (void)snprintf(path, room, "%s/%s", dir, names[i]);
            ok = add_file(path, st, why);
        }
        free(path);
    }
    free(names);
    return ok;
}

static bool open_index(const char *dir, const char *path, seqmix_safetensors *st, seqmix_why why)
{
    const char *label = base_name(path);
    seqmix_file file;
    cJSON *map = NULL;
    if (!seqmix_file_map(path, &file, why)) return false;
    bool ok = seqmix_st_index_parse(file.bytes, file.size, label, &map, why);
    seqmix_file_unmap(&file);
    ok = ok && add_shards(dir, label, map, st, why);
    ok = finish(ok, label, st, why);
    for (const cJSON *item = ok ? map->child : NULL; ok && item != NULL; item = item->next) {
        if (seqmix_st_find(st, item->string) != NULL) continue;
        ok = seqmix_fail(why, "%s: tensor '%s' is not in %s", label, item->string, item->valuestring);
        seqmix_st_close(st);
    }
    cJSON_Delete(map);
    return ok;
}

bool seqmix_st_open_model(const char *dir, seqmix_safetensors *st, seqmix_why why)
{
    *st = (seqmix_safetensors){0};
    static const char single[] = "model.safetensors", index[] = "model.safetensors.index.json";
    size_t room = strlen(dir) + sizeof index + 1;
    char *path = malloc(room);
    if (path == NULL) return seqmix_fail(why, "%s: no memory", dir);
    bool ok;
    (void)snprintf(path, room, "%s/%s", dir, single);
    if (seqmix_file_exists(path)) {
        ok = seqmix_st_open(path, st, why);
    } else {
        (void)snprintf(path, room, "%s/%s", dir, index);
        ok = seqmix_file_exists(path) ? open_index(dir, path, st, why)
                                      : seqmix_fail(why, "%s: neither %s nor %s", dir, single, index);
    }
    free(path);
    return ok;
}
