// Dropout, grouped queries and LSE in one call; the seed is a number, or lies in the target's memory for
// graphs.
#include "gallery.h"

int main(int argc, char** argv) {
  return gallery::main(argc, argv, [](const std::string& target) {
    gallery::Call call("fwd fp32 b=2 hq=8 hk=2 s=80 d=64 dropout=0.2 lse", target);
    call.arguments().dropout(7, 3);
    call.run_and_judge();

    const auto once = call.get(REGARD_O);
    call.set<std::uint64_t>(REGARD_SEED, {7, 3});  // is read when the kernel runs
    call.run_and_judge();
    std::printf("the same bits: %s\n", once == call.get(REGARD_O) ? "yes" : "no");
  });
}
