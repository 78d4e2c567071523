// The parts of Composable Kernel and of HIP that AITER's interface uses: the same names, numbers and fields,
// for machines that have neither.
#ifndef AITER_CK_TILE_NAMES_H
#define AITER_CK_TILE_NAMES_H

#include <cstdint>
#include <utility>
#include <variant>

#if __has_include(<hip/hip_runtime.h>)
#include <hip/hip_runtime.h>
#else
struct ihipStream_t;
using hipStream_t = ihipStream_t*;
#endif

namespace ck_tile {

using index_t = std::int32_t;

struct stream_config {
  hipStream_t stream_id_ = nullptr;  // a CUDA stream on an NVIDIA GPU, and null on a CPU
  bool time_kernel_ = false;         // run cold_niters_ times, then nrepeat_ times, and say how long one took
  int log_level_ = 0;
  int cold_niters_ = 3;
  int nrepeat_ = 10;
  bool is_gpu_timer_ = true;
  bool flush_cache_ = false;
  int rotating_count_ = 1;
};

enum class BlockAttentionKVCacheMemoryLayoutEnum { VECTORIZED_LAYOUT = 0, LINEAR_LAYOUT = 1 };
enum class BlockAttentionKVCacheLookupTableEnum { VLLM_BLOCK_TABLE_2D = 0, SGLANG_PAGE_TABLE_1D = 1 };

}  // namespace ck_tile

enum class mask_enum { no_mask = 0, mask_top_left, mask_bottom_right, window_generic };
enum class bias_enum { no_bias = 0, elementwise_bias = 1, alibi = 2 };
enum class quant_scale_enum { no_scale = 0, pertensor = 1, blockscale = 2, kv_blockscale = 3, mx = 4 };

/// Seed and offset of dropout: two numbers, or their addresses.
using drop_seed_offset_t =
    std::variant<std::pair<std::uint64_t, std::uint64_t>, std::pair<const void*, const void*>>;

struct fmha_fwd_splitkv_args {
  const void *q_ptr, *k_ptr, *v_ptr, *bias_ptr;
  void *lse_acc_ptr, *o_acc_ptr, *lse_ptr, *o_ptr;

  void* block_table_ptr;
  ck_tile::index_t batch_stride_block_table, page_block_size;
  bool is_gappy;
  const void* cache_batch_idx;

  const void *seqstart_q_ptr, *seqstart_k_ptr, *seqlen_k_ptr, *sink_ptr;

  ck_tile::index_t seqlen_q, seqlen_k, batch, max_seqlen_q, hdim_q, hdim_v, nhead_q, nhead_k, num_splits;
  float scale_s, scale_p, scale_o, logits_soft_cap;

  ck_tile::index_t stride_q, stride_k, stride_v, stride_bias, stride_o_acc, stride_o;
  ck_tile::index_t nhead_stride_q, nhead_stride_k, nhead_stride_v, nhead_stride_bias, nhead_stride_lse,
      nhead_stride_lse_acc, nhead_stride_o_acc, nhead_stride_o;
  ck_tile::index_t batch_stride_q, batch_stride_k, batch_stride_v, batch_stride_bias, batch_stride_lse,
      batch_stride_lse_acc, batch_stride_o_acc, batch_stride_o;
  ck_tile::index_t split_stride_lse_acc, split_stride_o_acc;
  ck_tile::index_t window_size_left, window_size_right, sink_size, mask_type;
};

struct fmha_batch_prefill_args {
  const void *q_ptr, *k_ptr, *v_ptr, *bias_ptr, *q_descale_ptr, *k_descale_ptr, *v_descale_ptr;
  void *rand_val_ptr, *lse_ptr, *o_ptr;
  const void *seqstart_q_ptr, *sink_ptr;

  ck_tile::index_t seqlen_q, seqlen_k, batch, max_seqlen_q, hdim_q, hdim_v, nhead_q, nhead_k;

  std::int32_t num_total_pages;
  ck_tile::index_t page_block_size;
  ck_tile::BlockAttentionKVCacheMemoryLayoutEnum kv_memory_layout;
  ck_tile::BlockAttentionKVCacheLookupTableEnum kv_lookup_table;
  void *kv_indptr, *kv_page_indices, *kv_last_page_lens, *seqlen_k_ptr;
  ck_tile::index_t batch_stride_block_table;

  float scale_s, scale_p, scale_o, logits_soft_cap;

  ck_tile::index_t stride_q, stride_k, stride_v, stride_bias, stride_randval, stride_o;
  ck_tile::index_t nhead_stride_q, nhead_stride_k, nhead_stride_v, nhead_stride_bias, nhead_stride_randval,
      nhead_stride_lse, nhead_stride_o;
  ck_tile::index_t batch_stride_q, batch_stride_k, batch_stride_v, batch_stride_bias, batch_stride_randval,
      batch_stride_lse, batch_stride_o;
  ck_tile::index_t window_size_left, window_size_right, sink_size, mask_type;

  float p_drop;
  bool s_randval;
  drop_seed_offset_t drop_seed_offset;
  ck_tile::index_t nblock_stride_kv_block_descale = 0, nhead_stride_kv_block_descale = 0;
};

#endif  // AITER_CK_TILE_NAMES_H
