#include "cli/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>
#include <memory>

#include "base/nearest.h"
#include "base/settings.h"
#include "base/text.h"
#include "cli/failure.h"

namespace regard::cli {
namespace {

constexpr const char* top_footer = R"(
A problem is one line of text; its words may stand in any order (regard help problem):
  regard run fwd bf16 b=2 h=16 s=1024 d=128 mask=causal
  regard explain bwd fp16 h=8 s=2048 d=64 dropout=0.1 --target sm_90a
  regard bench "fwd fp32 h=8 s=512 d=64" "bwd fp32 h=8 s=512 d=64"

Exit codes: 0 ok, 1 a check failed, 2 bad input, 3 refused or no kernel, 4 out of memory or a defect of Regard.
)";

constexpr const char* run_footer = R"(
Inputs are random (--seed) where no file is given. Results are checked against an fp64 oracle.
  regard run fwd bf16 b=2 h=16 s=1024 d=128 mask=causal
  regard run fwd fp32 h=8 s=512 d=64 lse --q q.npy --k k.npy --v v.npy --out results/
  regard run bwd fp16 h=8 s=512 d=64 --in call.safetensors --out grads.safetensors
  regard run fwd bf16 varlen b=3 h=4 s=64 d=64 --lengths-q 5,0,17 --lengths-k 5,9,17

Files hold arrays in the logical shape, whatever the problem's layout is. .npy has no bf16 and no fp8: they are
read and written as uint16 and uint8 bits. With --convert, files of any float type are rounded to the problem's,
integers are taken if all values fit, and results are written as float32. A bwd problem reads O and LSE: from files, else from a forward run.
)";

constexpr const char* bench_footer = R"(
Prints a line of JSON for each problem, target and family: medians over rounds, each of which measures all of them.
  regard bench fwd bf16 h=16 s=4096 d=128 mask=causal
  regard bench fwd fp32 h=8 s=512 d=64 --family forward,generic
  regard bench --problems problems.txt --rounds 15 > results.jsonl
  regard bench fwd bf16 h=16 s=4096 d=128 mask=causal --target cuda --peers torch,flash_attn,cudnn
)";

constexpr const char* tune_footer = R"(
Measures the candidates of each problem on this machine, alternately and with a cold cache, and writes the one to use
into a file of tuning records, for REGARD_TUNING=FILE (docs/tuning.md). Ctrl-C keeps the records measured so far.
  regard tune "fwd bf16 hq=32 hk=8 sq=1 sk=8192 d=128" --out my.tuning
  REGARD_RECORD=seen.txt ./program; regard tune --record seen.txt --out my.tuning --seconds 600
  regard tune --manifest te.toml --out my.tuning
  regard tune --check my.tuning     # measures again; exit code 1: another candidate is now faster
)";

constexpr const char* explain_footer = R"(
Answers for every target, also for those that this machine does not have. A refusal is an answer: exit code 0.
  regard explain fwd bf16 b=1 hq=32 hk=8 sq=1 sk=32768 d=128
  regard explain fwd fp8 h=16 s=1024 d=128 --target sm_90a --json
)";

constexpr const char* list_footer = R"(
  regard list --target cpu-generic
  regard list --profile flash --tier compile    # what the profile would compile on demand
)";

constexpr const char* rerun_footer = R"(
REGARD_SAVE_CALLS=FOLDER,when=nan ./program saves calls; docs/saved-calls.md has the conditions. Exit code 0: the
same bits, or within the bound of another order of sums where bits may differ; 1: different, or wrong by the oracle.
  regard rerun saved/call-0001
  regard rerun saved/call-0001 --target cpu-generic --oracle
)";

constexpr const char* report_footer = R"(
A single HTML file: the machine, kernels by tier, and the contents of the files as tables and curves. The files are
output of bench, run --json, rerun --json and tune --check --json, files of bench/results, tuning records, and the
lines that REGARD_VERIFY prints.
  regard bench --problems problems.txt > bench.jsonl
  regard rerun saved/call-0001 --oracle --json > rerun.json
  regard report bench.jsonl rerun.json --out report.html
)";

