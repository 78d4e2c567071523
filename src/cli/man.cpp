// regard help man: the man page, from the command line's own declaration.
#include "cli/man.h"

#include <fmt/format.h>

#include "cli/command_line.h"
#include "regard/regard.h"

namespace regard::cli {
namespace {

/// Text for roff: what it would read as its own is escaped.
std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\' || c == '-') result += '\\';
    result += c;
    if (c == '\n') result += "\\&";  // so that no line begins with a dot
  }
  return result;
}

/// The sentence about exit codes in the help of the command.
std::string exit_codes() {
  const std::string begin = "Exit codes: ", help = std::get<std::string>(parse_command_line({"--help"}));
  const std::size_t from = help.find(begin) + begin.size();
  return help.substr(from, help.find('\n', from) - from);
}

}  // namespace

std::string man_page() {
  std::string page = fmt::format(
      ".TH REGARD 1 \"\" \"regard {}\"\n.SH NAME\nregard \\- fused multi\\-head attention: plan, run, check "
      "and "
      "measure it\n.SH SYNOPSIS\n.B regard\n.I verb\n[\\fIproblem\\fR] [\\fIoptions\\fR]\n.SH DESCRIPTION\n"
      "A problem is one line of text, such as\n.PP\n.RS\nfwd bf16 b=2 h=16 s=1024 d=128 "
      "mask=causal\n.RE\n.PP\n"
      "Its words are listed by \\fBregard help problem\\fR, and examples of a verb by \\fBregard help\\fR "
      "\\fIverb\\fR.\n"
      ".SH VERBS\n",
      regard_version());
  for (const VerbInfo& verb : verb_table()) {
    page += fmt::format(".SS {}\n{}.\n", verb.name, escaped(verb.doc));
    for (const VerbInfo::Option& option : verb.options) {
      const char* const value = option.takes_value ? " \\fIvalue\\fR" : "";
      page += fmt::format(".TP\n\\fB{}\\fR{}\n{}\n", escaped(option.name), value, escaped(option.doc));
    }
  }
  page += ".SH EXIT STATUS\n" + escaped(exit_codes()) + "\n";
  page +=
      ".SH ENVIRONMENT\n\\fBregard info\\fR shows the settings, which are variables that begin with "
      "REGARD_.\n";
  return page;
}

}  // namespace regard::cli
