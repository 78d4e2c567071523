/* Regard: fused multi-head attention. C ABI, plain C11.
 *
 * A call in three steps: describe a problem, plan it, run the plan.
 *
 *   regard_problem* problem;  regard_plan* plan;
 *   regard_problem_parse("fwd bf16 b=2 h=16 s=1024 d=128 mask=causal", &problem);
 *   regard_plan_create(problem, NULL, &plan);
 *   regard_arguments arguments = REGARD_ARGUMENTS_INIT;
 *   arguments.tensor[REGARD_Q] = ...;                          // K, V, O likewise
 *   regard_plan_run(plan, &arguments, workspace, regard_plan_workspace_bytes(plan), NULL);
 *
 * Every function returns a status and never throws, aborts or prints. Handles may be used from several
 * threads at once. A pthread_cancel of a thread that is in a call takes effect after the call. Sizes and
 * strides are int64, in elements. No initialisation is needed.
 */
#ifndef REGARD_REGARD_H
#define REGARD_REGARD_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define REGARD_API __attribute__((visibility("default")))

/* In C an enumeration holds any int. In C++ it does so only with an explicit type; then a value without an
 * enumerator is an error that a call reports, and not undefined behaviour. */
#ifdef __cplusplus
#define REGARD_IS_INT : int
#else
#define REGARD_IS_INT
#endif

/* ---- status ------------------------------------------------------------------------------------------ */

typedef enum regard_status REGARD_IS_INT {
  REGARD_OK = 0,
  REGARD_INVALID = 1,    /* the input is wrong: text, JSON, a tensor, a setting, a file */
  REGARD_REFUSED = 2,    /* valid input that nothing here solves; the message says what would */
  REGARD_NO_KERNEL = 3,  /* planned, but a kernel was neither found nor compiled; the message says why */
  REGARD_NO_MEMORY = 4,  /* memory, files or processes ran out: the next call may succeed */
  REGARD_INTERNAL = 5,   /* a defect of Regard */
  REGARD_INTERRUPTED = 6 /* by the function of regard_interrupt_if; the next call starts again */
} regard_status;

/* "ok", "invalid", "refused", "no_kernel", "no_memory", "internal", "interrupted". */
REGARD_API const char* regard_status_name(regard_status status);
/* The sentence of the last failed call on this thread: what was wrong and what would work. Valid until the
 * next failed call on this thread; "" when none failed. Where memory ran out for the sentence itself, it is
 * "out of memory", and from then on also on threads where none failed. It is UTF-8 on one line, with escapes
 * such as \x1b in place of control characters and of bytes that are not UTF-8; only compiler output keeps its
 * lines. */
REGARD_API const char* regard_status_message(void);
REGARD_API const char* regard_version(void); /* "0.1.0" */

/* Frees a string that a function returned through `char**`. NULL is allowed. */
REGARD_API void regard_string_free(char* string);

/* ---- tensors ----------------------------------------------------------------------------------------- */

typedef enum regard_dtype REGARD_IS_INT {
  REGARD_FP32 = 0,
  REGARD_BF16 = 1,
  REGARD_FP16 = 2,
  REGARD_FP8 = 3, /* e4m3, as OCP defines it */
  REGARD_FP8_E5M2 = 4,
  REGARD_INT8 = 5, /* of a KV cache, with descale factors */
  /* e4m3 of AMD's CDNA3: no infinity, no -0, and the same bits mean half of OCP's number */
  REGARD_FP8_FNUZ = 6,
  REGARD_FP8_E5M2_FNUZ = 7, /* e5m2, likewise */
  REGARD_INT32 = 16,
  REGARD_UINT32 = 17,
  REGARD_UINT8 = 18,
  REGARD_UINT64 = 19,
  REGARD_INT64 = 20
} regard_dtype;

/* A strided view of memory. The last dimension must be contiguous. data == NULL: absent, which is allowed for
 * optional inputs; if the tensor has no elements, data can be anything. */