constexpr const char* build_footer = R"(
A manifest is a TOML file that names targets, outputs and the problems to have kernels for; docs/build.md has its keys.
  regard build te.toml --check         # how many kernels each table needs
  regard build te.toml --list --json   # which ones
  regard build te.toml --output te --jobs 2
)";

constexpr const char* prebuild_footer = R"(
Needs no GPU. Names every kernel that cannot be compiled or kept (exit code 3) or that the compiler made slow.
  regard prebuild --target sm_90a,sm_80 --profile flash,pytorch
  regard prebuild --target sm_120 --profile transformer_engine --sample 10 --strict
  regard prebuild --manifest te.toml
  REGARD_RECORD=seen.txt ./program; regard prebuild --target sm_90a --record seen.txt
)";

constexpr const char* cache_footer = R"(
  regard cache list      every entry
  regard cache stat      folder, entries, bytes, whether it can be used and why not
  regard cache verify    reads every entry; exit code 1 when one is damaged
  regard cache gc        removes leftovers and damaged entries, then the least recently used over the bound
  regard cache clean     removes every entry
  regard cache export FILE   every kernel into a bundle, for another machine
  regard cache import FILE   the kernels of a bundle into the cache
)";

constexpr const char* bundle_footer = R"(
  regard bundle keygen FILE               makes a private key; prints the public one
  regard bundle sign FILE --key KEYFILE   puts a signature of that key at the end of a bundle
  regard bundle verify FILE...            reads every kernel; exit code 1 when one is damaged or a signature is wrong
  regard bundle verify FILE... --trusted PUBLICKEY   the same, and each must be signed with such a key
  regard bundle list FILE                 its kernels, and who signed it
  regard bundle merge -o OUT FILE...      several bundles into one, unsigned
)";

constexpr const char* completion_footer = R"(
  source <(regard completion bash)
  regard completion zsh > "${fpath[1]}/_regard"
  regard completion fish > ~/.config/fish/completions/regard.fish
)";

/// "grad_o" as an option is written: "grad-o".
std::string dashed(std::string name) {
  std::ranges::replace(name, '_', '-');
  return name;
}

/// Whether `run` takes a file for the role: it is an input, and not a length (which has its own option, which
/// also takes numbers) or the seed (--seed is a number; a seed tensor comes with --in).
bool is_file_option(regard_role role) {
  switch (role) {
    case REGARD_GRAD_Q:
    case REGARD_GRAD_K:
    case REGARD_GRAD_V:
    case REGARD_GRAD_BIAS:
    case REGARD_GRAD_SINK:
    case REGARD_DROPOUT_MASK:
    case REGARD_LENGTHS_Q:
    case REGARD_LENGTHS_K:
    case REGARD_SEED:
      return false;
    default:
      return role < REGARD_GRAD_CAPTURED_0 || role > REGARD_GRAD_CAPTURED_7;
  }
}

/// CLI11 itself takes the nearest number that fits, and has its own sentence for each kind of mistake.
std::uint64_t whole_number(const std::string& option, const std::string& text, std::uint64_t least,
                           std::uint64_t most) {
  std::uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [after, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc{} && after == end && number >= least && number <= most) return number;
  fail_with(fmt::format("{}: {} is not a whole number between {} and {} in plain digits", option,
                        in_quotes(text), least, most));
}

/// An empty word is most often an unset shell variable, so it does not stand for a default. Returns what is
/// wrong.
std::string empty_word(const std::string& text) {
  return text.empty() ? "its value is empty; give one, or leave the option out" : "";
}

/// The same; also, "-" means standard input or output to many programs, and nothing here.
std::string unusable_word(const std::string& text) {
  if (text == "-") return "'-' does not stand for a stream here; name a file (./- if that is its name)";
  return empty_word(text);
}

constexpr std::uint64_t most_rounds = 1'000'000, most_kernels = 1'000'000, most_seconds = 1'000'000;

/// CLI11's tree and the variables that it writes to.
struct CommandLine {
  CLI::App app{"Fused multi-head attention: plan, run, check and measure it.", "regard"};
  Request request;

