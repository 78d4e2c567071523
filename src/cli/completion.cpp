// regard completion: scripts for the shells, generated from the command line's own declaration.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "base/nearest.h"
#include "base/text.h"
#include "cli/command_line.h"
#include "cli/failure.h"
#include "cli/json_text.h"
#include "cli/verbs.h"
#include "regard/regard.hpp"

namespace regard::cli {
namespace {

/// The words of problem text: "mask=none|causal" stands for mask=none and mask=causal, "s=N" for s=.
std::vector<std::string> problem_completions() {
  std::vector<std::string> completions;
  for (const auto& row : json_of(problem_words())) {
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

/// What can follow a verb.
std::vector<std::string> words_after(const VerbInfo& verb, const std::vector<std::string>& problem) {
  std::vector<std::string> words = verb.words;
  if (verb.takes_problem) words = problem;
  for (const VerbInfo::Option& option : verb.options) words.push_back(option.name);
  return words;
}

/// Options whose values are from a known list.
std::vector<std::pair<std::string, std::vector<std::string>>> known_values() {
  const nlohmann::json about = json_of(info());
  std::vector<std::string> targets;
  for (const auto& target : about.at("targets")) targets.push_back(target.at("name").get<std::string>());
  return {{"--target", std::move(targets)},
          {"--peers", {"torch", "cudnn", "flash_attn"}},
          {"--profile", about.at("profiles").get<std::vector<std::string>>()},
          {"--tier", {std::begin(listed_tiers), std::end(listed_tiers)}}};
}

/// Options that take other values, such as files.
std::set<std::string> other_values(const std::vector<VerbInfo>& verbs) {
  std::set<std::string> options;
  for (const VerbInfo& verb : verbs)
    for (const VerbInfo::Option& option : verb.options)
      if (option.takes_value) options.insert(option.name);
  for (const auto& [option, known] : known_values()) options.erase(option);
  return options;
}

/// bash splits a word at = and :, and replaces what follows the last of them, so the script looks at the
/// whole line.
std::string bash(const std::vector<VerbInfo>& verbs, const std::vector<std::string>& problem) {
  std::string names, cases, values;
  for (const VerbInfo& verb : verbs) {
    names += verb.name + " ";
    cases += fmt::format("    {}) words=\"{}\" ;;\n", verb.name, fmt::join(words_after(verb, problem), " "));
  }
  for (const auto& [option, known] : known_values())
    values += fmt::format("    {}) words=\"{}\" ;;\n", option, fmt::join(known, " "));
  values += fmt::format("    {}) words= ;;\n", fmt::join(other_values(verbs), " | "));  // files
  return fmt::format(R"(# bash completion for regard
_regard() {{
  local line="${{COMP_LINE:0:COMP_POINT}}" breaks="${{COMP_WORDBREAKS//[!=:]/}}" typed word option words
  read -ra typed <<<"$line"
  word="${{line##*[[:space:]]}}"
  if [[ $line =~ ^[[:space:]]*[^[:space:]]+[[:space:]]+[^[:space:]]*$ ]]; then
    COMPREPLY=($(compgen -W "{}--help --version" -- "$word"))
    return
  fi
  case "${{typed[1]}}" in
{}  esac
  option="${{typed[-1]}}"
  [[ -z $word ]] || option="${{typed[-2]}}"
  [[ $word != --*=* ]] || option="${{word%%=*}}"
  local before= # what of the word is not to be completed: the option, or the values that are there
  case "$option" in
{}    *) option= ;;
  esac
  [[ -z $option || $word != *[=,]* ]] || before="${{word%"${{word##*[=,]}}"}}"
  COMPREPLY=($(compgen -W "$words" -- "${{word#"$before"}}"))
  ((${{#COMPREPLY[@]}})) || COMPREPLY=($(compgen -f -- "${{word#"$before"}}"))
  COMPREPLY=("${{COMPREPLY[@]/#/$before}}")
  [[ -z $breaks ]] || COMPREPLY=("${{COMPREPLY[@]#"${{word%"${{word##*[$breaks]}}"}}"}}")
  [[ ${{COMPREPLY[0]}} != *= ]] || compopt -o nospace
}}
complete -F _regard regard
)",
                     names, cases, values);
}

/// Text in single quotes for zsh and fish, without the characters that zsh's _describe splits at.
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
  std::string names, cases, values;
  for (const auto& [option, known] : known_values())
    values += fmt::format(
        "    {0}) compset -P '*,'; compadd {1}; return ;;\n    {0}=*) compset -P '*[=,]'; compadd {1}; "
        "return ;;\n",
        option, fmt::join(known, " "));
  values += fmt::format("    {}) _files; return ;;\n", fmt::join(other_values(verbs), " | "));
  for (const VerbInfo& verb : verbs) {
    names += "    " + quoted(verb.name) + ":" + quoted(verb.doc) + "\n";
    cases +=
        fmt::format("    {}) words_after=({}) ;;\n", verb.name, fmt::join(words_after(verb, problem), " "));
  }
  return fmt::format(R"(#compdef regard
_regard() {{
  local previous
  local -a verbs words_after
  verbs=(
{}  )
  if ((CURRENT == 2)); then
    _describe verb verbs
    return
  fi
  case "${{words[2]}}" in
{}  esac
  case "${{words[CURRENT]}}" in --*=*) previous="${{words[CURRENT]}}" ;; *) previous="${{words[CURRENT-1]}}" ;; esac
  case "$previous" in
{}  esac
  compadd -a words_after || _files
}}
_regard "$@"
)",
                     names, cases, values);
}

std::string fish(const std::vector<VerbInfo>& verbs, const std::vector<std::string>& problem) {
  const auto known = known_values();
  std::string text = "# fish completion for regard\n";
  for (const VerbInfo& verb : verbs) {
    text += fmt::format("complete -c regard -f -n __fish_use_subcommand -a {} -d {}\n", verb.name,
                        quoted(verb.doc));
    const std::string after = "__fish_seen_subcommand_from " + verb.name;
    for (const VerbInfo::Option& option : verb.options) {
      const auto values = std::ranges::find(known, option.name, [](const auto& row) { return row.first; });
      text +=
          fmt::format("complete -c regard -n '{}' -l {}{}{} -d {}\n", after, option.name.substr(2),
                      option.takes_value ? " -r" : "",
                      values == known.end() ? "" : fmt::format(" -f -a '{}'", fmt::join(values->second, " ")),
                      quoted(option.doc));
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
