// Prompts of different lengths in one call: packed queries, and keys in pages that a table or a list names.
#include "gallery.h"

int main(int argc, char** argv) {
  return gallery::main(argc, argv, [](const std::string& target) {
    const std::string shape =
        "fwd fp32 b=2 hq=8 hk=2 sq=30 sk=48 tq=35 d=64 varlen mask=causal paged=16 pages=12";
    gallery::Call vllm(shape + " lengths", target);
    vllm.set<std::int32_t>(REGARD_OFFSETS_Q, {0, 5, 35});  // 5 and 30 queries, the last of 20 and 40 keys
    vllm.set<std::int32_t>(REGARD_PAGE_TABLE, {3, 8, -1, 11, 0, 5});
    vllm.set<std::int32_t>(REGARD_LENGTHS_K, {20, 40});
    vllm.run_and_judge();

    gallery::Call sglang(shape + " table=sglang", target, &vllm);
    sglang.set<std::int32_t>(REGARD_OFFSETS_Q, {0, 5, 35});
    sglang.set<std::int32_t>(REGARD_PAGE_LIST, {3, 8, 11, 0, 5});
    sglang.set<std::int32_t>(REGARD_PAGE_OFFSETS, {0, 2, 5});
    sglang.set<std::int32_t>(REGARD_LAST_PAGE_LENGTHS, {4, 8});
    const auto of_table = vllm.get(REGARD_O);
    sglang.run_and_judge();
    std::printf("the same bits: %s\n", of_table == sglang.get(REGARD_O) ? "yes" : "no");
  });
}
