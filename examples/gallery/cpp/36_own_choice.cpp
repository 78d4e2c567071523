// A user-defined choice of kernels for the whole process: a function of the ranked candidates, called once
// for each new plan.
#include "gallery.h"

int main(int argc, char** argv) {
  return gallery::main(argc, argv, [](const std::string& target) {
    gallery::Call call("fwd fp32 hq=8 hk=2 sq=1 sk=2048 d=64", target);
    // The best candidate whose kernels do not divide the keys; an empty name leaves it to the cost model.
    regard::choose_by(
        [](const regard::Problem&, const std::string&, const std::vector<regard::Candidate>& candidates) {
          for (const regard::Candidate& one : candidates)
            if (one.name.find("combine") == std::string::npos) return one.name;
          return std::string();
        });
    call.run_and_judge();
    const std::string explanation = regard::explain(call.problem(), call.options(), "json");
    std::printf("chosen by the caller: %s\n",
                explanation.find("\"chosen_by\":\"caller\"") != std::string::npos ? "yes" : "no");
    regard::choose_by({});
  });
}