  CLI::App* verb(const char* name, const char* doc, const char* footer) {
    CLI::App* added = app.add_subcommand(name, doc);
    added->footer(footer);
    if (std::string_view(name) != "completion") added->add_flag("--json", request.json, "Print JSON");
    return added;
  }
  /// A path, a name, or several of them.
  template <class Text>
  CLI::Option* words(CLI::App* verb, const char* name, Text& value, const std::string& doc) {
    return verb->add_option(name, value, doc)->check(unusable_word);
  }
  template <class Number>
  void number(CLI::App* verb, const std::string& name, Number& value, const char* doc,
              std::uint64_t least = 0, std::uint64_t most = std::numeric_limits<Number>::max()) {
    const auto read = [name, &value, least, most](const std::string& text) {
      value = static_cast<Number>(whole_number(name, text, least, most));
    };
    verb->add_option_function<std::string>(name, read, doc)
        ->type_name("NUMBER")
        ->default_str(std::to_string(value));
  }
  void problem(CLI::App* verb) {
    verb->add_option("problem", request.words, "Problem text, e.g. fwd bf16 h=16 s=1024 d=128 mask=causal");
  }
  void where(CLI::App* verb, bool several) {
    const auto add = [&](const char* name, std::vector<std::string>& value, const std::string& doc) {
      CLI::Option* option = words(verb, name, value, doc + (several ? "; several with commas" : ""));
      several ? option->delimiter(',') : option->expected(1);
      option->allow_extra_args(false);  // what follows a value is the problem
    };
    add("--target", request.targets, "Target to use, e.g. cpu-generic; by default the best of this machine");
    add("--family", request.families, "Only this family or kernel, e.g. generic or 'sm90_forward cluster=2'");
    number(verb, "--threads", request.threads, "Threads; 0 is REGARD_THREADS or all cores", 0, most_threads);
    words(verb, "--functions", request.functions,
          "Compute score= and keep= only by 'words', with 'ranges' or 'bits' for keep=, or 'interpreted'; by "
          "default any")
        ->expected(1)
        ->allow_extra_args(false);
  }

  void add_run();
  void add_bench();
  void add_tune();
  void add_others();

  CommandLine() {
    app.set_version_flag("--version", regard_version());
    app.set_help_flag("-h,--help", "Print this help; after a verb, the help of that verb");
    app.footer(top_footer);
    app.get_formatter()->column_width(26);
    app.require_subcommand(1);
    add_run();
    add_bench();
    add_tune();
    add_others();
  }
};

void CommandLine::add_run() {
  CLI::App* run =
      verb("run", "Run a problem on random inputs or on your files, and check the result", run_footer);
  problem(run);
  where(run, false);
  words(run, "--in", request.in, "A .safetensors file with tensors called q, k, v, ...; others are left out");
  words(run, "--out", request.out,
        "Write results: a folder, a .safetensors file, or .npy for a single result");
  run->add_flag("--convert", request.convert,
                "Convert files of other float or integer types to the problem's");
  words(run, "--lengths-q", request.lengths_q, "Query lengths, e.g. 5,0,17, or a file");
  words(run, "--lengths-k", request.lengths_k, "Key lengths, likewise");
  number(run, "--seed", request.seed, "Seed of random inputs and of dropout");
  number(run, "--repeat", request.repeat, "Timed runs; 0 to skip the timing", 0, most_rounds);
  run->add_flag_callback(
      "--no-check", [this] { request.check = false; },
      "Do not compare with the fp64 oracle (slow for large problems)");
  for (int i = 0; i < REGARD_ROLE_COUNT; ++i) {
    const auto role = static_cast<regard_role>(i);
    if (!is_file_option(role)) continue;
    const std::string name = regard_role_name(role);
    run->add_option_function<std::string>(
           "--" + dashed(name), [this, role](const std::string& path) { request.files[role] = path; },
           "File of " + name)
        ->check(unusable_word)
        ->type_name("FILE")
        ->group("Tensors from .npy or .safetensors files");
  }
}

void CommandLine::add_bench() {
  CLI::App* bench =
      verb("bench", "Measure problems: JSON lines with median time, GFLOP/s and GB/s", bench_footer);
  problem(bench);
  where(bench, true);
  bench->add_option("--problems", request.problems, "File with one problem per line; - is standard input")
      ->check(empty_word);
  words(bench, "--peers", request.peers,
        "Also measure these: torch, flash_attn, cudnn; several with commas. Needs Python and PyTorch")
      ->delimiter(',')
      ->allow_extra_args(false);
  number(bench, "--rounds", request.rounds, "Rounds; a time is the median over them", 1, most_rounds);
  number(bench, "--seed", request.seed, "Seed of the random inputs");
  bench->add_option("--commit", request.commit, "Written into each line as \"commit\"");
}

