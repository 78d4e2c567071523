// The C ABI under a namespace: regard_plan_run becomes te_regard_plan_run, REGARD_OK becomes TE_REGARD_OK.
#pragma once

#include <set>
#include <string>
#include <string_view>

namespace regard::aot {

/// regard.h, as this library was built with it.
std::string_view public_header();

/// The identifiers of a header that begin with regard_ or REGARD_. A name that occurs only in comments is not
/// one of them: it is a setting's name, which stays as it is.
std::set<std::string, std::less<>> public_names(std::string_view header);

/// One of these names in the namespace.
std::string in_namespace(std::string_view name, std::string_view name_space);

/// The header with each of its names in the namespace.
std::string header_in_namespace(std::string_view header, std::string_view name_space);

}  // namespace regard::aot
