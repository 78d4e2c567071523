// The part of this process's environment that a compiler gets: built here and nowhere else.
#pragma once

#include <string>
#include <vector>

namespace regard {

/// The folders in which programs are looked for: absolute ones of PATH, or the usual ones where it is not
/// set.
std::string search_path();

/// The environment of a program that is run: this process's variables, without those that would change what
/// is compiled but not the compiler's identity; with PATH, messages in English, and `more` ("NAME=value").
std::vector<std::string> child_environment(const std::vector<std::string>& more);

/// What variables that choose a compiler's parts add to its identity; empty when none is set.
std::string environment_identity();

}  // namespace regard
