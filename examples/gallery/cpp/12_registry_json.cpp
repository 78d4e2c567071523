// A problem, a plan and the list of kernels as JSON; `regard list --json` prints the last from the shell.
#include "gallery.h"

int main(int argc, char** argv) {
  return gallery::main(argc, argv, [](const std::string& target) {
    const regard::Problem problem("fwd fp32 b=2 hq=8 hk=2 s=64 d=64 mask=causal");
    const bool same = regard::Problem::from_json(problem.json()).text() == problem.text();
    std::printf("a problem through JSON is the same: %s\n", same ? "yes" : "no");

    const std::string kernels = regard::list("cpu-avx2", "default");
    std::printf("the list of kernels begins with %s:\n", kernels.substr(0, kernels.find(':')).c_str());

    gallery::Call call(problem.text(), target);
    regard::Plan plan = call.plan();
    plan.prepare();
    const std::string json = plan.json();
    std::printf("a prepared plan says where each kernel is from: %s\n",
                json.find("\"tier\"") != std::string::npos ? "yes" : "no");
    call.run(plan);
    call.judge();
  });
}