typedef struct regard_tensor {
  void* data;
  regard_dtype dtype;
  int32_t rank; /* 1 to 4 */
  int64_t shape[4];
  int64_t strides[4]; /* in elements */
} regard_tensor;

/* The roles of tensors in a problem. Shapes are logical; the strides determine the memory order: dense Q is
 * indexed [b, sq, hq, d] whether stored as bshd, bhsd or sbhd. Varlen tensors are [tokens, heads, dim]. */
typedef enum regard_role REGARD_IS_INT {
  REGARD_Q,            /* [b,sq,hq,d]  | [tq,hq,d]  */
  REGARD_K,            /* [b|cache,sk,hk,d]  | [tk,hk,d]  | pages [pages,paged,hk,d]; in the type `kv` */
  REGARD_V,            /* [b|cache,sk,hk,dv] | [tk,hk,dv] | pages [pages,paged,hk,dv]; likewise */
  REGARD_O,            /* [b,sq,hq,dv] | [tq,hq,dv]; forward and merge write it, backward reads it */
  REGARD_LSE,          /* fp32 [b,hq,sq] | [hq,tq]; natural log; likewise */
  REGARD_GRAD_O,       /* like O */
  REGARD_GRAD_Q,       /* like Q */
  REGARD_GRAD_K,       /* like K: summed over the query heads of the group */
  REGARD_GRAD_V,       /* like V */
  REGARD_BIAS,         /* [1|b, 1|hq, 1|sq, sk], in the problem's bias_type */
  REGARD_GRAD_BIAS,    /* [1|b, 1|hq, sq, sk], same type: summed over the first two where BIAS shares them */
  REGARD_ALIBI,        /* fp32 [hq] or [b,hq] slopes */
  REGARD_SINK,         /* fp32 [hq] learned sink, in scaled-score space */
  REGARD_GRAD_SINK,    /* fp32 [hq] */
  REGARD_OFFSETS_Q,    /* int32 [b+1], cumulative physical offsets, first 0 (varlen) */
  REGARD_OFFSETS_K,    /* int32 [b+1] */
  REGARD_LENGTHS_Q,    /* int32 [b], optional logical lengths (`lengths`) */
  REGARD_LENGTHS_K,    /* int32 [b]; with new tokens: the cache's lengths before them. In a cache, a negative
                        * length means no keys, and that no new tokens are written */
  REGARD_RANGES,       /* int32 [1|b, sq, 2] | [tq, 2]: query row sees keys [lo, hi) */
  REGARD_BITS,         /* uint32 [1|b, 1|hq, 1|sq, ceil(sk/32)]: bit j%32 of word j/32 set = key j visible */
  REGARD_DROPOUT_MASK, /* uint8 [b,hq,sq,sk] | [hq,tq,sk]: 1 = kept, for tests */
  REGARD_DESCALE_Q,    /* fp32 [1] or [1|b,hk]; any strides */
  REGARD_DESCALE_K,    /* fp32 [1], [1|b,hk], [pages,hk], or K's shape without d; any strides. With
                        * `descale=columns` K's shape with dv/128 for d; the last stride is 1 */
  REGARD_DESCALE_V,    /* like DESCALE_K */
  REGARD_SEED, /* uint64 [2]: dropout seed and offset in memory; absent: the values in regard_arguments */
  /* A KV cache, whose memory is K and V: new tokens, where they go, and where pages are. */
  REGARD_K_NEW,        /* [b,snew,hk,d] | [tnew,hk,d]: keys to be written into K, in Q's type */
  REGARD_V_NEW,        /* [b,snew,hk,dv] | [tnew,hk,dv] */
  REGARD_ROPE_COS,     /* [rope_rows, rotary/2], in the type `rope_type`: row = position */
  REGARD_ROPE_SIN,     /* like ROPE_COS */
  REGARD_CACHE_INDEX,  /* int32 [b]: which of the `cache` sequences of K and V sequence i is; absent: i */
  REGARD_PAGE_TABLE,   /* int32 [b, ceil(sk/paged)]: page of each block of a sequence (table=vllm) */
  REGARD_PAGE_OFFSETS, /* int32 [b+1], cumulative page counts, first 0 (table=sglang) */
  REGARD_PAGE_LIST,    /* int32 [at most b*ceil(sk/paged)]: pages, one sequence after another */
  REGARD_LAST_PAGE_LENGTHS, /* int32 [b]: tokens in the last page of each sequence, 1 to paged */
  REGARD_OFFSETS_NEW,       /* int32 [b+1], cumulative offsets of packed new tokens, first 0 */
  REGARD_SLOTS,        /* int32 or int64 [tnew]: page * paged + row, or sequence * sk + row; negative: none */
  REGARD_POSITIONS,    /* int32 [b], or of each new token: [b,snew] | [tnew] */
  REGARD_LEFT_PADDING, /* int32 [b]: the row at which a sequence's keys begin; lengths count it */
  REGARD_PARTIAL_O,    /* [parts, tokens, hq, dv]; tokens: b*sq or tq; merge reads it */
  REGARD_PARTIAL_LSE,  /* fp32 [parts, hq, tokens]; any strides */
  REGARD_GRAD_LSE,     /* like LSE: the gradient of what is differentiated with respect to it (`dlse`) */
  REGARD_K_ROPE,       /* like K: the last d - dv columns (`latent k_rope`); K then has only the first dv. In
                        * Q's type with `descale=columns` */
  /* The tensors that score= and keep= read, in the order of tensors=; any sizes from 1 on, any strides that
   * are not negative. An fp32 tensor may be bf16 or fp16, an int32 tensor int64 (its low 32 bits are read) or
   * uint8; a bool tensor is uint8. One without dimensions is [1]. */
  REGARD_CAPTURED_0,
  REGARD_CAPTURED_1,
  REGARD_CAPTURED_2,
  REGARD_CAPTURED_3,
  REGARD_CAPTURED_4,
  REGARD_CAPTURED_5,
  REGARD_CAPTURED_6,
  REGARD_CAPTURED_7,
  REGARD_GRAD_CAPTURED_0, /* fp32, the shape of CAPTURED_0 (`grads`) */
  REGARD_GRAD_CAPTURED_1,
  REGARD_GRAD_CAPTURED_2,
  REGARD_GRAD_CAPTURED_3,
  REGARD_GRAD_CAPTURED_4,
  REGARD_GRAD_CAPTURED_5,
  REGARD_GRAD_CAPTURED_6,
  REGARD_GRAD_CAPTURED_7,
  REGARD_ROW_MAX, /* like LSE: the largest score that a row sees (`row_max`); forward writes it */
  /* New roles are added here, at the end: callers built with an older header pass a shorter array. */
  REGARD_ROLE_COUNT
} regard_role;

