// A server's step: chunks of prompts are written into pages by slots, and packed queries attend to them.
#include "gallery.h"

int main(int argc, char** argv) {
  return gallery::main(argc, argv, [](const std::string& target) {
    gallery::Call append("append fp32 b=2 hq=8 hk=2 tnew=20 sk=64 d=64 paged=16 pages=8 slots=int32", target);
    std::vector<std::int32_t>
        slots;  // page * 16 + row; sequence 0 has pages 5 and 2, sequence 1 has pages 0 and 7
    for (std::int32_t row = 10; row < 14; ++row) slots.push_back(5 * 16 + row);
    for (std::int32_t row = 0; row < 16; ++row) slots.push_back(7 * 16 + row);
    append.set(REGARD_SLOTS, slots);
    append.run_and_judge();

    gallery::Call prefill(
        "fwd fp32 b=2 hq=8 hk=2 sq=16 tq=20 sk=64 d=64 varlen mask=causal lengths paged=16 pages=8", target,
        &append);
    prefill.set<std::int32_t>(REGARD_OFFSETS_Q, {0, 4, 20});
    prefill.set<std::int32_t>(REGARD_PAGE_TABLE, {5, 2, -1, -1, 0, 7, -1, -1});
    prefill.set<std::int32_t>(REGARD_LENGTHS_K, {14, 32});
    prefill.run_and_judge();
  });
}
