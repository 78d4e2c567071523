// The library ck_fused_attn, which the ROCm build of TransformerEngine calls for attention, implemented with
// Regard: the same functions with the same symbols, so that it can be linked in place of that library. Both
// of its interfaces are here, the structs of newer versions and the long argument lists of older ones.
// ../../README.md says what they support.
#ifndef CK_FUSED_ATTN_CK_FUSED_ATTN_HPP
#define CK_FUSED_ATTN_CK_FUSED_ATTN_HPP

#include <cstddef>
#include <cstdint>

#if __has_include(<hip/hip_runtime.h>)
#include <hip/hip_runtime.h>
#else
// These replace HIP's types where HIP is not installed. The symbols are the same.
enum hipError_t { hipSuccess = 0 };
struct ihipStream_t;
using hipStream_t = ihipStream_t*;
#endif

#pragma GCC visibility push(default)  // the library exports nothing but these
namespace ck_fused_attn {

enum DType { kFloat16 = 0, kBFloat16 = 1, kNumTypes };
enum MaskType { no_mask = 0, mask_top_left = 1, mask_bottom_right = 2, window_generic = 3 };
enum BiasType { no_bias = 0, elementwise_bias = 1, alibi = 2 };

// Sizes: batch, query heads, key/value heads, lengths, head dimensions. Strides are in elements. A stream
// is a CUDA stream on an NVIDIA GPU, and null on a CPU.
//
// Every function returns hipSuccess or throws std::runtime_error with the status and a sentence that gives
// the reason, such as "refused: ...".

// ---- structs -------------------------------------------------------------------------------------------

// The fields are those of the version with learned sinks and a workspace from the caller. Structs of other
// versions have another layout, which cannot be detected here.
//
// If cu_seqlen_q_ptr is given, sequences are packed, and strides and sizes of batches have no meaning.
struct CKAttnCommonArgs {
  DType dtype = kNumTypes;
  std::uint64_t b = 0, h = 0, hg = 0, s_q = 0, s_kv = 0, d_qk = 0, d_v = 0;
  std::uint64_t bias_b = 0, bias_h = 0;  // the bias is [bias_b, bias_h, s_q, s_kv]
  std::uint64_t max_tokens_q = 0;        // packed

  const void* q_ptr = nullptr;
  std::uint64_t stride_b_q = 0, stride_h_q = 0, stride_s_q = 0;
  const void* k_ptr = nullptr;
  std::uint64_t stride_b_k = 0, stride_h_k = 0, stride_s_k = 0;
  const void* v_ptr = nullptr;
  std::uint64_t stride_b_v = 0, stride_h_v = 0, stride_s_v = 0;

  const void* bias_ptr = nullptr;
  const void* alibi_slope_ptr = nullptr;  // fp32 [h]
  BiasType attn_bias_type = no_bias;

  const void* cu_seqlen_q_ptr = nullptr;  // int32 [b + 1], like the following ones
  const void* cu_seqlen_kv_ptr = nullptr;
  const void* cu_seqlen_q_padded_ptr = nullptr;
  const void* cu_seqlen_kv_padded_ptr = nullptr;

  MaskType attn_mask_type = no_mask;
  std::int64_t window_size_left = -1;
  std::int64_t window_size_right = -1;

  float scaling_factor = 1.f;
  float dropout_probability = 0.f;
  void* philox_seed_ptr = nullptr;
  void* philox_offset_ptr = nullptr;

  const void* sink_ptr = nullptr;  // fp32 [h]: an extra logit in the softmax denominator of each head
  bool has_sink = false;
  std::int64_t sink_size = 0;  // 0

  std::uint64_t stride_b_o = 0, stride_h_o = 0, stride_s_o = 0;
  int how_v3_bf16_cvt = 0;

  bool is_group_mode() const { return cu_seqlen_q_ptr != nullptr; }
};

struct CKAttnFwdArgs : CKAttnCommonArgs {
  bool is_training = false;
  void* o_ptr = nullptr;
  void* lse_ptr = nullptr;
  bool uses_fwd_v3 = false;
};

struct CkAttnBwdArgs : CKAttnCommonArgs {
  std::uint64_t max_tokens_kv = 0;  // packed

  const void* o_ptr = nullptr;
  const void* lse_ptr = nullptr;
  const void* do_ptr = nullptr;
  std::uint64_t stride_b_do = 0, stride_h_do = 0, stride_s_do = 0;

