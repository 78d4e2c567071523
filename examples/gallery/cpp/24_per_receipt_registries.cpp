// A set of kernels for each consumer: what a manifest names is counted without building it.
#include "gallery.h"

int main(int argc, char** argv) {
  return gallery::main(argc, argv, [](const std::string& target) {
    for (const char* profile : {"pytorch", "flash", "vllm"}) {
      regard::BuildOptions options;
      options.text = std::string("[build]\nnamespace = \"") + profile +
                     "\"\ntargets = [\"cpu-avx2\", \"sm_90a\"]\n[[variants]]\nprofile = \"" + profile +
                     "\"\n";
      options.only = 1;  // the numbers alone
      const std::string json = regard::build_manifest("consumer.toml", options);
      std::printf("%s: %s\n", profile,
                  json.find("\"sm_90a\"") != std::string::npos ? "kernels for both targets" : "none");
    }
    gallery::Call("fwd fp32 h=4 s=64 d=64", target).run_and_judge();
  });
}
