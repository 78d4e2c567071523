// Judges a call's outputs by the oracle, as a report for people and programs.
#pragma once

#include <string>

#include "base/json.h"
#include "base/result.h"
#include "oracle/oracle.h"
#include "problem/problem.h"
#include "regard/regard.h"

namespace regard::oracle {

/// The part of a problem that the oracle computes in seconds, as check_report does.
Options sample(const Problem&, int threads);

/// A member of a report. JSON has no infinity: a word stands for it.
void write_number(JsonWriter& json, std::string_view name, double value);

/// {"ok": true, "sampled": false, "skipped": [],
///  "outputs": {"o": {"max_absolute": .., "max_relative": .., "tolerance": .., "worst": .., "compared": ..,
///                    "wrong": .., "ok": ..}, ..}}
/// tolerance: the one at the largest absolute error; worst: the largest error as a part of its own tolerance.
/// A large problem is sampled so that the check takes seconds: some rows of each head forward, some heads (or
/// rows of grad_q) backward; outputs that would need all of them are named in "skipped".
Result<std::string> check_report(const Problem&, const regard_arguments&, int threads);

}  // namespace regard::oracle
