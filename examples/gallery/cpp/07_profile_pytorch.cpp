// The profile `pytorch`: what scaled_dot_product_attention can ask for, by name and not by a receipt's
// number.
#include "gallery.h"

int main(int argc, char** argv) {
  return gallery::main(argc, argv, [](const std::string& target) {
    for (const char* problem :
         {"fwd fp32 b=2 h=4 s=64 d=64 mask=causal_top_left", "fwd bf16 b=2 h=4 s=64 d=64 bias=bh"}) {
      gallery::Call(problem, target).run_and_judge();
      if (!gallery::profile_has("pytorch", problem, target))
        throw std::runtime_error("the profile lacks its kernel");
    }
    const char* const other = "fwd bf16 h=4 s=64 d=64 softcap=30";
    std::printf("its kernel is in the profile: %s: %s\n", other,
                gallery::profile_has("pytorch", other, target) ? "yes" : "no");
  });
}