/* "q", "k", ..., "page_table": the name used by the CLI, Python and messages. NULL for a bad role. */
REGARD_API const char* regard_role_name(regard_role role);

typedef enum regard_use REGARD_IS_INT {
  REGARD_UNUSED = 0,
  REGARD_INPUT = 1,
  REGARD_OUTPUT = 2,
  REGARD_OPTIONAL_INPUT = 3,
  REGARD_INPUT_OUTPUT = 4 /* modified in place: a cache that new tokens are written into */
} regard_use;

#undef REGARD_IS_INT

/* ---- problem ----------------------------------------------------------------------------------------- */

typedef struct regard_problem regard_problem;

/* Parses one line of problem text (docs/problem.md) and validates it. */
REGARD_API regard_status regard_problem_parse(const char* text, regard_problem** problem);
REGARD_API regard_status regard_problem_from_json(const char* json, regard_problem** problem);
REGARD_API void regard_problem_destroy(regard_problem* problem);
/* Canonical text and JSON; owned by the problem. */
REGARD_API const char* regard_problem_text(const regard_problem* problem);
REGARD_API const char* regard_problem_json(const regard_problem* problem);
/* Floating-point operations, visible pairs only; bytes of all inputs and outputs. */
REGARD_API double regard_problem_flops(const regard_problem* problem);
/* How the problem uses a role, and the tensor it expects: dtype, rank, shape, strides of its layout. */
REGARD_API regard_status regard_problem_tensor(const regard_problem* problem, regard_role role,
                                               regard_use* use, regard_tensor* expected);
