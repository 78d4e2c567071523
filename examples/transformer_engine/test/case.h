// What a test case is, and its tensors in the memory of the target.
#pragma once

#include <te_regard.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "reference.h"

using namespace ck_fused_attn;
using std::int64_t;

inline const char* target = nullptr;

inline bool on_gpu() {
  return target != nullptr && std::strncmp(target, "cpu", 3) != 0;
}

inline void must(te_regard_status status) {
  if (status != TE_REGARD_OK) throw std::runtime_error(te_regard_status_message());
}

/// Memory of the target with a copy on the host, of numbers that no kernel leaves there where it writes.
template <class Number>
class Memory {
 public:
  explicit Memory(int64_t count) : host(static_cast<std::size_t>(count)) {
    std::memset(host.data(), 0xFF, host.size() * sizeof(Number));  // NaN
    must(te_regard_memory_allocate(on_gpu() ? target : nullptr, bytes(), &memory_));
  }
  explicit Memory(const std::vector<Number>& values) : Memory(static_cast<int64_t>(values.size())) {
    host = values;
    upload();
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { te_regard_memory_free(memory_); }

  void upload() { must(te_regard_memory_copy(memory_, host.data(), bytes())); }
  void download() {
    must(te_regard_stream_wait(on_gpu() ? target : nullptr, nullptr));
    must(te_regard_memory_copy(host.data(), memory_, bytes()));
  }
  void* data() { return memory_; }

  std::vector<Number> host;

 private:
  int64_t bytes() const { return static_cast<int64_t>(host.size() * sizeof(Number)); }
  void* memory_ = nullptr;
};

struct Case {
  std::string name;
  DType dtype;
  std::vector<int64_t> lengths_q, lengths_k;  // of each sequence
  int64_t room_q, room_k;                     // what a sequence takes in memory
  MaskType mask;
  int64_t left, right;
  float dropout;
  BiasType bias;
  bool packed, padded, sbhd, sink;
};

constexpr int64_t h = 4, hg = 2, dim = 64, sink_tokens = 2;
constexpr float scale = 0.2f;
constexpr std::uint64_t seed = 0x0123456789ABCDEF, offset = 1ull << 33;

/// A tensor of all sequences: [b, room, heads, dim] in memory, [room, b, heads, dim] with sbhd, or packed
/// without room.
struct Tensor {
  Tensor(const Case& c, const std::vector<int64_t>& lengths, int64_t room, int64_t heads) : dtype(c.dtype) {
    const auto b = static_cast<int64_t>(lengths.size());
    stride_h = dim;
    stride_s = heads * dim * (c.sbhd ? b : 1);
    int64_t tokens = 0;
    for (int64_t i = 0; i < b; ++i) {
      starts.push_back(c.sbhd ? i * heads * dim : tokens * stride_s);
      tokens += c.packed && !c.padded ? lengths[i] : room;
    }
    stride_b = b > 1 ? starts[1] : 0;
    memory = std::make_unique<Memory<std::uint16_t>>(tokens * heads * dim);
    memory->upload();
  }

  int64_t place(int64_t sequence, int64_t row, int64_t head) const {
    return starts[sequence] + row * stride_s + head * stride_h;
  }
  void fill(std::mt19937& random) {
    std::uniform_real_distribution<double> numbers(-1, 1);
    for (auto& word : memory->host) word = reference::rounded(numbers(random), dtype);
    memory->upload();
  }
  /// The rows of a head of a sequence.
  std::vector<double> rows(int64_t sequence, int64_t head, int64_t count) const {
    std::vector<double> values;
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t x = 0; x < dim; ++x) {
        values.push_back(reference::value_of(memory->host[place(sequence, i, head) + x], dtype));
      }
    }
    return values;
  }

  DType dtype;
  int64_t stride_b, stride_h, stride_s;
  std::vector<int64_t> starts;
  std::unique_ptr<Memory<std::uint16_t>> memory;
};

inline std::vector<std::int32_t> sums(const std::vector<int64_t>& lengths, int64_t room) {
  std::vector<std::int32_t> all{0};
  for (int64_t length : lengths) {
    all.push_back(all.back() + static_cast<std::int32_t>(room > 0 ? room : length));
  }
  return all;
}

/// All that the calls of a case read and write, filled but for what they write.
struct Tensors {
  explicit Tensors(const Case& c)
      : q(c, c.lengths_q, c.room_q, h),
        k(c, c.lengths_k, c.room_k, hg),
        v(c, c.lengths_k, c.room_k, hg),
        o(c, c.lengths_q, c.room_q, h),
        grad_o(c, c.lengths_q, c.room_q, h),
        grad_q(c, c.lengths_q, c.room_q, h),
        grad_k(c, c.lengths_k, c.room_k, hg),
        grad_v(c, c.lengths_k, c.room_k, hg),
        tokens_q(static_cast<int64_t>(q.memory->host.size()) / (h * dim)),
        tokens_k(static_cast<int64_t>(k.memory->host.size()) / (hg * dim)),
        lse(h * tokens_q),
        bias(h * c.room_q * c.room_k),
        grad_bias(h * c.room_q * c.room_k),
        cu_q(sums(c.lengths_q, 0)),
        cu_k(sums(c.lengths_k, 0)),
        room_q(sums(c.lengths_q, c.room_q)),
        room_k(sums(c.lengths_k, c.room_k)) {
    std::mt19937 random(7);
    for (Tensor* tensor : {&q, &k, &v, &grad_o}) tensor->fill(random);
    lse.upload();
    for (auto& word : bias.host)
      word = reference::rounded(std::sin(static_cast<double>(&word - bias.host.data())), c.dtype);
    bias.upload();
    padded_q = c.padded ? room_q.data() : nullptr;
    padded_k = c.padded ? room_k.data() : nullptr;
    cu_kv = c.lengths_k == c.lengths_q ? cu_q.data() : cu_k.data();  // as self attention has it
    rng_offset = static_cast<std::uint64_t*>(rng.data()) + 1;
  }

  Tensor q, k, v, o, grad_o, grad_q, grad_k, grad_v;
  int64_t tokens_q, tokens_k;
  Memory<float> lse;
  Memory<std::uint64_t> rng{std::vector{seed, offset}};
  Memory<std::uint16_t> bias, grad_bias;
  Memory<float> slopes{std::vector{0.5f, 0.25f, 0.125f, 0.0625f}};
  Memory<float> sink{std::vector{0.0f, 1.5f, -2.0f, 0.5f}}, grad_sink{h};
  Memory<std::int32_t> cu_q, cu_k, room_q, room_k;
  void *padded_q, *padded_k, *cu_kv, *rng_offset;
};

/// Forward, then backward: by the lists of arguments of the older interface, or by the structures of the
/// newer.
void call_by_lists(const Case& c, Tensors& t);
void call_by_structures(const Case& c, Tensors& t);
