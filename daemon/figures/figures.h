// The status table: lists every figure of a run that the program prints, with its source, its name
// in each output, and whether it is always known.
//
// Law: a figure that is not known is left out and never shown as 0: it is null in JSON, an empty
// field in CSV, no series for Prometheus, "-" or words for people, and a dash on the page. A figure
// that is known but not finite is a word (compression/base/number_words.h) and is never left out.
// All outputs use this table, so that all of them show the same.
// tests/unit/daemon/figures/figures_test.cc checks every line of the table with its value unknown,
// and docs/metrics.md lists it. Pure. May be called from any thread.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "atoll/v1/admin.pb.h"

namespace atolld {

enum class FigureForm { kWhole, kReal };

// One line of the table, for one kind of record. A name is nullptr if its output does not show the
// figure.
template <typename Of>
struct Figure {
  const char* json;    // a JSON pointer into the object of `--json`
  const char* column;  // the name of the column of `atoll run metrics`
  const char* metric;  // the name in /metrics; if it ends in "_total", the figure only grows
  const char* row;     // the heading in the tables of `atoll run show` and `atoll peer show`
  FigureForm form;
  const char* what;    // one line, which is also the metric's help
  const char* source;  // the part of Atoll that knows the figure, and its origin
  bool always;         // true if it is known for every record of this kind
  std::optional<double> (*value)(const Of&);
};

absl::Span<const Figure<v1::RunStatus>> RunFigures();
absl::Span<const Figure<v1::RoundRecord>> RoundFigures();
absl::Span<const Figure<v1::EvaluationRecord>> EvaluationFigures();
absl::Span<const Figure<v1::PeerStatus>> PeerFigures();  // the coordinator's figures of a peer
absl::Span<const Figure<v1::PeerStatus>> ToldFigures();  // the figures that a peer reports
absl::Span<const Figure<v1::LinkStatus>> LinkFigures();

// Returns the value, the word for a value that is not finite, or null if it is unknown.
nlohmann::ordered_json FigureJson(std::optional<double> value, FigureForm form = FigureForm::kReal);
// The reverse of FigureJson: returns the value of a number or of a word for a value that is not
// finite. Returns nullopt for anything else.
std::optional<double> FigureOf(const nlohmann::ordered_json& json);

// Writes every figure that has a place in JSON to that place, or null if it is not known.
template <typename Of>
void PutFigures(absl::Span<const Figure<Of>> figures, const Of& of, nlohmann::ordered_json* json);

// Returns the value formatted by `text`, or "not known".
std::string KnownText(std::optional<double> value, std::string (*text)(double));

// Returns the value of the figure whose place in JSON is `json`. CHECK-fails if there is no such
// figure.
template <typename Of>
std::optional<double> ValueOf(absl::Span<const Figure<Of>> figures, absl::string_view json,
                              const Of& of);

}  // namespace atolld
