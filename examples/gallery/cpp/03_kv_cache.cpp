// A paged KV cache in three calls: a prompt is written, a prefill attends to it, and decoding adds one token.
#include "gallery.h"

int main(int argc, char** argv) {
  return gallery::main(argc, argv, [](const std::string& target) {
    const std::string cache = " b=2 hq=8 hk=2 sk=64 d=64 paged=16 pages=8 lengths";
    const std::vector<std::int32_t> table = {5, 2, -1, -1, 0, 7, 3, -1};  // the pages of each sequence

    gallery::Call append("append fp32 snew=20 sq=20" + cache, target);
    append.set<std::int32_t>(REGARD_PAGE_TABLE, table);
    append.set<std::int32_t>(REGARD_LENGTHS_K, {0, 10});
    append.run_and_judge();

    gallery::Call prefill("fwd fp32 sq=20 mask=causal" + cache, target, &append);
    prefill.set<std::int32_t>(REGARD_PAGE_TABLE, table);
    prefill.set<std::int32_t>(REGARD_LENGTHS_K, {20, 30});  // with the new tokens
    prefill.run_and_judge();

    gallery::Call decode("fwd fp32 sq=1 snew=1 mask=causal" + cache, target);
    decode.arguments()
        .set(REGARD_K, append.arguments()[REGARD_K])
        .set(REGARD_V, append.arguments()[REGARD_V]);
    decode.set<std::int32_t>(REGARD_PAGE_TABLE, table);
    decode.set<std::int32_t>(REGARD_LENGTHS_K, {20, 30});  // before the new token
    decode.run_and_judge();
  });
}
