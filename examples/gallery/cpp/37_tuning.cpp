// A program's own measurements as tuning records, which later plans follow. `regard tune` does it more
// thoroughly.
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "gallery.h"

int main(int argc, char** argv) {
  return gallery::main(argc, argv, [](const std::string& target) {
    gallery::Call call("fwd fp32 hq=8 hk=2 sq=1 sk=2048 d=64", target);
    std::vector<regard::Candidate> measured;
    regard::choose_by(
        [&](const regard::Problem&, const std::string&, const std::vector<regard::Candidate>& candidates) {
          measured = candidates;
          return std::string();
        });
    regard::explain(call.problem(), call.options());
    regard::choose_by({});
    for (regard::Candidate& one : measured) {
      regard::Options options = call.options();
      options.family = one.name;
      one.seconds = call.seconds(regard::Plan(call.problem(), options));
    }
    std::sort(measured.begin(), measured.end(),
              [](const auto& one, const auto& other) { return one.seconds < other.seconds; });
    std::string folder = (std::filesystem::temp_directory_path() / "tuningXXXXXX").string();
    if (mkdtemp(folder.data()) == nullptr) throw std::runtime_error("no folder can be made: " + folder);
    std::ofstream(folder + "/my.tuning")
        << regard::tuning_record(call.problem(), call.options(), measured) << '\n';
    regard::use_tuning(folder + "/my.tuning");
    call.run_and_judge();
    const std::string explanation = regard::explain(call.problem(), call.options(), "json");
    std::printf("chosen by a record: %s\n",
                explanation.find("\"chosen_by\":\"record\"") != std::string::npos ? "yes" : "no");
    regard::use_tuning("");
    std::filesystem::remove_all(folder);
  });
}
