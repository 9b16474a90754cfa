// The status table: lists every figure of a run that the program prints, with its unit, its help,
// its source, its name in each output, and how it is taken from the status if it is known.
//
// `--json`, `atoll run metrics`, /metrics and a peer's facts on the page are made from the lists
// below, so a new figure is a line here and a line of docs/metrics.md. The tables for people choose
// among the figures, and take title, unit and value from here.
//
// Law: a figure that is not known is left out and never shown as 0: it is null in JSON, an empty
// field in CSV, no series for Prometheus, "-" or words for people, and a dash on the page. A figure
// that is known but not finite is a word (compression/base/number_words.h) and is never left out.
// All outputs use this table, so that all of them show the same.
// tests/unit/daemon/figures/figures_test.cc checks every line of the table with its value unknown,
// and compares it with docs/metrics.md. Pure. May be called from any thread.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "atoll/v1/admin.pb.h"

namespace atolld {

// The unit in which a figure is measured. It decides how the figure is written: a unit of whole
// numbers makes integers in JSON and CSV, and every unit has one text for people.
enum class FigureUnit {
  kCount,            // whole: peers, rounds, parameters
  kOrdinal,          // whole: a number that counts nothing, such as a version or a process id
  kFlag,             // whole: 1 while something holds, else 0
  kTokens,           // whole
  kSamples,          // whole
  kBytes,            // whole
  kTokensEstimated,  // real: a statistical estimate
  kSeconds,
  kUnixSeconds,  // a time: seconds since 1970 in UTC
  kBytesPerSecond,
  kTokensPerSecond,
  kShare,   // 0 to 1
  kLoss,    // in the run's unit of losses
  kNumber,  // real, without a unit
};

// Returns the name that docs/metrics.md and the page use: "bytes", "tokens/s".
const char* UnitName(FigureUnit unit);

// One line of the table, for one kind of record. A name is nullptr if its output does not show the
// figure.
template <typename Of>
struct Figure {
  const char* json;    // a JSON pointer into the object of `--json`
  const char* column;  // the name of the column of `atoll run metrics`
  const char* metric;  // the name in /metrics; if it ends in "_total", the figure only grows
  const char* title;  // the heading for people: in `atoll run show`, `atoll peer show`, on the page
  FigureUnit unit;
  const char* help;    // one line, which is also the metric's help
  const char* source;  // the part of Atoll that knows the figure, and its origin
  std::optional<double> (*value)(const Of&);  // nullopt if it is not known
  // The name in the /metrics of the peer's own daemon, which knows the figure in the same way.
  const char* daemon_metric = nullptr;

  nlohmann::ordered_json ToJson(const Of& of) const;
  // Returns the value as people read it, with its unit: "12.3 MB"; or `unknown`.
  std::string Text(const Of& of, absl::string_view unknown) const;
  // Returns the row of a table: the title, and Text.
  std::vector<std::string> Row(const Of& of, absl::string_view unknown) const;
};

template <typename Of>
class FigureList : public absl::Span<const Figure<Of>> {
 public:
  using absl::Span<const Figure<Of>>::Span;

  // Returns the figure whose place in JSON is `json`. CHECK-fails if there is no such figure.
  const Figure<Of>& At(absl::string_view json) const;
  // Writes every figure that has a place in JSON to that place, or null if it is not known.
  void Put(const Of& of, nlohmann::ordered_json* json) const;
};

FigureList<v1::RunStatus> RunFigures();
FigureList<v1::RoundRecord> RoundFigures();
FigureList<v1::EvaluationRecord> EvaluationFigures();
FigureList<v1::PeerStatus> PeerFigures();  // the coordinator's figures of a peer
FigureList<v1::PeerStatus> ToldFigures();  // the figures that a peer reports
FigureList<v1::LinkStatus> LinkFigures();

// Returns the value, the word for a value that is not finite, or null if it is unknown.
nlohmann::ordered_json FigureJson(std::optional<double> value,
                                  FigureUnit unit = FigureUnit::kNumber);
// The reverse of FigureJson: returns the value of a number or of a word for a value that is not
// finite. Returns nullopt for anything else.
std::optional<double> FigureOf(const nlohmann::ordered_json& json);

// Returns the value formatted by `text`, or "not known".
std::string KnownText(std::optional<double> value, std::string (*text)(double));

}  // namespace atolld
