// A user-defined choice of a kernel: `family` takes any accepted one instead of the one that the cost model
// ranks first.
#include "gallery.h"

int main(int argc, char** argv) {
  return gallery::main(argc, argv, [](const std::string& target) {
    for (const int rows : {1, 128}) {
      gallery::Call call("fwd fp32 hq=8 hk=2 sk=1024 d=64 sq=" + std::to_string(rows), target);
      regard::Options options = call.options();
      if (!regard::Plan(call.problem(), options).on_gpu())
        options.family = rows == 1 ? "cpu_decode" : "cpu_forward";
      const regard::Plan plan(call.problem(), options);
      call.run(plan);
      call.judge();
    }
    try {
      regard::Options options;
      options.family = "fastest";
      regard::Plan(regard::Problem("fwd fp32 s=64 d=64"), options);
    } catch (const regard::error& error) {
      const std::string sentence = error.what();
      std::printf("refused: %s\n", sentence.substr(0, sentence.find(';')).c_str());
    }
  });
}
