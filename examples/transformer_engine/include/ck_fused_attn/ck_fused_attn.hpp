// The library ck_fused_attn, to which the ROCm build of TransformerEngine hands its attention, made of
// Regard: the same functions by the same symbols, so that it is linked in that library's place.
// ../../README.md says what they take.
#ifndef CK_FUSED_ATTN_CK_FUSED_ATTN_HPP
#define CK_FUSED_ATTN_CK_FUSED_ATTN_HPP

#include <cstdint>

#if __has_include(<hip/hip_runtime.h>)
#include <hip/hip_runtime.h>
#else
// Where HIP is not installed, these stand for its types. The symbols come out the same.
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
// is a CUDA stream on a GPU of NVIDIA's, and null on a CPU.
//
// Every function returns hipSuccess or throws std::runtime_error with the status and the sentence of what
// was wrong, as "refused: ...".

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

// Where calls of this process compute from now on, as no argument of TransformerEngine's says it: "cuda",
// as at first, or a CPU target such as "cpu-avx2"; null is the best one of this machine.
void use_target(const char* target);

}  // namespace ck_fused_attn
#pragma GCC visibility pop
#endif  // CK_FUSED_ATTN_CK_FUSED_ATTN_HPP
