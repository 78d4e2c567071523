// This process: its environment variables, which are read only here, and the file of its code.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace regard {

/// Whether this program has rights that its user lacks (setuid, setgid, file capabilities). The user controls
/// the variables, which could choose what is executed and written with those rights, so all are ignored then.
bool is_privileged();

/// The value; null if the variable is not set.
const char* variable(const char* name);

/// All of them, as "NAME=value".
std::vector<std::string_view> variables();

/// Whether there are variables with this prefix that a privileged program ignores.
bool ignores_variables(std::string_view prefix);

/// The file that this code was loaded from, a library or a program; without links where they can be resolved.
std::string library_path();

}  // namespace regard
