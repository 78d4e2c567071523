#include "cli/job.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <sstream>

#include "base/nearest.h"
#include "base/text.h"
#include "cli/failure.h"
#include "cli/fields.h"
#include "cli/held_signals.h"
#include "cli/timing.h"

namespace regard::cli {
namespace {

std::vector<std::int64_t> integers_of(const LoadedArray& loaded) {
  std::vector<std::int64_t> numbers(loaded.array.bytes.size() /
                                    static_cast<std::size_t>(info(loaded.array.element).bytes));
  value_of(convert(loaded.array.element, loaded.elements(), Element::i64,
                   std::as_writable_bytes(std::span(numbers))),
           loaded.path);
  return numbers;
}

/// --lengths-q takes numbers or a file.
bool is_list(const std::string& text) {
  return !text.empty() && (std::isdigit(static_cast<unsigned char>(text[0])) != 0 || text[0] == '-') &&
         text.find_first_not_of("0123456789,-") == std::string::npos;
}

GivenSide given_side(const std::map<regard_role, LoadedArray>& files, const std::string& option,
                     const std::string& text, regard_role offsets, regard_role lengths) {
  GivenSide given;
  if (const auto file = files.find(offsets); file != files.end()) given.offsets = integers_of(file->second);
  if (const auto file = files.find(lengths); file != files.end()) given.lengths = integers_of(file->second);
  if (is_list(text)) given.lengths = parse_lengths(text, option);
  return given;
}

Sequences sequences_of(const Problem& problem, const std::map<regard_role, LoadedArray>& files,
                       const Request& request) {
  return choose_sequences(
      problem, given_side(files, "--lengths-q", request.lengths_q, REGARD_OFFSETS_Q, REGARD_LENGTHS_Q),
      given_side(files, "--lengths-k", request.lengths_k, REGARD_OFFSETS_K, REGARD_LENGTHS_K), request.seed);
}

/// Whether the text sets one of the fields itself.
bool gives(const std::string& text, std::initializer_list<std::string_view> names) {
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (std::ranges::find(names, word.substr(0, word.find('='))) != names.end()) return true;
  }
  return false;
}

/// To the library an omitted length means 0; a user who types a problem has more likely forgotten it.
[[noreturn]] void refuse_missing_length(const std::string& text, std::string_view name) {
  fail_with(fmt::format("{} is missing in {}; give the sequence length, such as s=1024, or {}=0 for none",
                        name, in_quotes(text), name));
}

double prepare(Plan& plan) {
  const HeldSignals held;  // a compiler and its folder are cleaned up before the command ends
  return milliseconds([&] { plan.prepare(); });
}

/// A file for a tensor that the problem does not read is a mistake when it is given by its own option, but is
/// ignored among the tensors of one --in file.
void refuse_unused(const Problem& problem, const Request& request) {
  for (const auto& [role, path] : request.files) {
    const regard_use use = problem.expected(role).use;
    if (use != REGARD_OUTPUT && use != REGARD_UNUSED) continue;
    fail_with(fmt::format("--{} {}: this problem {} {}: {}", regard_role_name(role), printable(path),
                          use == REGARD_OUTPUT ? "writes" : "has no", regard_role_name(role),
                          problem.text()));
  }
}

/// Computes O and LSE.
void run_forward(const Problem& forward, const Tensors& tensors, const Request& request,
                 const regard::Options& where) {
  Plan plan(forward, where);
  prepare(plan);
  const OnTarget there(tensors, plan);
  const Workspace workspace(plan);
  Arguments arguments;
  arguments.dropout(request.seed);
  for (int i = 0; i < REGARD_ROLE_COUNT; ++i) {
    const auto role = static_cast<regard_role>(i);
    if (forward.expected(role).use != REGARD_UNUSED) arguments.set(role, there.arguments()[role]);
  }
  plan.run(arguments, workspace.data(), workspace.bytes());
  there.wait();
  there.fetch();
}

/// The tensors; a backward problem's O and LSE come from a forward run where no file contains them.
Tensors make_tensors(const Problem& problem, const Sequences& sequences,
                     const std::map<regard_role, LoadedArray>& files, const Request& request,
                     const Plan& plan, const regard::Options& where, ForwardOn forward_on) {
  refuse_unused(problem, request);
  Tensors tensors(problem, sequences, files, request.convert, request.seed);
  if (problem.expected(REGARD_LSE).use != REGARD_INPUT) return tensors;
  const bool o = files.contains(REGARD_O), lse = files.contains(REGARD_LSE);
  if (o && lse) return tensors;
  if (o || lse) {
    fail_with(
        fmt::format("backward reads o and lse of one forward run: give both files or none, not {} alone",
                    o ? "o" : "lse"));
  }
  const bool elsewhere = plan.on_gpu() && forward_on == ForwardOn::cpu;
  run_forward(forward_of(problem), tensors, request, {elsewhere ? "" : where.target, {}, where.threads});
  return tensors;
}

/// The tensors of --in that the problem does not read. A file with none that it reads is a mistake.
std::vector<std::string> left_out_of(const Problem& problem, const LoadedFile& in, const std::string& path) {
  std::vector<std::string> names;
  for (const auto& [role, loaded] : in.roles) {
    const regard_use use = problem.expected(role).use;
    if (use == REGARD_OUTPUT || use == REGARD_UNUSED) names.emplace_back(regard_role_name(role));
  }
  const bool none_read = names.size() == in.roles.size();
  names.insert(names.end(), in.others.begin(), in.others.end());
  if (!none_read) return names;
  fail_with(fmt::format("{}: it has no tensor that this problem reads, such as q, k and v{}", printable(path),
                        names.empty() ? "" : ", only " + listed_tensors(names)));
}

/// The tensors that the command line's files contain.
Files load_files(const Problem& problem, const Request& request) {
  Files files;
  if (!request.in.empty()) {
    LoadedFile in = load_roles(request.in);
    files.left_out = left_out_of(problem, in, request.in);
    files.roles = std::move(in.roles);
  }
  for (const auto& [role, path] : request.files) {
    files.roles.insert_or_assign(role, load_array(path, regard_role_name(role)));
  }
  // What is given by its own option takes precedence over what --in contains.
  const auto add_lengths = [&](const std::string& text, regard_role role) {
    if (text.empty()) return;
    files.roles.erase(role);
    if (!is_list(text)) files.roles.emplace(role, load_array(text, regard_role_name(role)));
  };
  add_lengths(request.lengths_q, REGARD_LENGTHS_Q);
  add_lengths(request.lengths_k, REGARD_LENGTHS_K);
  return files;
}

}  // namespace

