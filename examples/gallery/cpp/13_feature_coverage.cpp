// What a target can do: each feature has a plan, or a refusal that says what would work.
#include "gallery.h"

int main(int argc, char** argv) {
  return gallery::main(argc, argv, [](const std::string& target) {
    regard::Options options;
    options.target = target;
    for (const char* features : {"mask=causal", "mask=window:8,0,sink=2", "bias=alibi", "softcap=20", "sink",
                                 "dropout=0.1", "lse"}) {
      for (const char* pass : {"fwd", "bwd"}) {
        const std::string text = std::string(pass) + " fp32 h=2 s=64 d=64 " + features;
        try {
          const regard::Plan plan(regard::Problem(text), options);
          std::printf("%s: planned\n", text.c_str());
        } catch (const regard::error& error) {
          std::printf("%s: refused: %s\n", text.c_str(), error.what());
        }
      }
    }
    gallery::Call("fwd fp32 h=2 s=64 d=64 mask=causal bias=alibi softcap=20 sink", target).run_and_judge();
  });
}
