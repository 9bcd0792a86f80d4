/* SPDX-License-Identifier: MIT */
/*
 * A safetensors file as a case and the outputs to judge. The reader has already refused files whose tensors do not lie inside
 * them, so every size here is bounded by the file; shapes may still be anything. What can be read in one way only is accepted
 * with a note (a leading batch axis, f64, a missing slot axis); what cannot is refused by name.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "batch.h"
#include "safetensors.h"
#include "validate_load.h"

enum { MAX_AXES = SEQMIX_ST_MAX_RANK };

/* A tensor of the file with its shape brought to the rank an op wants. */
struct view {
    const seqmix_st_tensor *st;
    int rank;
    int64_t shape[MAX_AXES];
    int64_t count;
};

static seqmix_dtype engine_dtype(int32_t st_dtype)
{
    return st_dtype == SEQMIX_ST_BF16 ? SEQMIX_BF16 : st_dtype == SEQMIX_ST_F16 ? SEQMIX_F16 : SEQMIX_F32;
}

/* Shapes with a 0 in them can hide sizes whose product does not fit. */
static bool count_elements(struct seqmix_val_loader *l, struct view *v)
{
    int64_t guarded = 1;
    v->count = 1;
    for (int axis = 0; axis < v->rank; axis++) {
        const int64_t n = v->shape[axis];
        if (n > ((int64_t)1 << 46) / guarded)
            return REFUSE(l, "%s: shape[%d]=%" PRId64 " makes the shape absurdly large", v->st->name, axis, n);
        guarded *= n > 0 ? n : 1;
        v->count *= n;
    }
    return true;
}

static bool open_view(struct seqmix_val_loader *l, const seqmix_st_tensor *st, struct view *v)
{
    const int32_t d = st->dtype;
    if (d != SEQMIX_ST_F32 && d != SEQMIX_ST_BF16 && d != SEQMIX_ST_F16 && d != SEQMIX_ST_F64)
        return REFUSE(l, "%s has dtype %s, must be F32, BF16, F16 or F64", st->name, seqmix_st_dtype_name(d));
    *v = (struct view){.st = st, .rank = st->rank};
    memcpy(v->shape, st->shape, sizeof v->shape);
    return count_elements(l, v);
}

/* Removes axes of size 1, leftmost first, until `rank` is left. */
static void squeeze(struct seqmix_val_loader *l, struct view *v, int rank)
{
    const int before = v->rank;
    for (int axis = 0; axis < v->rank && v->rank > rank;) {
        if (v->shape[axis] != 1) {
            axis++;
            continue;
        }
        memmove(&v->shape[axis], &v->shape[axis + 1], (size_t)(v->rank - axis - 1) * sizeof v->shape[0]);
        v->rank--;
    }
    if (v->rank < before) seqmix_val_note(l->dump, "%s: %d axis/axes of size 1 dropped", v->st->name, before - v->rank);
}

static void fold_lead(struct view *v, int lead)
{
    for (int i = 0; i < lead; i++)
        v->shape[0] *= v->shape[i + 1];
    memmove(&v->shape[1], &v->shape[1 + lead], (size_t)(v->rank - 1 - lead) * sizeof v->shape[0]);
    v->rank -= lead;
}

static bool refuse_rank(struct seqmix_val_loader *l, const struct view *v, const struct seqmix_val_field *field)
{
    char shape[120] = "";
    for (int axis = 0; axis < v->st->rank; axis++)
        (void)snprintf(shape + strlen(shape), sizeof shape - strlen(shape), "%s%" PRId64, axis > 0 ? ", " : "",
                       v->st->shape[axis]);
    return REFUSE(l, "%s has shape [%s], must be [%s]%s%s%s", field->name, shape, field->axes,
                  field->axes_alt != NULL ? " or [" : "", field->axes_alt != NULL ? field->axes_alt : "",
                  field->axes_alt != NULL ? "]" : "");
}