  void* dq_ptr = nullptr;
  std::uint64_t stride_b_dq = 0, stride_h_dq = 0, stride_s_dq = 0;

  void* dk_expanded_ptr = nullptr;
  void* dv_expanded_ptr = nullptr;
  std::uint64_t stride_b_dk_expanded = 0, stride_h_dk_expanded = 0, stride_s_dk_expanded = 0;
  std::uint64_t stride_b_dv_expanded = 0, stride_h_dv_expanded = 0, stride_s_dv_expanded = 0;

  void* dk_ptr = nullptr;
  std::uint64_t stride_b_dk = 0, stride_h_dk = 0, stride_s_dk = 0;
  void* dv_ptr = nullptr;
  std::uint64_t stride_b_dv = 0, stride_h_dv = 0, stride_s_dv = 0;

  void* dbias_expanded_ptr = nullptr;
  void* dbias_ptr = nullptr;
  void* d_sink_ptr = nullptr;  // fp32 [h]

  void* lse_workspace_ptr = nullptr;
  void* aiter_workspace_ptr = nullptr;  // used if it has the bytes that ck_attn_bwd_workspace_size returns
  std::size_t aiter_workspace_bytes = 0;

  bool deterministic = false;
  bool uses_bwd_v3 = false;
  bool is_v3_atomic_fp32 = false;
};

hipError_t ck_attn_fwd(const CKAttnFwdArgs& args, hipStream_t stream);
hipError_t ck_attn_bwd(const CkAttnBwdArgs& args, hipStream_t stream);

// Bytes for aiter_workspace_ptr, computed without reading memory through any pointer.
std::size_t ck_attn_bwd_workspace_size(const CkAttnBwdArgs& args);

// Whether AITER's assembly kernels would run: never, as there are none here.
bool ck_attn_fwd_uses_v3(const CKAttnFwdArgs& args);
bool ck_attn_bwd_uses_v3(const CkAttnBwdArgs& args);

// The longest of b packed sequences, from their cumulative lengths or, if given, the padded ones. Waits for
// the work in the stream.
std::uint64_t get_runtime_max_seqlen(std::uint64_t b, const void* cu_seqlen_ptr,
                                     const void* cu_seqlen_padded_ptr, void* workspace, hipStream_t stream);

// ---- argument lists ------------------------------------------------------------------------------------

hipError_t ck_attn_fwd(DType dtype, std::uint64_t b, std::uint64_t h, std::uint64_t hg, std::uint64_t s_q,
                       std::uint64_t s_kv, std::uint64_t d_qk, std::uint64_t d_v, std::uint64_t bias_b,
                       std::uint64_t bias_h, const void* q, std::uint64_t stride_b_q,
                       std::uint64_t stride_h_q, std::uint64_t stride_s_q, const void* k,
                       std::uint64_t stride_b_k, std::uint64_t stride_h_k, std::uint64_t stride_s_k,
                       const void* v, std::uint64_t stride_b_v, std::uint64_t stride_h_v,
                       std::uint64_t stride_s_v, const void* bias, const void* alibi_slopes, bool is_training,
                       float scale, float dropout, void* philox_seed, void* philox_offset, BiasType bias_type,
                       MaskType mask_type, std::int64_t window_left, std::int64_t window_right, void* o,
                       std::uint64_t stride_b_o, std::uint64_t stride_h_o, std::uint64_t stride_s_o,
                       void* lse, bool uses_fwd_v3, int how_v3_bf16_cvt, hipStream_t stream);

hipError_t ck_attn_varlen_fwd(DType dtype, std::uint64_t b, std::uint64_t h, std::uint64_t hg,
                              std::uint64_t s_q, std::uint64_t s_kv, std::uint64_t d_qk, std::uint64_t d_v,
                              std::uint64_t max_tokens_q, const void* q, std::uint64_t stride_h_q,
                              std::uint64_t stride_s_q, const void* k, std::uint64_t stride_h_k,
                              std::uint64_t stride_s_k, const void* v, std::uint64_t stride_h_v,
                              std::uint64_t stride_s_v, const void* cu_seqlen_q, const void* cu_seqlen_kv,
                              const void* cu_seqlen_q_padded, const void* cu_seqlen_kv_padded,
                              bool is_training, float scale, float dropout, void* philox_seed,
                              void* philox_offset, MaskType mask_type, std::int64_t window_left,
                              std::int64_t window_right, void* o, std::uint64_t stride_h_o,
                              std::uint64_t stride_s_o, void* lse_thd, bool uses_fwd_v3, int how_v3_bf16_cvt,
                              hipStream_t stream);

hipError_t ck_attn_bwd(
    DType dtype, std::uint64_t b, std::uint64_t h, std::uint64_t hg, std::uint64_t s_q, std::uint64_t s_kv,
    std::uint64_t d_qk, std::uint64_t d_v, std::uint64_t bias_b, std::uint64_t bias_h, const void* q,
    std::uint64_t stride_b_q, std::uint64_t stride_h_q, std::uint64_t stride_s_q, const void* k,
    std::uint64_t stride_b_k, std::uint64_t stride_h_k, std::uint64_t stride_s_k, const void* v,
    std::uint64_t stride_b_v, std::uint64_t stride_h_v, std::uint64_t stride_s_v, const void* bias,
    const void* alibi_slopes, const void* o, std::uint64_t stride_b_o, std::uint64_t stride_h_o,
    std::uint64_t stride_s_o, const void* lse, const void* grad_o, std::uint64_t stride_b_do,
    std::uint64_t stride_h_do, std::uint64_t stride_s_do, float scale, float dropout, void* philox_seed,
    void* philox_offset, BiasType bias_type, MaskType mask_type, std::int64_t window_left,
    std::int64_t window_right, void* grad_q, std::uint64_t stride_b_dq, std::uint64_t stride_h_dq,
    std::uint64_t stride_s_dq, void* grad_q_sums, void* grad_k_expanded, void* grad_v_expanded,
    std::uint64_t stride_b_dk_expanded, std::uint64_t stride_h_dk_expanded,
    std::uint64_t stride_s_dk_expanded, std::uint64_t stride_b_dv_expanded,
    std::uint64_t stride_h_dv_expanded, std::uint64_t stride_s_dv_expanded, void* grad_k,
    std::uint64_t stride_b_dk, std::uint64_t stride_h_dk, std::uint64_t stride_s_dk, void* grad_v,
    std::uint64_t stride_b_dv, std::uint64_t stride_h_dv, std::uint64_t stride_s_dv, void* grad_bias_expanded,
    void* grad_bias, void* lse_workspace, bool deterministic, bool uses_bwd_v3, bool is_v3_atomic_fp32,
    int how_v3_bf16_cvt, hipStream_t stream);

hipError_t ck_attn_varlen_bwd(
    DType dtype, std::uint64_t b, std::uint64_t h, std::uint64_t hg, std::uint64_t s_q, std::uint64_t s_kv,
    std::uint64_t d_qk, std::uint64_t d_v, std::uint64_t max_tokens_q, std::uint64_t max_tokens_kv,
    const void* q, std::uint64_t stride_h_q, std::uint64_t stride_s_q, const void* k,
    std::uint64_t stride_h_k, std::uint64_t stride_s_k, const void* v, std::uint64_t stride_h_v,
    std::uint64_t stride_s_v, const void* cu_seqlen_q, const void* cu_seqlen_kv,
    const void* cu_seqlen_q_padded, const void* cu_seqlen_kv_padded, const void* o, std::uint64_t stride_h_o,
    std::uint64_t stride_s_o, const void* lse_thd, const void* grad_o, std::uint64_t stride_h_do,
    std::uint64_t stride_s_do, float scale, float dropout, void* philox_seed, void* philox_offset,
    MaskType mask_type, std::int64_t window_left, std::int64_t window_right, void* grad_q,
    std::uint64_t stride_h_dq, std::uint64_t stride_s_dq, void* grad_q_sums, void* grad_k_expanded,
    void* grad_v_expanded, std::uint64_t stride_h_dk_expanded, std::uint64_t stride_s_dk_expanded,
    std::uint64_t stride_h_dv_expanded, std::uint64_t stride_s_dv_expanded, void* grad_k,
    std::uint64_t stride_h_dk, std::uint64_t stride_s_dk, void* grad_v, std::uint64_t stride_h_dv,
    std::uint64_t stride_s_dv, void* lse_workspace, bool deterministic, bool uses_bwd_v3,
    bool is_v3_atomic_fp32, int how_v3_bf16_cvt, hipStream_t stream);

// Selects where later calls of this process compute, as TransformerEngine has no argument for it: "cuda" (the
// default), a CPU target such as "cpu-avx2", or null for the best CPU target of this machine.
void use_target(const char* target);

}  // namespace ck_fused_attn
#pragma GCC visibility pop
#endif  // CK_FUSED_ATTN_CK_FUSED_ATTN_HPP
