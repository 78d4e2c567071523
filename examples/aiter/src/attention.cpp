#include "attention.h"

#include "lengths.h"
#include "refusal.h"
#include "words.h"

namespace aiter {
namespace {

using calls::refuse;
using calls::word;

std::string dtype_words(const std::string& data_type) {
  if (data_type == "fp32" || data_type == "fp16" || data_type == "bf16") return " " + data_type;
  if (data_type == "fp8bf16") return " fp8 out=bf16";
  if (data_type == "fp8fp32") return " fp8 out=fp32";
  refuse(TE_REGARD_REFUSED,
         "data_type '" + data_type + "' is not taken; give fp32, fp16, bf16, fp8bf16 or fp8fp32");
}

/// Copies rows that have gaps between them into contiguous memory.
std::vector<std::int32_t> gathered(const void* numbers, std::int64_t rows, std::int64_t row,
                                   std::int64_t stride, void* stream) {
  std::vector<std::int32_t> together;
  for (std::int64_t i = 0; i < rows; ++i) {
    const void* begin = static_cast<const std::int32_t*>(numbers) + i * stride;
    const auto some = calls::host_copy(begin, static_cast<std::uint64_t>(row), stream);
    together.insert(together.end(), some.begin(), some.end());
  }
  return together;
}

}  // namespace

std::string Attention::text(const char* pass, const std::string& more_words) const {
  std::string words = pass + dtype_words(data_type) + word("b", batch) + word("hq", heads_q) +
                      word("hk", heads_k) + word("sq", q.rows()) + word("sk", k.rows()) + word("d", dim_q) +
                      word("dv", dim_v) + word("scale", scale) +
                      calls::mask_words(mask_type, left, right, sink_tokens);
  if (varlen) words += " varlen" + word("tq", q.tokens()) + word("tk", k.tokens());
  if (q.shorter() || k.shorter()) words += " lengths";
  if (softcap != 0) words += word("softcap", softcap);
  switch (static_cast<bias_enum>(bias_type)) {
    case bias_enum::no_bias:
      break;
    case bias_enum::elementwise_bias:
      // Each sequence and head has a bias, which may be the same memory as another's: a stride is then 0.
      if (varlen) {
        refuse(TE_REGARD_REFUSED,
               "group mode takes no elementwise bias here, of which AITER has a row for each token; "
               "give ALiBi, or dense sequences");
      }
      words += " bias=bh";
      break;
    case bias_enum::alibi:
      calls::require_alibi(mask_type, !varlen && q.rows() == k.rows() && !q.shorter() && !k.shorter());
      words += stride_bias == 0 ? " bias=alibi" : " bias=alibi_b";
      break;
    default:
      refuse(TE_REGARD_INVALID, "bias type " + std::to_string(bias_type) + " is none; they are 0 to 2");
  }
  return words + more_words;
}

void Attention::set_bias(calls::Call& call, void* stream, std::int64_t first_head) const {
  const auto from = [this](std::int64_t numbers, std::int64_t bytes) {
    return bias == nullptr ? nullptr : static_cast<const char*>(bias) + numbers * bytes;
  };
  if (bias_type == static_cast<int>(bias_enum::elementwise_bias)) {
    const std::int64_t bytes = element_bytes() == 1 ? 4 : element_bytes();  // with 8-bit inputs it is fp32
    call.set(TE_REGARD_BIAS, from(first_head * nhead_stride_bias, bytes),
             {batch_stride_bias, nhead_stride_bias, stride_bias});
  } else if (bias_type == static_cast<int>(bias_enum::alibi)) {
    const void* slopes = from(first_head, sizeof(float));
    if (stride_bias == 0 || stride_bias == heads_q || slopes == nullptr) {
      call.set(TE_REGARD_ALIBI, slopes);
    } else {
      call.set_own(TE_REGARD_ALIBI, gathered(slopes, batch, heads_q, stride_bias, stream));
    }
  }
}

std::string dropout_words(float p_drop) {
  return p_drop != 0 ? word("dropout", p_drop) : "";
}

void set_seed(calls::Call& call, float p_drop, const drop_seed_offset_t& seed_offset) {
  if (p_drop == 0) return;
  if (const auto* numbers = std::get_if<0>(&seed_offset)) {
    call.set_seed(numbers->first, numbers->second);
  } else {
    const auto& [seed, offset] = std::get<1>(seed_offset);
    call.set(TE_REGARD_SEED, calls::adjacent_seed(seed, offset));
  }
}

void require_no_check(bool v3_api_check) {
  if (v3_api_check) {
    refuse(TE_REGARD_REFUSED,
           "v3_api_check asks whether an assembly kernel of AITER's would run, and there are none here; "
           "leave it "
           "out to compute");
  }
}

}  // namespace aiter
