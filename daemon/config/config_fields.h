// The table of all keys that a config file may hold: where each lands, what it may be, and what it
// means.
//
// Reading, checking, writing and explaining a config all go over this one table, so that a key is
// added in one place. Pure functions, any thread; a field borrows the Config that it was made for.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "daemon/config/config.h"

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
  kDevice,         // "auto", "cpu", "cuda", "cuda:N", "cuda:all" or a list
};

struct Text {
  std::string* at;
  TextForm form;
  bool may_be_empty = false;
  std::vector<std::string> choices = {};
};

using FieldValue = std::variant<WholeNumber, RealNumber, Flag, TimeSpan, ByteCount, LineRate, Text>;

struct ConfigField {
  std::string section;
  std::string key;
  std::string meaning;  // half a sentence, for the written file and for messages
  FieldValue value;
  std::vector<ConfigUse> needed_by = {};
};

// Every key, in the order of Config.
std::vector<ConfigField> ConfigFields(Config& config);

// The names of the sections, and the keys of one section, in that order.
std::vector<std::string> SectionNames(const std::vector<ConfigField>& fields);
std::vector<std::string> KeyNames(const std::vector<ConfigField>& fields,
                                  const std::string& section);

// A value as a file or an option gives it. The last alternative is one that no key takes, described
// in words ("a list").
struct OtherValue {
  std::string description;
};
using RawValue = std::variant<bool, int64_t, double, std::string, OtherValue>;

// Stores `raw` in the field's Config. INVALID_ARGUMENT says what the key must be and what was
// found, without the place: "[inner] steps must be a whole number from 1 to 1000000, not 'ten'".
absl::Status Assign(const ConfigField& field, const RawValue& raw);

// The field's present value as TOML writes it.
std::string FormatValue(const ConfigField& field);

}  // namespace atolld