/* Brings a view to the rank of its field. */
static bool fit(struct seqmix_val_loader *l, struct view *v, const struct seqmix_val_field *field)
{
    const int rank = seqmix_val_axes(field->axes);
    const int alt = field->axes_alt != NULL ? seqmix_val_axes(field->axes_alt) : rank;
    const int most = alt > rank ? alt : rank;
    const bool by_row = field->role != SEQMIX_VAL_PARAM && field->role != SEQMIX_VAL_STATE;
    if (by_row && l->lead > 0 && (v->rank == rank + l->lead || v->rank == alt + l->lead)) {
        const bool sequences = l->dump->base.family->batch_offset != 0;
        if (sequences && v->shape[0] != l->batches)
            return REFUSE(l, "%s.shape[0]=%" PRId64 " differs from the batch axis of %s, %" PRId64, field->name,
                          v->shape[0], l->dump->base.family->fields->name, l->batches);
        fold_lead(v, l->lead);
        return true;
    }
    if (field->role == SEQMIX_VAL_STATE && v->rank == rank - 1) {
        memmove(&v->shape[1], &v->shape[0], (size_t)v->rank * sizeof v->shape[0]);
        v->shape[0] = 1;
        v->rank++;
        seqmix_val_note(l->dump, "%s: no slot axis, taken as slot 0", v->st->name);
        return true;
    }
    if (v->rank != rank && v->rank != alt) squeeze(l, v, v->rank > most ? most : rank);
    if (field->role == SEQMIX_VAL_PARAM && l->dump->base.op->family == SEQMIX_VAL_conv && v->rank == alt)
        squeeze(l, v, rank);
    return v->rank == rank || v->rank == alt ? true : refuse_rank(l, v, field);
}

static double element(const seqmix_st_tensor *st, int64_t i)
{
    switch (st->dtype) {
    case SEQMIX_ST_BF16:
        return (double)seqmix_bf16_to_f32(((const uint16_t *)st->data)[i]);
    case SEQMIX_ST_F16:
        return (double)seqmix_f16_to_f32(((const uint16_t *)st->data)[i]);
    case SEQMIX_ST_F64:
        return ((const double *)st->data)[i];
    default:
        return (double)((const float *)st->data)[i];
    }
}

static bool load_input(struct seqmix_val_loader *l, const struct view *v, seqmix_tensor *t)
{
    if (!seqmix_val_new_tensor(&l->dump->base.memory, t, v->rank, v->shape))
        return REFUSE(l, "no memory for %s", v->st->name);
    float *data = t->data;
    double largest = 0;
    for (int64_t i = 0; i < v->count; i++) {
        const double value = element(v->st, i);
        data[i] = (float)value;
        if ((double)data[i] != value && value == value) {
            const double change = fabs((double)data[i] - value) / fabs(value);
            if (change > largest) largest = change;
        }
    }
    if (largest > 0)
        seqmix_val_note(l->dump, "%s is F64 and was rounded to f32 (largest relative change %.1e)", v->st->name,
                        largest);
    return true;
}

static double *load_doubles(struct seqmix_val_loader *l, const struct view *v)
{
    double *data = seqmix_val_take(&l->dump->base.memory, v->count, sizeof *data);
    if (data == NULL) return (void)REFUSE(l, "no memory for %s", v->st->name), NULL;
    for (int64_t i = 0; i < v->count; i++)
        data[i] = element(v->st, i);
    return data;
}

/* ---------------------------------------------------------------- inputs */

