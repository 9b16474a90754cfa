// One value of a config: what it may be, how it is read, and how it is written.
//
// A FieldValue knows where the value lands and which values are legal; parsing, the messages for a
// wrong value, the printed file and docs/config.md all go by it. Pure functions, any thread; a
// FieldValue borrows the variable that it points to.
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

enum class Bounds { kClosed, kOpenBelow, kOpenAbove };  // an open end is not itself allowed

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

// Of a line, bytes a second: "100Mbit", "2.5Gbit", "500kbit"; "" is 0: not told.
struct LineRate {
  uint64_t* at;
};

enum class TextForm {
  kOneOf,          // of `choices`
  kCodec,          // what compression's ParseCodecName takes
  kId,             // 1-64 characters of [a-z0-9-]
  kNames,          // of [a-z0-9_], with commas between
  kSha256,         // 64 hexadecimal digits
  kPlain,          // one line of any text
  kPath,           // relative ones start at the file's folder
  kDialAddress,    // "host:port" or "unix:/path"
  kListenAddress,  // the same, port 0 lets the system choose
  kAdvertised,     // as kDialAddress, or kDialsOutOnly
  kAddresses,      // "host:port", with commas between
  kHours,          // what WeekHours::Parse takes
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

// A value as a file or an option gives it. The last alternative is one that no key takes, described
// in words ("a list").
struct OtherValue {
  std::string description;
};
using RawValue = std::variant<bool, int64_t, double, std::string, OtherValue>;

// Stores `raw` where `value` points. INVALID_ARGUMENT says what `name` must be and what was found,
// without the place: "[inner] steps must be a whole number from 1 to 1000000, not 'ten'".
absl::Status Assign(const FieldValue& value, absl::string_view name, const RawValue& raw);

// "a whole number from 1 to 1000000": what may be assigned, as messages and docs say it.
std::string MustBe(const FieldValue& value);

// The same in a word or three: "whole number", "path".
std::string TypeOf(const FieldValue& value);

// The present value as TOML writes it.
std::string FormatValue(const FieldValue& value);

// Rates of lines as people write them: "100Mbit", "2.5Gbit", "500kbit" a second. In bytes a second,
// above 0. INVALID_ARGUMENT: it is no number above 0 with one of kbit, Mbit, Gbit.
absl::StatusOr<double> ParseRate(absl::string_view text);

// In the largest unit in which it is a whole number; ParseRate gives the same number back.
std::string FormatLineRate(uint64_t bytes_per_second);

}  // namespace atolld
