// The profile `flash`: what the functions of flash_attn can ask for.
#include "gallery.h"

namespace {

/// Whether a kernel of the problem's plan is one that the profile names for that target.
bool has(const std::string& profile, const std::string& problem, const std::string& target) {
  regard::Options options;
  options.target = target;
  const regard::Plan plan(regard::Problem(problem), options);
  const std::string json = plan.json(), begin = "\"kernel\":\"";
  const std::size_t from = json.find(begin) + begin.size();
  const std::string kernel = json.substr(from, json.find('"', from) - from);
  return regard::list(plan.target(), profile).find(kernel) != std::string::npos;
}

}  // namespace

int main(int argc, char** argv) {
  return gallery::main(argc, argv, [](const std::string& target) {
    for (const char* problem : {"fwd bf16 b=2 h=4 s=64 d=64 mask=window:16,0 bias=alibi",
                                "fwd bf16 b=2 hq=8 hk=2 s=64 d=64 mask=causal softcap=30"}) {
      gallery::Call(problem, target).run_and_judge();
      if (!has("flash", problem, target)) throw std::runtime_error("the profile lacks its kernel");
    }
    const char* const other = "fwd bf16 h=4 s=64 d=64 bias=bh";
    std::printf("its kernel is in the profile: %s: %s\n", other, has("flash", other, target) ? "yes" : "no");
  });
}