/* The role of a tensor that the problem's functions read, by its name in tensors=. */
REGARD_API regard_status regard_problem_captured(const regard_problem* problem, const char* name,
                                                 regard_role* role);
/* Every word of problem text with its documentation, as a JSON array. */
REGARD_API regard_status regard_problem_words(char** json);

/* ---- plan -------------------------------------------------------------------------------------------- */

typedef struct regard_plan regard_plan;

typedef struct regard_plan_options {
  size_t size;        /* sizeof(regard_plan_options) */
  const char* target; /* NULL: the best CPU target; "cuda", "hip": the best for that kind's current device */
  const char* family; /* NULL: any; else only this family or kernel, e.g. "generic"; numbers of its tile can
                       * follow: "sm90_forward cluster=2". Or the whole name of a candidate. Numbers of parts
                       * of the keys and of threads can end it: "cpu_decode splits=8 threads=2" */
  int32_t threads;    /* CPU targets: 0 = REGARD_THREADS or all cores */
  const char*
      functions; /* score= and keep=, NULL: by words where they say them, else with keep as ranges of keys,
                  * else as bits, else interpreted; "words", "ranges", "bits", "interpreted": only so */
} regard_plan_options;
#define REGARD_PLAN_OPTIONS_INIT {sizeof(regard_plan_options), NULL, NULL, 0, NULL}

REGARD_API regard_status regard_plan_create(const regard_problem* problem, const regard_plan_options* options,
                                            regard_plan** plan);
REGARD_API void regard_plan_destroy(regard_plan* plan);
/* Gets every kernel of the plan now (embedded, cached or compiled), so that the first run does not have to.
 */
REGARD_API regard_status regard_plan_prepare(regard_plan* plan);
/* "cpu-avx2", "sm_90a", ...: where it runs. */
REGARD_API const char* regard_plan_target(const regard_plan* plan);
/* 1 where tensors and workspace are in GPU memory, 0 where they are in host memory. */
REGARD_API int32_t regard_plan_on_gpu(const regard_plan* plan);
REGARD_API int64_t regard_plan_workspace_bytes(const regard_plan* plan); /* needs 64-byte alignment */
/* The plan as JSON: target, family, stages with kernel key, grid, and, once prepared, the tier each came
 * from. */
REGARD_API regard_status regard_plan_json(const regard_plan* plan, char** json);
/* Every candidate with its verdict, for a problem on a target (NULL: this machine's best). If the whole
 * problem is refused, that is not an error of this call: the explanation says so. format: "text", where
 * refused candidates are grouped by rule, "all", with a line for each, or "json". */
REGARD_API regard_status regard_explain(const regard_problem* problem, const regard_plan_options* options,
                                        const char* format, char** explanation);

/* A caller's own choice among the candidates of a problem: gets the names of those that its rules accept, as
 * regard_explain prints them, first the one that would be used without it, and the cost model's estimate of
 * each in seconds. Returns one of the names, which must stay valid until the function returns again in this
 * thread; NULL: the first; "": it failed, and the problem is refused. */
typedef const char* (*regard_choice)(void* context, const regard_problem* problem, const char* target,
                                     const char* const* candidates, const double* seconds, int64_t count);

/* Sets that function for plans that are made from now on, in all threads of the process; NULL removes it. It
 * is called in the thread that makes a plan or explains a problem, but not for a remembered plan, not where
 * options.family names the kernels, and not where the problem is batch_invariant. For an unknown name the
 * first candidate is used, with a warning; with REGARD_STRICT the problem is refused. It may read the
 * problem, and must not make plans. */
REGARD_API regard_status regard_choose_by(regard_choice choose, void* context);

