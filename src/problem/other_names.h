// What other libraries call the words of problem text, for the sentence that refuses them.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace regard {

/// One line of the table: names of others, in lower case, and what they are here.
struct OtherNames {
  std::string_view names;      ///< with spaces between them
  std::string_view word;       ///< of problem text, with an example's value
  std::string_view note = {};  ///< what else there is to say: which tensor goes with it
};
std::span<const OtherNames> other_name_table();

/// A word of problem text in place of one that is not known.
struct OtherName {
  std::string word;     ///< with the caller's own number where he gave one: "b=2" for "batch_size=2"
  std::string note;     ///< what else there is to say, or nothing
  bool denied = false;  ///< the caller wants what it says not: "return_lse=0"
};

/// By what other libraries, and people in a hurry, write: "is_causal", "batch=2", "window:3,0", "FWD".
/// Nothing where it is far from all of them, or where `accepts`, which is asked about each answer, takes
/// none.
std::optional<OtherName> find_other_name(std::string_view written,
                                         const std::function<bool(std::string_view)>& accepts);

/// Why what others have a name for is no word of a problem, as the rest of a sentence, or nothing.
std::string why_no_word(std::string_view name);

/// "0", "false", "off" and the like.
bool says_no(std::string_view value);

}  // namespace regard