/* Learns from the field that tells R how many leading axes the row tensors have. */
static bool find_lead(struct seqmix_val_loader *l, const struct seqmix_val_field *field)
{
    const seqmix_st_tensor *st = seqmix_st_find(l->st, field->name);
    if (st == NULL)
        return REFUSE(l, "%s is missing: the file must hold %s [%s]", field->name, field->name, field->axes);
    const enum seqmix_val_family_id family = l->dump->base.op->family;
    const int rank = seqmix_val_axes(field->axes), extra = st->rank - rank;
    l->lead = 0;
    l->batches = 1;
    if (family == SEQMIX_VAL_inverse || family == SEQMIX_VAL_embed || extra <= 0) return true;
    const bool any = family == SEQMIX_VAL_norm || family == SEQMIX_VAL_linear;
    if (extra > 1 && !any) return true; /* refused by fit */
    l->lead = extra;
    for (int axis = 0; axis < extra; axis++) {
        const int64_t n = st->shape[axis];
        if (n > INT32_MAX || (n > 0 && l->batches > INT32_MAX / n))
            return REFUSE(l, "%s: shape[%d]=%" PRId64 " makes too large a batch", field->name, axis, n);
        l->batches *= n;
    }
    if (any)
        seqmix_val_note(l->dump, "leading axes folded into the rows");
    else if (l->batches == 1)
        seqmix_val_note(l->dump, "leading batch axis of 1 dropped");
    else
        seqmix_val_note(l->dump, "leading batch axis of %" PRId64 " taken as as many sequences of equal length",
                        l->batches);
    return true;
}

static bool load_inverse(struct seqmix_val_loader *l, const seqmix_st_tensor *st, seqmix_tensor *t)
{
    struct view v;
    if (!open_view(l, st, &v)) return false;
    if (v.rank < 2 || v.rank > SEQMIX_MAX_RANK)
        return REFUSE(l, "%s has rank %d, must be 2 to %d: [batch..., n, n]", st->name, v.rank, SEQMIX_MAX_RANK);
    return load_input(l, &v, t);
}

static bool load_field(struct seqmix_val_loader *l, const struct seqmix_val_field *field, seqmix_dtype *coarsest)
{
    struct seqmix_val_case *c = &l->dump->base;
    const seqmix_st_tensor *st = seqmix_st_find(l->st, field->name);
    if (st == NULL) {
        if (field->optional) return true;
        return REFUSE(l, "%s is missing: the file must hold %s [%s]", field->name, field->name, field->axes);
    }
    seqmix_tensor *t = seqmix_val_tensor(c, field);
    struct view v;
    if (c->op->family == SEQMIX_VAL_inverse) {
        if (!load_inverse(l, st, t)) return false;
    } else if (!open_view(l, st, &v) || !fit(l, &v, field) || !load_input(l, &v, t)) {
        return false;
    }
    if (field->role != SEQMIX_VAL_ROWS && c->op->family != SEQMIX_VAL_embed) return true;
    const seqmix_dtype dtype = engine_dtype(st->dtype);
    if (*coarsest != 0 && *coarsest != dtype)
        seqmix_val_note(l->dump, "row tensors have different dtypes: %s is %s", field->name, seqmix_dtype_name(dtype));
    if (*coarsest == 0 || seqmix_val_bound(dtype) > seqmix_val_bound(*coarsest)) *coarsest = dtype;
    return true;
}

/* Deltanet fields that gate_kind does not use are set aside: the library refuses them, hypotheses may want them. */
static bool set_aside_gates(struct seqmix_val_loader *l)
{
    seqmix_deltanet_args *a = &l->dump->base.args.deltanet;
    struct seqmix_val_case *c = &l->dump->base;
    if (!l->gate_kind_given && seqmix_present(&a->gate))
        return REFUSE(l, "the file holds a gate but does not say what it is: --set gate_kind=LOG (ALPHA, SOFTPLUS, "
                         "BOUNDED_SIGMOID, NONE)");
    const bool raw = a->gate_kind == SEQMIX_GATE_SOFTPLUS || a->gate_kind == SEQMIX_GATE_BOUNDED_SIGMOID;
    const struct {
        const char *name;
        seqmix_tensor *from, *to;
        bool used;
    } fields[] = {{"gate", &a->gate, &c->spare_gate, a->gate_kind != SEQMIX_GATE_NONE},
                  {"A", &a->A, &c->spare_A, raw},
                  {"dt_bias", &a->dt_bias, &c->spare_dt_bias, raw}};
    for (int i = 0; i < 3; i++) {
        if (fields[i].used || !seqmix_present(fields[i].from)) continue;
        *fields[i].to = *fields[i].from;
        *fields[i].from = (seqmix_tensor){0};
        seqmix_val_note(l->dump, "%s is given, but gate_kind does not use it", fields[i].name);
    }
    const seqmix_st_tensor *gate = seqmix_st_find(l->st, "gate");
    const bool ready = a->gate_kind == SEQMIX_GATE_LOG || a->gate_kind == SEQMIX_GATE_ALPHA;
    if (gate != NULL && ready && (gate->dtype == SEQMIX_ST_BF16 || gate->dtype == SEQMIX_ST_F16))
        seqmix_val_note(l->dump, "gate is %s: taken as it is; seqmix itself wants log gates and alphas in f32",
                        seqmix_st_dtype_name(gate->dtype));
    return true;
}

