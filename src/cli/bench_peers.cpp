#include "cli/bench_peers.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/failure.h"
#include "cli/fields.h"
#include "cli/json_text.h"
#include "cli/sequences.h"

namespace regard::cli {
namespace {

using Json = nlohmann::json;

constexpr const char* program = R"(
import sys
try:
    from regard.bench.main import main
except ModuleNotFoundError as missing:
    print(f"regard: --peers measures from Python, and {sys.executable} has no package {missing.name}: install it "
          "there, or put the python3 that has it first on PATH", file=sys.stderr)
    sys.exit(2)
sys.exit(main())
)";

/// Sequences are drawn here, as for a bench without peers.
Json as_json(const AskedCell& cell, const Request& request) {
  const Sequences sequences = choose_sequences(cell.problem, {}, {}, request.seed);
  const Problem problem = with_sequences(cell.problem, sequences);
  const bool backward = fields_of(problem).pass == "bwd";
  return {{"problem", problem.text()},
          {"forward", backward ? forward_of(problem).text() : ""},
          {"flops", flops_of(problem, sequences)},
          {"target", cell.where.target},
          {"family", cell.where.family},
          {"offsets_q", sequences.q.offsets},
          {"offsets_k", sequences.k.offsets},
          {"lengths_q", sequences.q.lengths},
          {"lengths_k", sequences.k.lengths}};
}

/// Puts the text where the next program reads its standard input.
void give_as_input(const std::string& text) {
  const int file = memfd_create("regard bench", 0);
  bool given = file >= 0;
  for (std::size_t done = 0; given && done < text.size();) {
    const ssize_t written = write(file, text.data() + done, text.size() - done);
    given = written > 0;
    done += static_cast<std::size_t>(written);
  }
  if (!given || lseek(file, 0, SEEK_SET) != 0 || dup2(file, STDIN_FILENO) < 0)
    throw error(REGARD_NO_MEMORY,
                fmt::format("cannot hand the problems to Python: {}", std::strerror(errno)));
}

}  // namespace

void bench_peers(const std::vector<AskedCell>& cells, const Request& request) {
  Json asked = {
      {"cells", Json::array()},
      {"peers", request.peers},
      {"threads", request.threads},
      {"rounds", request.rounds},
      {"seed", request.seed},
      {"commit", request.commit},
      {"machine", json_of(regard::info()).value("machine", Json::object()).value("cpu", "unknown")}};
  for (const AskedCell& cell : cells) asked["cells"].push_back(as_json(cell, request));
  give_as_input(json_text(asked));
  execlp("python3", "python3", "-c", program, nullptr);
  fail_with(fmt::format("--peers measures from Python, and python3 cannot be run: {}", std::strerror(errno)));
}

}  // namespace regard::cli