/* From now on plans follow the tuning records of this file (docs/tuning.md), instead of those of
 * REGARD_TUNING; NULL: no records. Nothing is measured in a call: `regard tune` writes such files. */
REGARD_API regard_status regard_use_tuning(const char* path);
/* Makes the record of measurements on this machine, a line of such a file. Given are the names of candidates,
 * first the one to be used, and how many seconds a call takes with each. options.family is not used. */
REGARD_API regard_status regard_tuning_record(const regard_problem* problem,
                                              const regard_plan_options* options,
                                              const char* const* candidates, const double* seconds,
                                              int64_t count, char** record);

/* ---- run --------------------------------------------------------------------------------------------- */

/* `size` tells the library which version of this header the caller has, here and in regard_plan_options. A
 * caller with an older header lacks the roles that were added later: they are absent. A caller with a newer
 * header must set members that this library does not know to zero. */
typedef struct regard_arguments {
  size_t size;           /* sizeof(regard_arguments) */
  uint64_t seed, offset; /* dropout, when the SEED tensor is absent */
  regard_tensor tensor[REGARD_ROLE_COUNT];
} regard_arguments;
#define REGARD_ARGUMENTS_INIT             \
  {                                       \
    sizeof(regard_arguments), 0, 0, {{0}} \
  }

/* Runs all stages. The workspace is the caller's; nothing is allocated. Concurrent calls need a workspace
 * each: a shared one gives wrong results, which only debug builds and REGARD_VERIFY notice, and only on a CPU
 * target. On a CPU target the call returns when the outputs are complete, and stream is NULL. On a GPU target
 * tensors and workspace are GPU memory, all on one device; the work is enqueued in the stream (a CUstream or
 * a hipStream_t; NULL: the default stream) and not waited for. A stream that captures a graph needs a plan
 * that was prepared on its device before. A tensor that is written must not share memory with another one of
 * the call; tensors whose rows are interleaved share none. */
REGARD_API regard_status regard_plan_run(const regard_plan* plan, const regard_arguments* arguments,
                                         void* workspace, int64_t workspace_bytes, void* stream);
/* Plan (remembered), workspace and run in one call, for callers that do not manage workspaces; on a GPU in
 * the default stream. */
REGARD_API regard_status regard_attention(const regard_problem* problem, const regard_plan_options* options,
                                          const regard_arguments* arguments);
/* Compares the outputs in `arguments` with the fp64 oracle computed from its inputs. report: JSON, per output
 * the largest absolute and relative error, the tolerance and "ok". The status is REGARD_OK even when the
 * check fails. */
REGARD_API regard_status regard_check(const regard_problem* problem, const regard_arguments* arguments,
                                      char** report);
/* Runs a call that REGARD_SAVE_CALLS saved in a folder again, and compares the results with the saved ones:
 * by default on its own target with its own kernels and threads. With oracle = 1 both results are also judged
 * as by regard_check; 0: they are not. report: JSON with a verdict, "same_bits", "within_bound", "different"
 * or "same_error", and for each output its differences (docs/saved-calls.md). The status is REGARD_OK
 * whatever the verdict is. */
REGARD_API regard_status regard_rerun(const char* folder, const regard_plan_options* options, int32_t oracle,
                                      char** report);

/* ---- memory ------------------------------------------------------------------------------------------ */

/* Memory of a target (of the calling thread's current device; NULL: the host), aligned to 64 bytes, for
 * callers that have no allocator for it. Copies go in any direction and are synchronous. */
REGARD_API regard_status regard_memory_allocate(const char* target, int64_t bytes, void** memory);
REGARD_API regard_status regard_memory_free(void* memory);
REGARD_API regard_status regard_memory_copy(void* to, const void* from, int64_t bytes);
/* Returns when all work in a target's stream is done; immediately on a CPU target. */
REGARD_API regard_status regard_stream_wait(const char* target, void* stream);
/* The same for a stream of the device that the memory is on. */
REGARD_API regard_status regard_memory_wait(const void* memory, void* stream);