/* ---------------------------------------------------------------- states and outputs */

/* The sizes that the inputs say the state's last two axes have. */
static void state_matrix(const struct seqmix_val_case *c, int64_t size[2])
{
    const union seqmix_val_args *a = &c->args;
    switch (c->op->family) {
    case SEQMIX_VAL_conv:
        size[0] = a->conv.x.shape[1], size[1] = a->conv.weight.shape[1] - 1;
        break;
    case SEQMIX_VAL_scan:
        size[0] = a->scan.A.shape[0], size[1] = a->scan.A.shape[1];
        break;
    case SEQMIX_VAL_ssd:
        size[0] = a->ssd.x.shape[2], size[1] = a->ssd.B.shape[2];
        break;
    default:
        size[0] = a->deltanet.k.shape[2], size[1] = a->deltanet.v.shape[2];
        break;
    }
}

/* Drops the first of K columns, which is how some engines keep a conv state. */
static void drop_column(double *data, struct view *v)
{
    const int64_t k = v->shape[2], rows = v->shape[0] * v->shape[1];
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 1; j < k; j++)
            data[r * (k - 1) + j - 1] = data[r * k + j];
    v->shape[2]--;
    v->count = rows * (k - 1);
}

/* A pool in the op's own order of axes. `by_shape` tells that only the swapped order fits its shape. */
static bool load_pool(struct seqmix_val_loader *l, const char *name, struct view *v, double **data, bool *by_shape)
{
    struct seqmix_val_case *c = &l->dump->base;
    const struct seqmix_val_field *field = seqmix_val_field_of(c->family, SEQMIX_VAL_STATE);
    const seqmix_st_tensor *st = seqmix_st_find(l->st, name);
    *data = NULL;
    *by_shape = false;
    if (st == NULL) return true;
    if (!open_view(l, st, v) || !fit(l, v, field)) return false;
    *data = load_doubles(l, v);
    if (*data == NULL) return false;
    int64_t want[2];
    state_matrix(c, want);
    int64_t *got = &v->shape[v->rank - 2];
    const bool fits = got[0] == want[0] && got[1] == want[1];
    const bool swapped = got[0] == want[1] && got[1] == want[0];
    const bool swap = l->dump->declared_swap ? swapped : swapped && !fits;
    *by_shape = swap && !l->dump->declared_swap;
    if (l->dump->declared_swap && !swap && fits)
        seqmix_val_note(l->dump, "state_order is the swapped one, but %s fits only the plain one and is read so", name);
    if (swap && v->count > 0) {
        if (!seqmix_val_swap(*data, v->count / (got[0] * got[1]), got[0], got[1]))
            return REFUSE(l, "no memory for %s", name);
    }
    if (swap) got[0] = want[0], got[1] = want[1];
    if (c->op->family == SEQMIX_VAL_conv && !swap && got[0] == want[0] && got[1] == want[1] + 1 && got[1] > 0) {
        drop_column(*data, v);
        seqmix_val_note(l->dump, "%s has K columns: the oldest was dropped", name);
    }
    return true;
}

