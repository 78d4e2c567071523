// Other libraries' names for the words of problem text, for the sentence that refuses them.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace regard {

/// One line of the table: other libraries' names, in lower case, and ours.
struct OtherNames {
  std::string_view names;      ///< separated by spaces
  std::string_view word;       ///< of problem text, with an example's value
  std::string_view note = {};  ///< further information: which tensor goes with it
};
std::span<const OtherNames> other_name_table();

/// A word of problem text to suggest for an unknown one.
struct OtherName {
  std::string word;     ///< with the caller's own number if there was one: "b=2" for "batch_size=2"
  std::string note;     ///< further information, or nothing
  bool denied = false;  ///< the caller asked for the opposite: "return_lse=0"
};

/// The word for what other libraries, and people in a hurry, write: "is_causal", "batch=2", "window:3,0",
/// "FWD". Nothing where it is far from all of them, or where `accepts`, which is called for each answer,
/// takes none.
std::optional<OtherName> find_other_name(std::string_view written,
                                         const std::function<bool(std::string_view)>& accepts);

/// Why something that has a name elsewhere is not a word of a problem, as the rest of a sentence, or nothing.
std::string why_no_word(std::string_view name);

/// "0", "false", "off" and the like.
bool says_no(std::string_view value);

}  // namespace regard
