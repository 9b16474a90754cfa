// The kinds of values that a config's keys take: what each kind allows, how it is read, and how it
// is written.
//
// A FieldValue points to the variable that stores the value and says which values are legal.
// Parsing, the messages for a wrong value, the printed file and docs/config.md all use it. Pure.
// May be called from any thread. The variable must outlive the FieldValue.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace atolld {

struct WholeNumber {
  std::variant<uint32_t*, uint64_t*> at;
  uint64_t minimum;
  uint64_t maximum;  // at most 2^63 - 1, the largest whole number of TOML
  uint64_t multiple_of = 1;
};

// The limit at an open end is not allowed itself.
enum class Bounds { kClosed, kOpenBelow, kOpenAbove, kOpen };

struct RealNumber {
  double* at;
  double minimum;
  double maximum;
  Bounds bounds = Bounds::kClosed;
};

struct Flag {
  bool* at;
};

struct TimeSpan {
  absl::Duration* at;
  absl::Duration minimum;
  absl::Duration maximum;
};

// A whole number of bytes, or text with a unit: "20GB" (powers of ten), "64MiB" (powers of two).
struct ByteCount {
  uint64_t* at;
  uint64_t minimum;
  uint64_t maximum;  // at most 2^63 - 1
};

// The rate of a line, stored in bytes a second: "100Mbit", "2.5Gbit", "500kbit"; the empty text is
// stored as 0, which means unknown.
struct LineRate {
  uint64_t* at;
};

enum class TextForm {
  kOneOf,          // one of `choices`
  kCodec,          // what compression's ParseCodecName accepts
  kId,             // 1-64 characters of [a-z0-9-]
  kNames,          // names of [a-z0-9_], separated by commas
  kSha256,         // 64 hexadecimal digits
  kPlain,          // any text on one line
  kPath,           // a path; relative paths start at the file's folder
  kPathOrUri,      // the same, or a URI, which is not changed
  kDialAddress,    // "host:port" or "unix:/path"
  kListenAddress,  // the same; port 0 lets the system choose
  kAdvertised,     // like kDialAddress, or kDialsOutOnly
  kAddresses,      // "host:port", separated by commas
  kHours,          // what WeekHours::Parse accepts
  kHttpAddress,    // "host:port", or "auto", or "off"
  kDevice,         // "auto", "cpu", "cuda", "cuda:N", "cuda:all" or a list
};

struct Text {
  std::string* at;
  TextForm form;
  bool may_be_empty = false;
  std::vector<std::string> choices = {};
};

using FieldValue = std::variant<WholeNumber, RealNumber, Flag, TimeSpan, ByteCount, LineRate, Text>;

// A value as a file or an option gives it. OtherValue is a value of a type that no key takes,
// described in words ("a list").
struct OtherValue {
  std::string description;
};
using RawValue = std::variant<bool, int64_t, double, std::string, OtherValue>;

// Stores `raw` in the variable of `value`. Fails with INVALID_ARGUMENT if `raw` is not legal; the
// message says what `name` must be and what was found, but not where: "[inner] steps must be a
// whole number from 1 to 1000000, not 'ten'".
absl::Status Assign(const FieldValue& value, absl::string_view name, const RawValue& raw);

// Describes the legal values, for messages and docs: "a whole number from 1 to 1000000".
std::string MustBe(const FieldValue& value);

// Names the type of the value in up to three words: "whole number", "path".
std::string TypeOf(const FieldValue& value);

// Returns the current value, written in TOML.
std::string FormatValue(const FieldValue& value);

// Parses the rate of a line as people write it, "100Mbit", "2.5Gbit" or "500kbit" a second, and
// returns it in bytes a second. Fails with INVALID_ARGUMENT if it is not a number above 0 with
// kbit, Mbit or Gbit.
absl::StatusOr<double> ParseRate(absl::string_view text);

// Writes a rate in the largest unit in which it is a whole number. ParseRate reads the text back as
// the same rate.
std::string FormatLineRate(uint64_t bytes_per_second);

}  // namespace atolld