static bool load_states(struct seqmix_val_loader *l)
{
    struct seqmix_val_dump *dump = l->dump;
    struct seqmix_val_case *c = &dump->base;
    seqmix_tensor *pool = seqmix_val_state(c);
    struct view in, out;
    double *final;
    if (!load_pool(l, "state", &in, &c->pool, &dump->initial_by_shape)) return false;
    if (!load_pool(l, "state_out", &out, &final, &dump->state_out.transposed)) return false;
    c->pool_given = c->pool != NULL;
    if (c->pool == NULL && final == NULL) return true;
    const struct view *shape = c->pool != NULL ? &in : &out;
    for (int axis = 0; c->pool != NULL && final != NULL && axis < in.rank; axis++)
        if (in.shape[axis] != out.shape[axis])
            return REFUSE(l, "state_out.shape[%d]=%" PRId64 " differs from state.shape[%d]=%" PRId64, axis,
                          out.shape[axis], axis, in.shape[axis]);
    if (c->pool == NULL) c->pool = seqmix_val_take(&c->memory, out.count, sizeof *c->pool);
    if (c->pool == NULL) return REFUSE(l, "no memory for the state pool");
    *pool = (seqmix_tensor){.dtype = SEQMIX_F32, .rank = shape->rank};
    int64_t stride = 1;
    for (int axis = shape->rank - 1; axis >= 0; axis--) {
        pool->shape[axis] = shape->shape[axis];
        pool->stride[axis] = stride;
        stride *= shape->shape[axis];
    }
    if (final == NULL) return true;
    dump->state_out.present = true;
    dump->state_out.dtype = engine_dtype(out.st->dtype);
    dump->state_out.count = out.count;
    dump->state_out.data = final;
    return true;
}

/* The shape the op's output has, given its inputs. */
static void output_shape(const struct seqmix_val_case *c, seqmix_tensor *t)
{
    const union seqmix_val_args *a = &c->args;
    switch (c->op->family) {
    case SEQMIX_VAL_conv:
        *t = a->conv.x;
        break;
    case SEQMIX_VAL_scan:
        *t = a->scan.x;
        break;
    case SEQMIX_VAL_ssd:
        *t = a->ssd.x;
        break;
    case SEQMIX_VAL_deltanet:
        *t = a->deltanet.v;
        break;
    case SEQMIX_VAL_inverse:
        *t = a->inverse.a;
        break;
    case SEQMIX_VAL_norm:
        *t = a->norm.x;
        break;
    case SEQMIX_VAL_linear:
        *t = a->linear.x;
        t->shape[1] = t->stride[0] = a->linear.weight.shape[0];
        break;
    default:
        *t = a->embed.table;
        t->shape[0] = a->embed.n_tokens;
        break;
    }
    t->data = NULL;
}

static bool load_output(struct seqmix_val_loader *l)
{
    struct seqmix_val_case *c = &l->dump->base;
    const struct seqmix_val_field *field = seqmix_val_field_of(c->family, SEQMIX_VAL_OUTPUT);
    seqmix_tensor *t = seqmix_val_tensor(c, field);
    output_shape(c, t);
    const seqmix_st_tensor *st = seqmix_st_find(l->st, field->name);
    if (st == NULL) {
        if (l->dump->state_out.present && c->op->family != SEQMIX_VAL_linear && c->op->family != SEQMIX_VAL_embed) {
            seqmix_val_note(l->dump, "the file holds no %s: only state_out is judged", field->name);
            return true;
        }
        return REFUSE(l, "the file holds no output to judge: %s%s", field->name,
                      c->family->state_order != NULL ? " or state_out" : "");
    }
    struct view v;
    if (!open_view(l, st, &v)) return false;
    if (c->op->family != SEQMIX_VAL_inverse && !fit(l, &v, field)) return false;
    if (v.rank != t->rank) return refuse_rank(l, &v, field);
    for (int axis = 0; axis < v.rank; axis++)
        if (v.shape[axis] != t->shape[axis]) /* an inconsistent input may be the reason: the op's check speaks first */
            return !seqmix_val_refuse(l->dump->late,
                                      "%s.shape[%d]=%" PRId64 " (rows folded), the inputs make it %" PRId64,
                                      field->name, axis, v.shape[axis], t->shape[axis]);
    l->dump->out.present = true;
    l->dump->out.dtype = engine_dtype(st->dtype);
    l->dump->out.count = v.count;
    l->dump->out.data = load_doubles(l, &v);
    return l->dump->out.data != NULL;
}

/* ---------------------------------------------------------------- the whole file */