void CommandLine::add_tune() {
  CLI::App* tune = verb("tune", "Measure candidates and write tuning records of the fastest", tune_footer);
  problem(tune);
  words(tune, "--target", request.targets, "Targets to tune for; by default the best of this machine")
      ->delimiter(',')
      ->allow_extra_args(false);
  number(tune, "--threads", request.threads, "Threads; 0 is REGARD_THREADS or all cores", 0, most_threads);
  tune->add_option("--problems", request.problems, "File with one problem per line; - is standard input")
      ->check(empty_word);
  words(tune, "--record", request.record, "A file of problems that REGARD_RECORD wrote");
  words(tune, "--manifest", request.manifest,
        "The problems of a manifest, for those of its targets that run here");
  words(tune, "--out", request.out, "The file of tuning records; records of other problems are kept");
  words(tune, "--check", request.check_file, "Measure the records of this file again");
  number(tune, "--seconds", request.seconds, "Time limit for all problems together", 0, most_seconds);
  number(tune, "--seed", request.seed, "Seed of the random inputs");
}

void CommandLine::add_others() {
  CLI::App* explain =
      verb("explain", "Print every candidate for a problem, with its verdict", explain_footer);
  problem(explain);
  where(explain, false);
  explain->add_flag("--all", request.all, "Print a line for every refused candidate, not one for each rule");

  CLI::App* list = verb("list", "List kernels: compiled in, cached, or of a profile", list_footer);
  words(list, "--target", request.targets, "Only kernels of this target")->expected(1);
  words(list, "--profile", request.profile, "The kernels of a profile, e.g. flash, pytorch, all");
  words(list, "--tier", request.tier,
        "Only kernels that come from this tier, built-in, bundle, cache or compile");

  CLI::App* rerun = verb("rerun", "Run a saved call again and compare the results", rerun_footer);
  words(rerun, "folder", request.paths, "The folder of the call")
      ->required()
      ->expected(1)
      ->allow_extra_args(false);
  where(rerun, false);
  rerun->add_flag("--oracle", request.oracle, "Also judge both results by the fp64 oracle");

  CLI::App* report =
      verb("report", "Write an HTML page about this machine and files of results", report_footer);
  words(report, "file", request.paths, "Files of bench, run --json, rerun --json, tune or REGARD_VERIFY");
  words(report, "-o,--out", request.out, "The page; by default report.html");

  CLI::App* build = verb("build", "Build the kernels of a manifest ahead of time", build_footer);
  words(build, "manifest", request.manifest, "The manifest, a TOML file")->required();
  words(build, "--output", request.output, "Folder; by default NAMESPACE-build next to the manifest");
  number(build, "--jobs", request.threads, "Compiles at a time; 0: as many as cores and memory allow", 0,
         most_threads);
  CLI::Option* check = build->add_flag_callback(
      "--check", [this] { request.only = 1; }, "Only report what would be built; nothing is written");
  build->add_flag_callback(
           "--list", [this] { request.only = 2; }, "The same, with every kernel")
      ->excludes(check);

  CLI::App* prebuild =
      verb("prebuild", "Compile kernels into the cache, also for GPUs of other machines", prebuild_footer);
  words(prebuild, "--target", request.targets, "Targets, e.g. sm_90a; several with commas")
      ->delimiter(',')
      ->allow_extra_args(false);
  words(prebuild, "--profile", request.profiles, "Profiles, e.g. flash; several with commas")
      ->delimiter(',')
      ->allow_extra_args(false);
  words(prebuild, "--manifest", request.manifest, "The kernels of a manifest, for its targets");
  words(prebuild, "--record", request.record, "The kernels of a file of problems that REGARD_RECORD wrote");
  number(prebuild, "--sample", request.sample,
         "At most this many kernels of each target, always the same; 0 is all", 0, most_kernels);
  number(prebuild, "--threads", request.threads, "Compiles at a time; 0 is all cores", 0, most_threads);
  prebuild->add_flag("--strict", request.strict,
                     "Exit code 1 when a GPU kernel spills, has a stack frame, lacks matrix instructions, or "
                     "its compiler or its code shows another cause of slowness");

  const auto word_and_files = [&](CLI::App* app, const char* word, const char* files) {
    app->add_option("verb", request.words, word)
        ->expected(1)
        ->allow_extra_args(false)  // what follows is a file
        ->required();
    words(app, "file", request.paths, files);
  };
  CLI::App* cache = verb("cache", "Inspect and clean the cache of compiled kernels", cache_footer);
  word_and_files(cache, "list, stat, verify, gc, clean, export or import", "export and import: the bundle");

  CLI::App* bundle = verb("bundle", "Sign, check, list and merge files with many kernels", bundle_footer);
  word_and_files(bundle, "keygen, sign, verify, list or merge", "The bundles; of keygen the file of the key");
  words(bundle, "-o,--out", request.out, "merge: the file to write");
  words(bundle, "--key", request.key, "sign: the file that keygen wrote");
  words(bundle, "--trusted", request.trusted, "verify: public keys that may have signed; several with commas")
      ->delimiter(',')
      ->allow_extra_args(false);

  verb("info", "Machine, targets, compiler, settings, counters", "");

  CLI::App* help = verb("help", "Help of a verb, or the words of problem text: regard help problem", "");
  help->add_option("topic", request.words, "A verb, problem, or man: the man page")->expected(0, 1);

  CLI::App* completion =
      verb("completion", "Print a completion script for bash, zsh or fish", completion_footer);
  completion->add_option("shell", request.words, "bash, zsh or fish")->expected(1)->required();
}