std::string listed_tensors(const std::vector<std::string>& names) {
  constexpr std::ptrdiff_t most = 8;
  std::vector<std::string_view> roles;
  for (int i = 0; i < REGARD_ROLE_COUNT; ++i)
    roles.emplace_back(regard_role_name(static_cast<regard_role>(i)));
  std::vector<std::string> listed, others;
  for (const std::string& name : names) {
    const std::string nearest = suggestion(name, roles);
    const bool is_role = std::ranges::find(roles, name) != roles.end();
    if (!is_role && nearest.starts_with("; did you mean")) {
      listed.push_back(in_quotes(name) + " (" + nearest.substr(2) + ")");
    } else {
      others.push_back(in_quotes(name));
    }
  }
  listed.insert(listed.end(), others.begin(), others.end());
  const std::ptrdiff_t count = std::min(std::ssize(listed), most);
  const std::string text = fmt::format("{}", fmt::join(listed.begin(), listed.begin() + count, ", "));
  return count == std::ssize(listed) ? text : fmt::format("{} and {} more", text, std::ssize(listed) - count);
}

Problem parse_problem(const std::string& text) {
  if (text.find_first_not_of(' ') == std::string::npos) {
    fail_with("a problem is missing, such as: fwd bf16 b=2 h=16 s=1024 d=128 mask=causal");
  }
  Problem problem(text);
  const Fields fields = fields_of(problem);
  const bool attends = fields.pass != "append";
  if (attends && fields.sq == 0 && !gives(text, {"s", "sq"})) refuse_missing_length(text, "sq");
  if (fields.pass != "merge" && fields.sk == 0 && !gives(text, {"s", "sk"}))
    refuse_missing_length(text, "sk");
  return problem;
}

Problem parse_problem(const std::vector<std::string>& words) {
  return parse_problem(fmt::format("{}", fmt::join(words, " ")));
}

Job::Job(const Problem& asked, const Request& request, const regard::Options& where, ForwardOn forward_on)
    : files(load_files(asked, request)),
      sequences(sequences_of(asked, files.roles, request)),
      problem(with_sequences(asked, sequences)),
      plan(problem, where),
      prepare_ms(prepare(plan)),
      tensors(make_tensors(problem, sequences, files.roles, request, plan, where, forward_on)),
      there(tensors, plan),
      workspace(plan) {}

double Job::run(int calls) const {
  const double sum = milliseconds([&] {
    for (int i = 0; i < calls; ++i) plan.run(there.arguments(), workspace.data(), workspace.bytes());
    there.wait();
  });
  return sum / calls;
}

}  // namespace regard::cli
