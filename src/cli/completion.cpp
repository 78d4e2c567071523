// regard completion: scripts for the shells, made from the command line's own declaration.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/nearest.h"
#include "base/printable.h"
#include "cli/command_line.h"
#include "cli/failure.h"
#include "cli/verbs.h"

namespace regard::cli {
namespace {

/// The words of problem text: "mask=none|causal" stands for mask=none and mask=causal, "s=N" for s=.
std::vector<std::string> problem_completions() {
  std::vector<std::string> completions;
  for (const auto& row : nlohmann::json::parse(problem_words())) {
    const std::string word = row.at("word").get<std::string>();
    const std::size_t equals = word.find('=');
    const std::string name = equals == std::string::npos ? "" : word.substr(0, equals + 1);
    const bool alternatives = word.find('|') != std::string::npos;
    if (!name.empty() && !alternatives) {
      completions.push_back(name);
      continue;
    }
    std::istringstream values(word.substr(name.size()));
    for (std::string value; std::getline(values, value, '|');) completions.push_back(name + value);
  }
  return completions;
}

/// What may follow a verb.
std::vector<std::string> words_after(const VerbInfo& verb, const std::vector<std::string>& problem) {
  std::vector<std::string> words = verb.words;
  if (verb.takes_problem) words = problem;
  for (const VerbInfo::Option& option : verb.options) words.push_back(option.name);
  return words;
}

std::string bash(const std::vector<VerbInfo>& verbs, const std::vector<std::string>& problem) {
  std::string names, cases;
  for (const VerbInfo& verb : verbs) {
    names += verb.name + " ";
    cases += fmt::format("    {}) words=\"{}\" ;;\n", verb.name, fmt::join(words_after(verb, problem), " "));
  }
  return fmt::format(R"(# bash completion for regard
_regard() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" words
  if ((COMP_CWORD == 1)); then
    COMPREPLY=($(compgen -W "{}--help --version" -- "$current"))
    return
  fi
  case "${{COMP_WORDS[1]}}" in
{}  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  [[ ${{COMPREPLY[0]}} == *= ]] && compopt -o nospace
  ((${{#COMPREPLY[@]}})) || COMPREPLY=($(compgen -f -- "$current"))
}}
complete -F _regard regard
)",
                     names, cases);
}

/// Text in single quotes, as zsh and fish take it, without the characters that zsh's _describe splits at.
std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) {
    if (c == '\'') {
      result += "'\\''";
    } else if (c == ':') {
      result += "\\:";
    } else {
      result += c;
    }
  }
  return result + "'";
}

std::string zsh(const std::vector<VerbInfo>& verbs, const std::vector<std::string>& problem) {
  std::string names, cases;
  for (const VerbInfo& verb : verbs) {
    names += "    " + quoted(verb.name) + ":" + quoted(verb.doc) + "\n";
    cases +=
        fmt::format("    {}) words_after=({}) ;;\n", verb.name, fmt::join(words_after(verb, problem), " "));
  }
  return fmt::format(R"(#compdef regard
_regard() {{
  local -a verbs words_after
  verbs=(
{}  )
  if ((CURRENT == 2)); then
    _describe verb verbs
    return
  fi
  case "${{words[2]}}" in
{}  esac
  compadd -a words_after || _files
}}
_regard "$@"
)",
                     names, cases);
}

std::string fish(const std::vector<VerbInfo>& verbs, const std::vector<std::string>& problem) {
  std::string text = "# fish completion for regard\n";
  for (const VerbInfo& verb : verbs) {
    text += fmt::format("complete -c regard -f -n __fish_use_subcommand -a {} -d {}\n", verb.name,
                        quoted(verb.doc));
    const std::string after = "__fish_seen_subcommand_from " + verb.name;
    for (const VerbInfo::Option& option : verb.options) {
      text += fmt::format("complete -c regard -n '{}' -l {}{} -d {}\n", after, option.name.substr(2),
                          option.takes_value ? " -r" : "", quoted(option.doc));
    }
    const std::vector<std::string>& words = verb.takes_problem ? problem : verb.words;
    if (!words.empty()) {
      text += fmt::format("complete -c regard -n '{}' -a '{}'\n", after, fmt::join(words, " "));
    }
  }
  return text;
}

}  // namespace

Answer completion_verb(const Request& request) {
  static constexpr std::string_view shells[] = {"bash", "zsh", "fish"};
  const std::string& shell = request.words.front();
  if (std::ranges::find(shells, shell) == std::end(shells)) {
    fail_with(fmt::format("there is no completion for {}{}", in_quotes(shell), suggestion(shell, shells)));
  }
  const std::vector<VerbInfo> verbs = verb_table();
  const std::vector<std::string> problem = problem_completions();
  return {shell == "bash"  ? bash(verbs, problem)
          : shell == "zsh" ? zsh(verbs, problem)
                           : fish(verbs, problem)};
}

}  // namespace regard::cli
