#include "emulated_hip/matrices.h"

#include <fmt/format.h>

namespace regard::test {
namespace {

/// The words that are the same in both smoke tests, for each of their combinations.
std::vector<std::string> combinations(const std::vector<std::string>& biases) {
  std::vector<std::string> all;
  for (const char* const type : {"fp16", "bf16"})
    for (const char* const layout :
         {"layout=bshd", "layout=bhsd", "varlen"})  // packed sequences have one layout
      for (const std::string& bias : biases)
        for (const char* const dropout : {"0", "0.2"})
          all.push_back(fmt::format("{} {} bias={} dropout={}", type, layout, bias, dropout));
  return all;
}

constexpr int head_dims[] = {32, 64, 128, 256};

/// A shape with the head dimension in place of each H.
std::string with_head_dim(std::string shape, int head_dim) {
  for (std::size_t at = 0; (at = shape.find('H', at)) != std::string::npos;)
    shape.replace(at, 1, std::to_string(head_dim));
  return shape;
}

}  // namespace

std::vector<std::string> parity_problems() {
  return {"fwd fp16 d=128 b=2 h=4 s=128",
          "fwd bf16 d=128 b=2 h=4 s=128",
          "fwd fp16 d=128 b=1 h=2 s=512",
          "fwd fp16 d=128 b=1 h=4 s=128",
          "fwd fp16 d=128 b=2 hq=4 hk=2 s=128",
          "fwd fp16 d=128 b=2 hq=4 hk=1 s=128",
          "fwd fp16 d=128 b=2 h=4 s=128 mask=causal_top_left",
          "fwd fp16 d=128 b=2 h=4 s=128 mask=causal",
          "fwd fp16 d=128 b=2 h=4 s=128 bias=bh",
          "fwd fp16 d=128 b=2 h=4 s=128 bias=alibi",
          "fwd fp16 d=128 b=2 h=4 s=128 lse",
          "fwd fp16 d=128 b=8 h=4 s=128",
          "fwd fp16 d=128 b=2 h=4 sq=64 sk=256",
          "fwd fp16 d=128 b=2 h=4 sq=1 sk=128"};
}

std::vector<std::string> forward_smoke_problems() {
  constexpr const char* shapes[] = {
      "b=2 hq=2 hk=1 d=16 dv=H sq=55 sk=256",
      "b=1 h=3 d=H sq=100 sk=51",
      "b=2 h=1 d=16 dv=H sq=99 sk=256 mask=causal_top_left",
      "b=1 hq=2 hk=1 d=H sq=300 sk=256 mask=causal",
      "b=2 h=1 d=H dv=24 sq=3 sk=99 mask=causal",
      "b=3 hq=2 hk=1 d=H sq=200 sk=520 mask=window:128,30,top_left",
      "b=2 h=1 d=H sq=99 sk=32 mask=window:4,35",
      "b=1 hq=2 hk=1 d=H sq=33 sk=0 mask=causal",
      "b=1 hq=2 hk=1 d=H sq=1 sk=32 lengths mask=causal",
  };
  std::vector<std::string> all;
  for (const std::string& words : combinations({"none", "11", "alibi"}))
    for (const char* const shape : shapes)
      for (const int head_dim : head_dims)
        for (const char* const lse : {"", " lse"}) {
          const std::string problem = fmt::format("fwd {} {}{}", words, with_head_dim(shape, head_dim), lse);
          all.push_back(problem + " splits=1");
          // The example does not split where there is dropout.
          if (problem.find("dropout=0.2") != std::string::npos) continue;
          for (const int splits : {2, 3}) all.push_back(fmt::format("{} splits={}", problem, splits));
        }
  return all;
}

std::vector<std::string> backward_smoke_problems() {
  constexpr const char* shapes[] = {
      "b=1 hq=4 hk=2 s=259",
      "b=2 h=2 sq=260 sk=253",
      "b=1 hq=4 hk=1 sq=244 sk=123 mask=causal_top_left",
      "b=1 h=2 sq=388 sk=258 mask=causal",
      "b=2 h=1 sq=475 sk=219 mask=window:128,30,top_left",
      "b=2 hq=3 hk=1 sq=116 sk=243 mask=window:4,35",
  };
  std::vector<std::string> all;
  for (const std::string& words : combinations({"none", "alibi"}))
    for (const char* const shape : shapes)
      for (const int head_dim : head_dims)
        all.push_back(fmt::format("bwd {} d={} {}", words, head_dim, shape));
  return all;
}

}  // namespace regard::test