static bool is_known_tensor(const struct seqmix_val_family *family, const char *name)
{
    static const char *const arrays[] = {"row_begin", "read_slot", "write_slot", "ckpt_seq",
                                         "ckpt_row",  "ckpt_slot", "state_out"};
    if (seqmix_val_find_field(family, name) != NULL) return true;
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0] && family->batch_offset != 0; i++)
        if (strcmp(arrays[i], name) == 0) return true;
    return family == &seqmix_val_families[SEQMIX_VAL_embed] && strcmp(name, "tokens") == 0;
}

/* Names that nothing reads: a typing error shows here. */
static void note_unknown(struct seqmix_val_loader *l)
{
    char names[200] = "";
    for (int64_t i = 0; i < l->st->n_tensors; i++)
        if (!is_known_tensor(l->dump->base.family, l->st->tensors[i].name))
            seqmix_val_add_name(names, sizeof names, l->st->tensors[i].name);
    if (names[0] != '\0') seqmix_val_note(l->dump, "tensors that the op does not have, ignored: %s", names);
    if (l->ignored[0] != '\0') seqmix_val_note(l->dump, "metadata that the op does not have, ignored: %s", l->ignored);
}

static bool load_rows(struct seqmix_val_loader *l)
{
    struct seqmix_val_case *c = &l->dump->base;
    if (c->op->family == SEQMIX_VAL_embed) {
        int32_t *tokens;
        int64_t count;
        if (!seqmix_val_load_ints(l, "tokens", &tokens, &count)) return false;
        if (tokens == NULL) return REFUSE(l, "tokens is missing: the file must hold tokens [R] in I32 or I64");
        c->args.embed.tokens = tokens;
        c->args.embed.n_tokens = (int32_t)count;
        c->rows = count;
        return true;
    }
    c->rows = seqmix_val_tensor(c, c->family->fields)->shape[0];
    if (c->rows <= INT32_MAX) return true;
    return REFUSE(l, "%s: %" PRId64 " rows, at most 2^31-1 are possible", c->family->fields->name, c->rows);
}

static bool load_all(struct seqmix_val_loader *l, const struct seqmix_val_setting *settings, int n_settings)
{
    struct seqmix_val_dump *dump = l->dump;
    struct seqmix_val_case *c = &dump->base;
    for (int64_t i = 0; i < l->st->n_metadata; i++)
        if (!seqmix_val_set(l, l->st->metadata[i].key, l->st->metadata[i].value, true)) return false;
    for (int i = 0; i < n_settings; i++)
        if (!seqmix_val_set(l, settings[i].key, settings[i].value, false)) return false;
    note_unknown(l);
    if (!find_lead(l, c->family->fields)) return false;
    for (const struct seqmix_val_field *field = c->family->fields; field->name != NULL; field++)
        if (field->role != SEQMIX_VAL_STATE && field->role != SEQMIX_VAL_OUTPUT && !load_field(l, field, &dump->x))
            return false;
    if (!load_rows(l)) return false;
    if (c->op->family == SEQMIX_VAL_deltanet && !set_aside_gates(l)) return false;
    if (c->family->batch_offset != 0 && (!seqmix_val_load_batch(l) || !load_states(l))) return false;
    return load_output(l);
}

bool seqmix_val_load(const char *path, const char *op, const struct seqmix_val_setting *settings, int n_settings,
                     struct seqmix_val_dump *dump, char why[SEQMIX_VAL_TEXT])
{
    memset(dump, 0, sizeof *dump);
    why[0] = '\0';
    seqmix_safetensors st;
    if (!seqmix_st_open(path, &st, (seqmix_why){why, SEQMIX_VAL_TEXT})) return false;
    struct seqmix_val_loader l = {&st, dump, 0, 1, why, "", false};
    const bool ok = seqmix_val_choose_op(&l, op, settings, n_settings) && load_all(&l, settings, n_settings);
    seqmix_st_close(&st);
    return ok;
}

void seqmix_val_dump_free(struct seqmix_val_dump *dump)
{
    seqmix_val_free(&dump->base.memory);
}