/* ---- what is here ------------------------------------------------------------------------------------ */

/* Machine, targets, compilers, settings, counters by tier: JSON. */
REGARD_API regard_status regard_info(char** json);
/* Kernels by target, profile and tier: JSON. NULL = no filter. */
REGARD_API regard_status regard_list(const char* target, const char* profile, char** json);
/* Gets one kernel, by its text as regard_list gives it, into the cache, and compiles it if no tier has it;
 * GPU kernels do not need a GPU for this. JSON: tier, seconds, the GPU resources that the compiler reports,
 * and, where the cache could not take it, why (not_kept). A kernel that needs more registers or shared memory
 * than its target has is an error. */
REGARD_API regard_status regard_prepare_kernel(const char* kernel, char** json);
/* From now on kernels come from this bundle as well (docs/bundles.md), after those in the library and in
 * earlier bundles. A kernel that was not found before is looked for again. A world-writable bundle is
 * refused, unless a key in REGARD_TRUSTED_KEYS has signed it. */
REGARD_API regard_status regard_bundle_add(const char* path);
/* The same for the bundle of an installed package that no program has named: it forbids nothing (its
 * "undeclared" is ignored). Regard's Python package makes this call. */
REGARD_API regard_status regard_package_bundle(const char* path);
/* Where the Python that runs in this process has its packages, preferred ones first; compilers can be
 * installed as packages (docs/compile.md). Only the first call in a process counts; folders can be NULL when
 * count is 0. Regard's Python package makes this call. */
REGARD_API regard_status regard_package_folders(const char* const* folders, int64_t count);
/* Sets a callback by which a caller can cancel compiles. Calls that compile a kernel, or wait for another
 * thread or process to compile it, call it in their own thread several times a second: once it returns
 * nonzero, which it must then do until the call has ended, the compiler is killed, its leftovers are removed,
 * and the call returns REGARD_INTERRUPTED. It applies to all threads of the process and replaces the previous
 * callback; NULL: none. It must not call Regard. Regard's Python package sets it, for Ctrl-C. */
REGARD_API void regard_interrupt_if(int (*asked)(void));
/* verb: "list", "stat", "verify", "gc", "clean"; result: JSON. */
REGARD_API regard_status regard_cache(const char* verb, char** json);
/* Export writes the cache's kernels into a bundle, for another machine; import puts a bundle's kernels into
 * the cache, as far as they load. Both include only kernels whose sources this library has; on import, an
 * entry of the cache that is as good is kept, and counted. JSON: "kernels", how many, and "left_out", a list
 * with "kernel", "why" and whether it is "damaged". A cache without kernels is refused. */
REGARD_API regard_status regard_cache_export(const char* bundle, char** json);
REGARD_API regard_status regard_cache_import(const char* bundle, char** json);

/* ---- ahead of time ------------------------------------------------------------------------------------- */

typedef struct regard_build_options {
  size_t size;      /* sizeof(regard_build_options) */
  const char* text; /* the manifest itself; NULL: it is read from the file */
  /* Folder; NULL: "<namespace>-build", or "<name of the file>-build", next to the manifest. */
  const char* output;
  int32_t jobs; /* compiles at a time; 0: as many as cores and memory allow */
  int32_t only; /* 0: build; 1: only report the numbers; 2: report them and list every kernel */
  /* Called with the progress as JSON, from threads of the build, never two at once; can be NULL. It must not
   * call Regard. */
  void (*progress)(void* context, const char* json);
  void* context;
} regard_build_options;
#define REGARD_BUILD_OPTIONS_INIT {sizeof(regard_build_options), NULL, NULL, 0, 0, NULL, NULL}

/* Builds kernels ahead of time: reads a manifest (docs/build.md), whose relative paths start at its folder,
 * and builds what it asks for. JSON: what was built, or would be. options can be NULL. */
REGARD_API regard_status regard_build(const char* manifest, const regard_build_options* options, char** json);

#ifdef __cplusplus
}
#endif
#endif /* REGARD_REGARD_H */
