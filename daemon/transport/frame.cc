#include "daemon/transport/frame.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/status_macros.h"

namespace atolld {
namespace {

constexpr uint32_t kPayloadField = 15;
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

// A place in a sequence of pieces.
class Cursor {
 public:
  explicit Cursor(absl::Span<const absl::Span<const uint8_t>> pieces) : pieces_(pieces) {
    for (const auto& piece : pieces) remaining_ += piece.size();
    SkipEmpty();
  }

  size_t position() const { return position_; }
  size_t remaining() const { return remaining_; }

  // `size` must not exceed remaining(). A null `out` skips.
  void Take(size_t size, uint8_t* out) {
    remaining_ -= size;
    position_ += size;
    while (size > 0) {
      const size_t part = std::min(size, pieces_.front().size() - offset_);
      if (out != nullptr) {
        std::memcpy(out, pieces_.front().data() + offset_, part);
        out += part;
      }
      offset_ += part;
      size -= part;
      SkipEmpty();
    }
  }

  absl::StatusOr<uint64_t> Varint() {
    const size_t begin = position_;
    uint64_t value = 0;
    for (size_t i = 0; i < kLongestVarint && remaining_ > 0; ++i) {
      uint8_t byte = 0;
      Take(1, &byte);
      // The tenth byte holds the 64th bit alone.
      if (i + 1 == kLongestVarint && byte > 1) break;
      value |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
      if (byte < 0x80) return value;
    }
    return absl::InvalidArgumentError(absl::StrCat("no whole number at byte ", begin));
  }

 private:
  void SkipEmpty() {
    while (!pieces_.empty() && offset_ == pieces_.front().size()) {
      pieces_.remove_prefix(1);
      offset_ = 0;
    }
  }

  absl::Span<const absl::Span<const uint8_t>> pieces_;
  size_t offset_ = 0;  // in the first of pieces_
  size_t position_ = 0;
  size_t remaining_ = 0;
};

// How many bytes of the field's value follow the tag (and, for bytes, the length).
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

void AppendTo(std::string* out, size_t size, Cursor* from) {
  const size_t before = out->size();
  out->resize(before + size);
  from->Take(size, reinterpret_cast<uint8_t*>(out->data()) + before);
}

// Not a vector: that would write zeros first, a whole pass over memory for bytes that are about to
// be overwritten.
SharedBytes TakeShared(size_t size, Cursor* from) {
  if (size == 0) return SharedBytes();
  std::shared_ptr<uint8_t> owner(new uint8_t[size], std::default_delete<uint8_t[]>());
  from->Take(size, owner.get());
  const absl::Span<const uint8_t> view(owner.get(), size);
  return SharedBytes(std::move(owner), view);
}

}  // namespace

std::string FrameHead(const Frame& frame) {
  std::string head = frame.message;
  if (!frame.payload.empty()) {
    head.push_back(kPayloadTag);
    AppendVarint(frame.payload.size(), &head);
  }
  return head;
}

size_t FrameBytes(const Frame& frame) {
  const size_t payload = frame.payload.size();
  if (payload == 0) return frame.message.size();
  return frame.message.size() + 1 + VarintBytes(payload) + payload;
}

absl::StatusOr<Frame> ParseFrame(absl::Span<const absl::Span<const uint8_t>> pieces) {
  Frame frame;
  Cursor cursor(pieces);
  Cursor payload_at(pieces);
  size_t payload_bytes = 0;
  while (cursor.remaining() > 0) {
    const Cursor field = cursor;
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
    const Cursor value = cursor;
    cursor.Take(size, nullptr);
    if (number != kPayloadField) {
      Cursor copy = field;
      AppendTo(&frame.message, cursor.position() - field.position(), &copy);
    } else if (wire_type == kBytes) {
      payload_at = value;
      payload_bytes = size;
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat("field 15 at byte ", field.position(), " is not bytes"));
    }
  }
  frame.payload = TakeShared(payload_bytes, &payload_at);
  return frame;
}

}  // namespace atolld
