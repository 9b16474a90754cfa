#include "membership/run/door.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "compression/base/names.h"
#include "compression/base/status_macros.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace atolld {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// Returns true for committed history, in which every byte counts, including those that a later
// release wrote.
bool IsHistory(const FieldDescriptor& field) {
  const auto* const type = field.message_type();
  return type == v1::EntryHeader::descriptor() || type == v1::Genesis::descriptor();
}

bool IsReason(const FieldDescriptor& field) { return field.name() == "reason"; }

bool IsBitmap(const FieldDescriptor& field) {
  return field.containing_type() == v1::ContributorSet::descriptor();
}

// Calls `tidy(value)` for each value of a string field and stores the result.
template <typename Tidy>
absl::Status ForEachString(const FieldDescriptor& field, Message* message, const Tidy& tidy) {
  const Reflection& reflection = *message->GetReflection();
  if (!field.is_repeated()) {
    std::string value = reflection.GetString(*message, &field);
    RETURN_IF_ERROR(tidy(&value));
    reflection.SetString(message, &field, std::move(value));
    return absl::OkStatus();
  }
  for (int i = 0; i < reflection.FieldSize(*message, &field); ++i) {
    std::string value = reflection.GetRepeatedString(*message, &field, i);
    RETURN_IF_ERROR(tidy(&value));
    reflection.SetRepeatedString(message, &field, i, std::move(value));
  }
  return absl::OkStatus();
}

absl::Status Tidy(Message* message);

absl::Status TidyField(const FieldDescriptor& field, Message* message) {
  const Reflection& reflection = *message->GetReflection();
  switch (field.type()) {
    case FieldDescriptor::TYPE_STRING:
      return ForEachString(field, message, [&](std::string* value) {
        *value = OneLine(*value, IsReason(field) ? kLongestWords : kLongestName);
        return absl::OkStatus();
      });
    case FieldDescriptor::TYPE_BYTES:
      return ForEachString(field, message, [&](std::string* value) {
        const size_t most = IsBitmap(field) ? kLongestBitmap : kLongestDigest;
        if (value->size() <= most) return absl::OkStatus();
        return absl::InvalidArgumentError(
            absl::StrCat(field.full_name(), " has ", value->size(), " bytes, above ", most));
      });
    case FieldDescriptor::TYPE_MESSAGE:
      if (IsHistory(field)) return absl::OkStatus();
      if (!field.is_repeated()) return Tidy(reflection.MutableMessage(message, &field));
      for (int i = 0; i < reflection.FieldSize(*message, &field); ++i) {
        RETURN_IF_ERROR(Tidy(reflection.MutableRepeatedMessage(message, &field, i)));
      }
      return absl::OkStatus();
    default:
      return absl::OkStatus();
  }
}

absl::Status Tidy(Message* message) {
  const Reflection& reflection = *message->GetReflection();
  reflection.MutableUnknownFields(message)->Clear();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(*message, &fields);  // the fields that are set
  for (const FieldDescriptor* field : fields) RETURN_IF_ERROR(TidyField(*field, message));
  return absl::OkStatus();
}

// The prefixes, up to a colon, that gRPC takes for the kind of an address.
constexpr absl::string_view kSchemes[] = {"dns",  "ipv4",          "ipv6",  "passthrough",
                                          "unix", "unix-abstract", "vsock", "xds"};

bool IsHostCharacter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-' || c == '_';
}

bool IsHostCharacterOfV6(char c) {
  return std::isxdigit(static_cast<unsigned char>(c)) != 0 || c == ':' || c == '.' || c == '%' ||
         IsHostCharacter(c);
}

}  // namespace

absl::Status TidyAtTheDoor(v1::PeerMessage* message) { return Tidy(message); }

bool IsDialableAddress(absl::string_view address) {
  const size_t colon = address.rfind(':');
  if (colon == absl::string_view::npos || address.size() > kLongestName) return false;
  const absl::string_view digits = address.substr(colon + 1);
  uint32_t port = 0;
  if (digits.size() > 5 || !std::all_of(digits.begin(), digits.end(), absl::ascii_isdigit) ||
      !absl::SimpleAtoi(digits, &port) || port == 0 || port > 65535) {
    return false;
  }
  absl::string_view host = address.substr(0, colon);
  if (!host.empty() && host.front() == '[') {
    if (host.size() < 4 || host.back() != ']') return false;
    host = host.substr(1, host.size() - 2);
    return std::all_of(host.begin(), host.end(), IsHostCharacterOfV6);
  }
  if (std::find(std::begin(kSchemes), std::end(kSchemes), host) != std::end(kSchemes)) return false;
  return !host.empty() && std::all_of(host.begin(), host.end(), IsHostCharacter);
}

}  // namespace atolld
