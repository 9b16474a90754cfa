// One key that a config file may hold: an entry of the table of all keys.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "daemon/config/config_sections.h"
#include "daemon/config/config_value.h"

namespace atolld {

// Says whether the run's record, which never changes, holds the value of a key. With kInPart the
// record holds only a part of it, such as a digest, a weight or a kind; the key's `advice` says
// which.
enum class Recorded { kNo, kYes, kInPart };

// A condition on another key of text or a flag. It holds if that key has one of `values` or, if
// there are none, any value but its default.
struct KeyCondition {
  std::string key;  // such as "mode.kind"; empty: the condition always holds
  std::vector<std::string> values = {};
};

// The way in which the run's record holds the value of a key.
struct ConfigRecord {
  ConfigRecord(Recorded is)
      : how(is) {}  // NOLINT(google-explicit-constructor): the tables read better

  Recorded how;
  // The field of RunSpec that holds the value as it is, such as "inner.batch". A field that ends in
  // "_bits" holds a real number as the bits of a float, and one that ends in "_microseconds" a time
  // span. Empty if MakeRunSpec makes the field from several keys.
  std::string field = "";
  // True if the field stays unset while the key has its default, as it must for a key that an
  // earlier release did not have: a run without the key then keeps its digest.
  bool unless_default = false;
  KeyCondition when = {};  // the field is set only while this holds
};

// A value that a field of the record holds as it is.
inline ConfigRecord As(std::string field, KeyCondition when = {}) {
  ConfigRecord record = Recorded::kYes;
  record.field = std::move(field);
  record.when = std::move(when);
  return record;
}

// Does the same, but leaves the field unset while the key has its default.
inline ConfigRecord UnlessDefault(std::string field, KeyCondition when = {}) {
  ConfigRecord record = As(std::move(field), std::move(when));
  record.unless_default = true;
  return record;
}

inline Text OneOf(std::string* at, std::vector<std::string> choices) {
  return Text{at, TextForm::kOneOf, false, std::move(choices)};
}

struct ConfigField {
  std::string key;
  FieldValue value;
  ConfigRecord record;
  std::string meaning;  // half a sentence that says what the key is
  std::string advice;   // sentences that say when to change it
  // The uses of a file that require the key. A required key has no default.
  std::vector<ConfigUse> needed_by = {};
  // The default in words, if it depends on other keys; otherwise empty.
  std::string follows = "";
  // The key must have its default while this does not hold, because it has no meaning then.
  KeyCondition only_with = {};
  std::string section = "";

  std::string Name() const;  // such as "[inner] steps"
};

// Returns a key that has no default, and that these uses require.
inline ConfigField NeededBy(std::vector<ConfigUse> uses, ConfigField field) {
  field.needed_by = std::move(uses);
  return field;
}

// Returns a key with a default that follows from other keys, as `rule` says.
inline ConfigField Follows(std::string rule, ConfigField field) {
  field.follows = std::move(rule);
  return field;
}

// Returns a key that has a meaning only while another key of its section has one of `values`. The
// run's record holds the key's value only then.
inline ConfigField OnlyWith(KeyCondition condition, ConfigField field) {
  field.only_with = condition;
  field.record.when = std::move(condition);
  return field;
}

}  // namespace atolld
