/* SPDX-License-Identifier: MIT */
/*
 * Prints the layout of everything released: type, size and offset of each field and table slot, and the value of each
 * constant. layout.txt holds the released lines; what was printed once is printed forever (docs/ABI.md). Fails on its own
 * when a struct has a hole or a field that is not listed here.
 */
#include <inttypes.h>
#include <stdio.h>

#include <seqmix/seqmix.h>

/* Where the next field of the struct being printed must stand. */
static size_t expected;
static int failures;

static void field(const char *owner, const char *name, const char *type, size_t offset, size_t size)
{
    printf("%s.%s: %s, %zu bytes at %zu\n", owner, name, type, size, offset);
    if (offset != expected) {
        fprintf(stderr, "%s.%s stands at %zu, but what is listed before it ends at %zu\n", owner, name, offset,
                expected);
        failures++;
    }
    expected = offset + size;
}

static void begin(void)
{
    expected = 0;
}

static void end(const char *owner, size_t size)
{
    if (size == expected) return;
    fprintf(stderr, "%s has %zu bytes, its listed fields %zu\n", owner, size, expected);
    failures++;
}

/* The type in the text is the type of the field, or this does not compile. */
#define FIELD(owner, type, name)                                                                                       \
    _Static_assert(_Generic(((owner *)0)->name, type : 1, default : 0), "type of " #name);                             \
    field(#owner, #name, #type, offsetof(owner, name), sizeof(((owner *)0)->name))
#define ARRAY(owner, type, name)                                                                                       \
    _Static_assert(_Generic(((owner *)0)->name, type * : 1, default : 0), "type of " #name);                           \
    field(#owner, #name, #type "[]", offsetof(owner, name), sizeof(((owner *)0)->name))
#define CONSTANT(name) printf("%s = %" PRId64 "\n", #name, (int64_t)(name))

typedef struct seqmix_api api;
typedef const struct seqmix_api *const_api;
typedef const void *const_void;

static void print_tensor(void)
{
    begin();
    FIELD(seqmix_tensor, void *, data);
    FIELD(seqmix_tensor, int32_t, dtype);
    FIELD(seqmix_tensor, int32_t, rank);
    ARRAY(seqmix_tensor, int64_t, shape);
    ARRAY(seqmix_tensor, int64_t, stride);
    end("seqmix_tensor", sizeof(seqmix_tensor));
}

static void print_batch(void)
{
    begin();
    FIELD(seqmix_batch, uint32_t, struct_size);
    FIELD(seqmix_batch, int32_t, n_seqs);
    FIELD(seqmix_batch, int32_t, max_rows);
    FIELD(seqmix_batch, int32_t, n_checkpoints);
    FIELD(seqmix_batch, const int32_t *, row_begin);
    FIELD(seqmix_batch, const int32_t *, read_slot);
    FIELD(seqmix_batch, const int32_t *, write_slot);
    FIELD(seqmix_batch, const int32_t *, ckpt_seq);
    FIELD(seqmix_batch, const int32_t *, ckpt_row);
    FIELD(seqmix_batch, const int32_t *, ckpt_slot);
    end("seqmix_batch", sizeof(seqmix_batch));
}

static void print_context(void)
{
    begin();
    FIELD(seqmix_ctx, const_api, api);
    end("seqmix_ctx", sizeof(seqmix_ctx));

    begin();
    FIELD(seqmix_ctx_desc, uint32_t, struct_size);
    FIELD(seqmix_ctx_desc, uint32_t, flags);
    FIELD(seqmix_ctx_desc, int32_t, backend);
    FIELD(seqmix_ctx_desc, int32_t, device);
    FIELD(seqmix_ctx_desc, int32_t, level_cap);
    FIELD(seqmix_ctx_desc, int32_t, n_workers);
    FIELD(seqmix_ctx_desc, int32_t, max_seqs);
    FIELD(seqmix_ctx_desc, int32_t, zero0);
    FIELD(seqmix_ctx_desc, seqmix_parallel_fn, parallel);
    FIELD(seqmix_ctx_desc, void *, parallel_user);
    FIELD(seqmix_ctx_desc, void *, stream);
    end("seqmix_ctx_desc", sizeof(seqmix_ctx_desc));
}

static void print_conv(void)
{
    begin();
    FIELD(seqmix_conv_args, uint32_t, struct_size);
    FIELD(seqmix_conv_args, int32_t, activation);
    FIELD(seqmix_conv_args, const seqmix_batch *, batch);
    FIELD(seqmix_conv_args, seqmix_tensor, x);
    FIELD(seqmix_conv_args, seqmix_tensor, weight);
    FIELD(seqmix_conv_args, seqmix_tensor, bias);
    FIELD(seqmix_conv_args, seqmix_tensor, state);
    FIELD(seqmix_conv_args, seqmix_tensor, y);
    end("seqmix_conv_args", sizeof(seqmix_conv_args));
}

static void print_scan(void)
{
    begin();
    FIELD(seqmix_scan_args, uint32_t, struct_size);
    FIELD(seqmix_scan_args, int32_t, dt_softplus);
    FIELD(seqmix_scan_args, const seqmix_batch *, batch);
    FIELD(seqmix_scan_args, seqmix_tensor, x);
    FIELD(seqmix_scan_args, seqmix_tensor, dt);
    FIELD(seqmix_scan_args, seqmix_tensor, A);
    FIELD(seqmix_scan_args, seqmix_tensor, B);
    FIELD(seqmix_scan_args, seqmix_tensor, C);
    FIELD(seqmix_scan_args, seqmix_tensor, skip);
    FIELD(seqmix_scan_args, seqmix_tensor, dt_bias);
    FIELD(seqmix_scan_args, seqmix_tensor, z);
    FIELD(seqmix_scan_args, seqmix_tensor, state);
    FIELD(seqmix_scan_args, seqmix_tensor, y);
    end("seqmix_scan_args", sizeof(seqmix_scan_args));
}

static void print_ssd(void)
{
    begin();
    FIELD(seqmix_ssd_args, uint32_t, struct_size);
    FIELD(seqmix_ssd_args, int32_t, dt_softplus);
    FIELD(seqmix_ssd_args, int32_t, chunk);
    FIELD(seqmix_ssd_args, float, dt_min);
    FIELD(seqmix_ssd_args, float, dt_max);
    FIELD(seqmix_ssd_args, int32_t, zero0);
    FIELD(seqmix_ssd_args, const seqmix_batch *, batch);
    FIELD(seqmix_ssd_args, seqmix_tensor, x);
    FIELD(seqmix_ssd_args, seqmix_tensor, dt);
    FIELD(seqmix_ssd_args, seqmix_tensor, A);
    FIELD(seqmix_ssd_args, seqmix_tensor, B);
    FIELD(seqmix_ssd_args, seqmix_tensor, C);
    FIELD(seqmix_ssd_args, seqmix_tensor, skip);
    FIELD(seqmix_ssd_args, seqmix_tensor, dt_bias);
    FIELD(seqmix_ssd_args, seqmix_tensor, z);
    FIELD(seqmix_ssd_args, seqmix_tensor, state);
    FIELD(seqmix_ssd_args, seqmix_tensor, y);
    end("seqmix_ssd_args", sizeof(seqmix_ssd_args));
}

static void print_deltanet(void)
{
    begin();
    FIELD(seqmix_deltanet_args, uint32_t, struct_size);
    FIELD(seqmix_deltanet_args, int32_t, gate_kind);
    FIELD(seqmix_deltanet_args, int32_t, beta_kind);
    FIELD(seqmix_deltanet_args, int32_t, qk_l2norm);
    FIELD(seqmix_deltanet_args, int32_t, head_map);
    FIELD(seqmix_deltanet_args, int32_t, chunk);
    FIELD(seqmix_deltanet_args, float, eps);
    FIELD(seqmix_deltanet_args, float, scale);
    FIELD(seqmix_deltanet_args, float, gate_lower_bound);
    FIELD(seqmix_deltanet_args, int32_t, zero0);
    FIELD(seqmix_deltanet_args, const seqmix_batch *, batch);
    FIELD(seqmix_deltanet_args, seqmix_tensor, q);
    FIELD(seqmix_deltanet_args, seqmix_tensor, k);
    FIELD(seqmix_deltanet_args, seqmix_tensor, v);
    FIELD(seqmix_deltanet_args, seqmix_tensor, gate);
    FIELD(seqmix_deltanet_args, seqmix_tensor, beta);
    FIELD(seqmix_deltanet_args, seqmix_tensor, A);
    FIELD(seqmix_deltanet_args, seqmix_tensor, dt_bias);
    FIELD(seqmix_deltanet_args, seqmix_tensor, state);
    FIELD(seqmix_deltanet_args, seqmix_tensor, o);
    end("seqmix_deltanet_args", sizeof(seqmix_deltanet_args));
}

static void print_inverse_and_norm(void)
{
    begin();
    FIELD(seqmix_inverse_args, uint32_t, struct_size);
    FIELD(seqmix_inverse_args, int32_t, zero0);
    FIELD(seqmix_inverse_args, seqmix_tensor, a);
    FIELD(seqmix_inverse_args, seqmix_tensor, inv);
    end("seqmix_inverse_args", sizeof(seqmix_inverse_args));

    begin();
    FIELD(seqmix_norm_args, uint32_t, struct_size);
    FIELD(seqmix_norm_args, int32_t, group);
    FIELD(seqmix_norm_args, int32_t, norm_before_gate);
    FIELD(seqmix_norm_args, int32_t, gate_act);
    FIELD(seqmix_norm_args, int32_t, weight_plus_one);
    FIELD(seqmix_norm_args, float, eps);
    FIELD(seqmix_norm_args, seqmix_tensor, x);
    FIELD(seqmix_norm_args, seqmix_tensor, z);
    FIELD(seqmix_norm_args, seqmix_tensor, weight);
    FIELD(seqmix_norm_args, seqmix_tensor, y);
    end("seqmix_norm_args", sizeof(seqmix_norm_args));
}

typedef seqmix_status (*ctx_create_fn)(const seqmix_ctx_desc *, seqmix_ctx **, char *, size_t);
typedef void (*ctx_destroy_fn)(seqmix_ctx *);
typedef seqmix_status (*ctx_set_stream_fn)(seqmix_ctx *, void *);
typedef const char *(*last_error_fn)(const seqmix_ctx *);
typedef const char *(*status_name_fn)(seqmix_status);
typedef seqmix_status (*op_query_fn)(seqmix_ctx *, int32_t, const void *, int32_t, void *);
typedef seqmix_status (*batch_check_fn)(const seqmix_batch *, int64_t, int64_t, char *, size_t);
typedef const void *(*experimental_fn)(uint32_t);

#define OP_TYPES(family)                                                                                               \
    typedef seqmix_status (*family##_fn)(seqmix_ctx *, const seqmix_##family##_args *, void *, size_t);                \
    typedef seqmix_status (*family##_workspace_fn)(seqmix_ctx *, const seqmix_##family##_args *, size_t *)
OP_TYPES(conv);
OP_TYPES(scan);
OP_TYPES(ssd);
OP_TYPES(deltanet);
OP_TYPES(inverse);
OP_TYPES(norm);

#define OP_SLOTS(family, name)                                                                                         \
    FIELD(api, family##_fn, name);                                                                                     \
    FIELD(api, family##_workspace_fn, name##_workspace)

static void print_api(void)
{
    begin();
    FIELD(api, uint32_t, struct_size);
    FIELD(api, uint32_t, abi_version);
    FIELD(api, ctx_create_fn, ctx_create);
    FIELD(api, ctx_destroy_fn, ctx_destroy);
    FIELD(api, ctx_set_stream_fn, ctx_set_stream);
    FIELD(api, last_error_fn, last_error);
    FIELD(api, status_name_fn, status_name);
    FIELD(api, op_query_fn, op_query);
    FIELD(api, batch_check_fn, batch_check);
    FIELD(api, experimental_fn, experimental);
    OP_SLOTS(conv, short_conv_rows);
    OP_SLOTS(conv, short_conv_step);
    OP_SLOTS(scan, selective_scan_rows);
    OP_SLOTS(scan, selective_scan_step);
    OP_SLOTS(ssd, ssd_chunk_forward);
    OP_SLOTS(ssd, ssd_step);
    OP_SLOTS(deltanet, deltanet_chunk_forward);
    OP_SLOTS(deltanet, deltanet_step);
    OP_SLOTS(inverse, unit_lower_inverse);
    OP_SLOTS(norm, gated_rms_norm_rows);
    end("seqmix_api", sizeof(api));
}

static void print_codes(void)
{
    CONSTANT(SEQMIX_OK);
    CONSTANT(SEQMIX_ERR_INVALID_ARG);
    CONSTANT(SEQMIX_ERR_SHAPE);
    CONSTANT(SEQMIX_ERR_STRIDE);
    CONSTANT(SEQMIX_ERR_DTYPE);
    CONSTANT(SEQMIX_ERR_ALIAS);
    CONSTANT(SEQMIX_ERR_STRUCT_TOO_NEW);
    CONSTANT(SEQMIX_ERR_UNSUPPORTED);
    CONSTANT(SEQMIX_ERR_UNAVAILABLE);
    CONSTANT(SEQMIX_ERR_OUT_OF_MEMORY);
    CONSTANT(SEQMIX_ERR_WORKSPACE);
    CONSTANT(SEQMIX_ERR_BACKEND);
    CONSTANT(SEQMIX_ERR_INTERNAL);
    CONSTANT(SEQMIX_F32);
    CONSTANT(SEQMIX_BF16);
    CONSTANT(SEQMIX_F16);
    CONSTANT(SEQMIX_MAX_RANK);
    CONSTANT(SEQMIX_WORKSPACE_ALIGN);
    CONSTANT(SEQMIX_BACKEND_CPU);
    CONSTANT(SEQMIX_BACKEND_CUDA);
    CONSTANT(SEQMIX_CTX_FAST);
    CONSTANT(SEQMIX_LEVEL_BEST);
    CONSTANT(SEQMIX_LEVEL_CPU_REF);
    CONSTANT(SEQMIX_LEVEL_CPU_GENERIC);
    CONSTANT(SEQMIX_LEVEL_CPU_AVX2);
    CONSTANT(SEQMIX_LEVEL_CPU_AVX512);
    CONSTANT(SEQMIX_LEVEL_CPU_AMX);
    CONSTANT(SEQMIX_LEVEL_CUDA_SIMPLE);
    CONSTANT(SEQMIX_LEVEL_CUDA_SM80);
    CONSTANT(SEQMIX_LEVEL_CUDA_SM90);
}

static void print_options(void)
{
    CONSTANT(SEQMIX_OP_SHORT_CONV_ROWS);
    CONSTANT(SEQMIX_OP_SHORT_CONV_STEP);
    CONSTANT(SEQMIX_OP_SELECTIVE_SCAN_ROWS);
    CONSTANT(SEQMIX_OP_SELECTIVE_SCAN_STEP);
    CONSTANT(SEQMIX_OP_SSD_CHUNK_FORWARD);
    CONSTANT(SEQMIX_OP_SSD_STEP);
    CONSTANT(SEQMIX_OP_DELTANET_CHUNK_FORWARD);
    CONSTANT(SEQMIX_OP_DELTANET_STEP);
    CONSTANT(SEQMIX_OP_UNIT_LOWER_INVERSE);
    CONSTANT(SEQMIX_OP_GATED_RMS_NORM_ROWS);
    CONSTANT(SEQMIX_QUERY_KERNEL);
    CONSTANT(SEQMIX_QUERY_GRAIN);
    CONSTANT(SEQMIX_QUERY_LEVEL);
    CONSTANT(SEQMIX_ACT_NONE);
    CONSTANT(SEQMIX_ACT_SILU);
    CONSTANT(SEQMIX_GATE_NONE);
    CONSTANT(SEQMIX_GATE_LOG);
    CONSTANT(SEQMIX_GATE_ALPHA);
    CONSTANT(SEQMIX_GATE_SOFTPLUS);
    CONSTANT(SEQMIX_GATE_BOUNDED_SIGMOID);
    CONSTANT(SEQMIX_BETA_VALUE);
    CONSTANT(SEQMIX_BETA_SIGMOID);
    CONSTANT(SEQMIX_BETA_SIGMOID2);
    CONSTANT(SEQMIX_HEADS_GROUPED);
    CONSTANT(SEQMIX_HEADS_TILED);
    CONSTANT(SEQMIX_NORM_GATE_SILU);
    CONSTANT(SEQMIX_NORM_GATE_SIGMOID);
}

int main(void)
{
    print_tensor();
    print_batch();
    print_context();
    print_conv();
    print_scan();
    print_ssd();
    print_deltanet();
    print_inverse_and_norm();
    print_api();
    print_codes();
    print_options();
    return failures != 0;
}