/// The long and short names of an option, with dashes.
std::vector<std::string> names_of(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  return names;
}

bool takes_problem(const CLI::App& verb) {
  const CLI::Option* const option = verb.get_option_no_throw("problem");
  return option != nullptr && option->get_positional();
}

/// The end of the sentence for an option that is a word of problem text, or another library's name for one;
/// empty where it is neither.
std::string word_of_problem(const std::string& argument) {
  const std::size_t first = argument.find_first_not_of('-');
  if (first == std::string::npos || argument[first] == '=') return "";
  std::string word = argument.substr(first);
  const std::size_t equals = std::min(word.find('='), word.size());
  std::replace(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(equals), '-', '_');
  const std::string known = in_quotes(word) + ", a word of the problem, without dashes?",
                    question = "did you mean ";
  try {
    const Problem problem(word);
    return known;
  } catch (const error& refused) {
    const std::string message = refused.what();
    if (!message.starts_with("unknown word")) return known;
    const std::size_t at = message.find(question);
    return at == std::string::npos ? "" : message.substr(at + question.size());
  }
}

/// CLI11 collects unknown words and reports them at the end; here the first such word is an error that names
/// the nearest known one.
void refuse_unknown(CLI::App& app, std::span<const std::string> arguments) {
  std::vector<std::string> names;
  for (const CLI::App* verb : app.get_subcommands({})) names.push_back(verb->get_name());
  const auto refuse = [&](const std::string& what, const std::string& word) {
    const std::vector<std::string_view> views(names.begin(), names.end());
    fail_with(what + " " + in_quotes(word) + suggestion(word, views));
  };
  CLI::App* scope = &app;
  if (!arguments.empty() && !arguments[0].starts_with('-')) {
    if (std::ranges::find(names, arguments[0]) == names.end()) refuse("unknown verb", arguments[0]);
    scope = app.get_subcommand(arguments[0]);
  }
  names.clear();
  std::vector<std::string> flags;
  for (const CLI::Option* option : scope->get_options()) {
    for (std::string& name : names_of(*option)) {
      if (option->get_items_expected_max() == 0) flags.push_back(name);
      names.push_back(std::move(name));
    }
  }
  for (const std::string& argument : arguments) {
    const std::string name = argument.substr(0, argument.find('='));
    const bool is_option = name.size() > 1 && name[0] == '-' && (name[1] < '0' || name[1] > '9');
    if (!is_option) continue;
    if (std::ranges::find(names, name) == names.end()) {
      const std::vector<std::string_view> views(names.begin(), names.end());
      const bool misspelt = !nearest_within(name, views, 4).empty();
      const std::string word = misspelt || !takes_problem(*scope) ? "" : word_of_problem(argument);
      if (!word.empty()) fail_with("unknown option " + in_quotes(name) + "; did you mean " + word);
      refuse("unknown option", name);
    }
    // CLI11 would take it as on, off or a count.
    if (name != argument && std::ranges::find(flags, name) != flags.end())
      fail_with(name + " takes no value; write it alone or leave it out");
  }
}

