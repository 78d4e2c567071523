// Lines for people on stderr, by topic; silent unless REGARD_LOG names the topic. Warnings always show, once
// each.
#pragma once

#include <string_view>

namespace regard {

/// The topics; REGARD_LOG takes these, or all.
#define REGARD_LOG_TOPICS(X) X(plan) X(compile) X(cache) X(launch)

bool log_enabled(std::string_view topic);
void log_line(std::string_view topic, std::string_view text);
/// Whether `tell` prints: the topic is logged, or stderr is a terminal.
bool heard(std::string_view topic);
/// For operations that a person would otherwise wait for without knowing why.
void tell(std::string_view topic, std::string_view text);
/// Prints "regard: <text>" once per distinct text and process.
void warn_once(std::string_view text);

}  // namespace regard
