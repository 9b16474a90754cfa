#include "daemon/env/network.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "compression/base/status_macros.h"

namespace atolld {

namespace {

// The host of "host:port" as a number: of IPv4, or of IPv6 if it does not contain an IPv4 address.
struct HostNumber {
  bool v4 = false, v6 = false;
  uint32_t v4_number = 0;
  in6_addr v6_number = {};
};

std::string HostOf(absl::string_view address) {
  absl::string_view host = address.substr(0, address.rfind(':'));
  if (absl::ConsumePrefix(&host, "[")) absl::ConsumeSuffix(&host, "]");
  return std::string(host);
}

HostNumber NumberOf(const std::string& host) {
  HostNumber number;
  in_addr v4 = {};
  // As the resolver reads it: "0" and "127.1" are addresses too.
  if (!host.empty() && inet_aton(host.c_str(), &v4) != 0) {
    number.v4 = true;
    number.v4_number = ntohl(v4.s_addr);
  } else if (inet_pton(AF_INET6, host.c_str(), &number.v6_number) == 1) {
    number.v4 = IN6_IS_ADDR_V4MAPPED(&number.v6_number) != 0;
    number.v6 = !number.v4;
    for (int i = 12; i < 16; ++i) {
      number.v4_number = number.v4_number << 8 | number.v6_number.s6_addr[i];
    }
  }
  return number;
}

}  // namespace

bool IsLoopback(absl::string_view address) {
  if (absl::StartsWith(address, "unix:")) return true;
  const std::string host = HostOf(address);
  const HostNumber number = NumberOf(host);
  return host == "localhost" || (number.v4 && number.v4_number >> 24 == IN_LOOPBACKNET) ||
         (number.v6 && IN6_IS_ADDR_LOOPBACK(&number.v6_number));
}

bool IsWildcard(absl::string_view address) {
  if (absl::StartsWith(address, "unix:")) return false;
  const std::string host = HostOf(address);
  const HostNumber number = NumberOf(host);
  return host.empty() || host == "*" || (number.v4 && number.v4_number == INADDR_ANY) ||
         (number.v6 && IN6_IS_ADDR_UNSPECIFIED(&number.v6_number));
}

std::string FormatPeerAddress(absl::string_view peer, absl::string_view address) {
  return absl::StrCat(peer, "@", address);
}

PeerAddress ParsePeerAddress(absl::string_view text) {
  const size_t at = text.find('@');
  // A path may hold any character.
  if (at == absl::string_view::npos || absl::StartsWith(text, "unix:")) {
    return {"", std::string(text)};
  }
  return {std::string(text.substr(0, at)), std::string(text.substr(at + 1))};
}

// -----------------------------------------------------------------------------------------------

namespace {

constexpr char kPayloadTag = 0x7a;  // field 15, wire type 2
constexpr size_t kLongestVarint = 10;

enum WireType : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

size_t VarintBytes(uint64_t value) {
  size_t bytes = 1;
  for (; value >= 0x80; value >>= 7) ++bytes;
  return bytes;
}

void AppendVarint(uint64_t value, std::string* out) {
  for (; value >= 0x80; value >>= 7) out->push_back(static_cast<char>(value | 0x80));
  out->push_back(static_cast<char>(value));
}

// A position in a message.
class Cursor {
 public:
  explicit Cursor(const ByteParts& wire) : parts_(wire.parts()), remaining_(wire.size()) {}

  size_t position() const { return position_; }
  size_t remaining() const { return remaining_; }

  // The next `size` bytes, which must not exceed remaining().
  ByteParts Take(size_t size) {
    ByteParts taken;
    remaining_ -= size;
    position_ += size;
    while (size > 0) {
      const SharedBytes& part = parts_.front();
      const size_t bytes = std::min(size, part.size() - offset_);
      taken.Append(part.Part(offset_, bytes));
      size -= bytes;
      Pass(bytes);
    }
    return taken;
  }

  absl::StatusOr<uint64_t> Varint() {
    const size_t begin = position_;
    uint64_t value = 0;
    for (size_t i = 0; i < kLongestVarint && remaining_ > 0; ++i) {
      const uint8_t byte = parts_.front().data()[offset_];
      Pass(1);
      ++position_;
      --remaining_;
      // The tenth byte holds the 64th bit alone.
      if (i + 1 == kLongestVarint && byte > 1) break;
      value |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
      if (byte < 0x80) return value;
    }
    return absl::InvalidArgumentError(absl::StrCat("no whole number at byte ", begin));
  }

 private:
  // Must not go past the end of the first part.
  void Pass(size_t bytes) {
    offset_ += bytes;
    if (offset_ < parts_.front().size()) return;
    parts_.remove_prefix(1);
    offset_ = 0;
  }

  absl::Span<const SharedBytes> parts_;
  size_t offset_ = 0;  // in the first of parts_
  size_t position_ = 0;
  size_t remaining_;
};

// Returns how many bytes of the field's value follow the tag (and, for bytes, the length).
absl::StatusOr<uint64_t> ValueBytes(uint32_t wire_type, size_t field_begin, Cursor* cursor) {
  switch (wire_type) {
    case kVarint:
      RETURN_IF_ERROR(cursor->Varint().status());
      return 0;
    case kFixed64:
      return 8;
    case kBytes:
      return cursor->Varint();
    case kFixed32:
      return 4;
    default:
      // 3 and 4 are groups, which proto3 does not have.
      return absl::InvalidArgumentError(
          absl::StrCat("wire type ", wire_type, " at byte ", field_begin));
  }
}

void AppendTo(std::string* out, const ByteParts& bytes) {
  for (const SharedBytes& part : bytes.parts()) out->append(part.str().data(), part.size());
}

}  // namespace

std::string FrameHead(const Frame& frame) {
  std::string head(frame.bytes());
  if (!frame.payload.empty()) {
    head.push_back(kPayloadTag);
    AppendVarint(frame.payload.size(), &head);
  }
  return head;
}

size_t FrameBytes(const Frame& frame) {
  const size_t payload = frame.payload.size();
  if (payload == 0) return frame.bytes().size();
  return frame.bytes().size() + 1 + VarintBytes(payload) + payload;
}

absl::StatusOr<Frame> ParseFrame(const ByteParts& wire) {
  Frame frame;
  Cursor cursor(wire);
  while (cursor.remaining() > 0) {
    Cursor field = cursor;
    ASSIGN_OR_RETURN(const uint64_t tag, cursor.Varint());
    const uint64_t number = tag >> 3;
    const uint32_t wire_type = tag & 7;
    if (tag > UINT32_MAX || number == 0) {
      return absl::InvalidArgumentError(absl::StrCat("no field at byte ", field.position()));
    }
    ASSIGN_OR_RETURN(const uint64_t size, ValueBytes(wire_type, field.position(), &cursor));
    if (size > cursor.remaining()) {
      return absl::InvalidArgumentError(
          absl::StrCat("field ", number, " at byte ", field.position(), " runs past the end"));
    }
    ByteParts value = cursor.Take(size);
    if (number != uint32_t{kPayloadField}) {
      AppendTo(&frame.message, field.Take(cursor.position() - field.position()));
    } else if (wire_type == kBytes) {
      frame.payload = std::move(value);
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat("field 15 at byte ", field.position(), " is not bytes"));
    }
  }
  return frame;
}

}  // namespace atolld