/// CLI11's message as one sentence that names what it is about. Words are quoted whole.
std::string sentence(std::string message) {
  constexpr std::size_t most = 1000;
  std::ranges::replace(message, '\n', ' ');
  while (!message.empty() && (message.back() == ' ' || message.back() == '.')) message.pop_back();
  return shortened(std::move(message), most);
}

/// The same where an option or a word has no value, or occurs too often.
std::string about_values(const std::string& message) {
  const std::string name = message.substr(0, message.find(':'));
  if (message.find(" missing") != std::string::npos) return name + " needs a value";
  if (message.find(": At Most ") == std::string::npos) return sentence(message);
  return name.starts_with('-') ? name + " can be given only once" : "only one " + name + " can be given";
}

std::string help_of(CLI::App& app, const std::string& name) {
  CLI::App* verb = name.empty() ? &app : app.get_subcommand(name);
  return verb->help(name.empty() ? "" : "regard", CLI::AppFormatMode::Normal);
}

}  // namespace

std::variant<Request, std::string> parse_command_line(std::vector<std::string> arguments) {
  // --grad_o is --grad-o
  for (std::string& argument : arguments) {
    if (!argument.starts_with("--")) continue;
    const std::size_t end = std::min(argument.find('='), argument.size());
    argument.replace(0, end, dashed(argument.substr(0, end)));
  }
  const auto line = std::make_unique<CommandLine>();
  refuse_unknown(line->app, arguments);
  try {
    // CLI11 takes the arguments in reverse order.
    line->app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::CallForHelp&) {
    const auto chosen = line->app.get_subcommands();
    return help_of(line->app, chosen.empty() ? "" : chosen.front()->get_name());
  } catch (const CLI::CallForVersion&) {
    return std::string("regard ") + regard_version() + "\n";
  } catch (const CLI::RequiredError& missing) {
    if (line->app.get_subcommands().empty()) fail_with("a verb is missing, such as run; see regard --help");
    fail_with(sentence(missing.what()) + "; see regard " + line->app.get_subcommands().front()->get_name() +
              " --help");
  } catch (const CLI::ArgumentMismatch& missing) {
    fail_with(about_values(missing.what()));
  } catch (const CLI::ParseError& wrong) {
    fail_with(sentence(wrong.what()));
  }
  line->request.verb = line->app.get_subcommands().front()->get_name();
  const std::string topic = line->request.words.empty() ? "" : line->request.words[0];
  if (line->request.verb == "help" && topic != "problem" && topic != "man") {
    if (!topic.empty()) refuse_unknown(line->app, line->request.words);
    return help_of(line->app, topic);
  }
  return std::move(line->request);
}

std::vector<VerbInfo> verb_table() {
  CommandLine line;
  std::vector<VerbInfo> verbs;
  for (const CLI::App* verb : line.app.get_subcommands({})) {
    VerbInfo row{verb->get_name(), verb->get_description(), {}, false, {}};
    for (const CLI::Option* option : verb->get_options()) {
      row.takes_problem |= option->get_positional() && option->get_name() == "problem";
      if (option->get_lnames().empty()) continue;
      row.options.push_back({"--" + option->get_lnames().front(), option->get_description(),
                             option->get_items_expected_max() > 0});
    }
    if (row.name == "cache") row.words = {"list", "stat", "verify", "gc", "clean", "export", "import"};
    if (row.name == "bundle") row.words = {"keygen", "sign", "verify", "list", "merge"};
    if (row.name == "completion") row.words = {"bash", "zsh", "fish"};
    verbs.push_back(std::move(row));
  }
  for (VerbInfo& verb : verbs) {
    if (verb.name != "help") continue;
    verb.words = {"problem", "man"};
    for (const VerbInfo& other : verbs) verb.words.push_back(other.name);
  }
  return verbs;
}

}  // namespace regard::cli
