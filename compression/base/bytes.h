// SharedBytes: a piece of an immutable buffer that several holders share; ByteParts: several of
// them, one after the other.
//
// Encoded chunks are sent to one peer, hashed, kept for a retry and written to the log; none of
// these may copy them. A SharedBytes is a view and a share of the ownership of what it views: cheap
// to copy, safe to pass between threads, never written after it was made.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace atolld {

// The bytes of `text`, which outlives the view.
inline absl::Span<const uint8_t> BytesOf(absl::string_view text) {
  return absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(text.data()), text.size());
}

// What a text of hexadecimal digits, two a byte and checked to be such, stands for.
std::string BytesOfHex(absl::string_view digits);

class SharedBytes {
 public:
  SharedBytes() = default;

  // Takes the bytes over.
  explicit SharedBytes(std::string bytes) {
    auto owner = std::make_shared<const std::string>(std::move(bytes));
    view_ = absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(owner->data()), owner->size());
    owner_ = std::move(owner);
  }
  explicit SharedBytes(std::vector<uint8_t> bytes) {
    auto owner = std::make_shared<const std::vector<uint8_t>>(std::move(bytes));
    view_ = absl::MakeConstSpan(*owner);
    owner_ = std::move(owner);
  }

  // Views memory that `owner` keeps alive.
  SharedBytes(std::shared_ptr<const void> owner, absl::Span<const uint8_t> view)
      : owner_(std::move(owner)), view_(view) {}

  // The part [offset, offset + size); both must lie inside.
  SharedBytes Part(size_t offset, size_t size) const {
    return SharedBytes(owner_, view_.subspan(offset, size));
  }

  const uint8_t* data() const { return view_.data(); }
  size_t size() const { return view_.size(); }
  bool empty() const { return view_.empty(); }
  absl::Span<const uint8_t> span() const { return view_; }
  absl::string_view str() const {
    return absl::string_view(reinterpret_cast<const char*>(view_.data()), view_.size());
  }

 private:
  std::shared_ptr<const void> owner_;
  absl::Span<const uint8_t> view_;
};

// Bytes in parts, cut anywhere. As cheap and as safe as SharedBytes.
class ByteParts {
 public:
  ByteParts() = default;
  ByteParts(SharedBytes bytes) { Append(std::move(bytes)); }  // NOLINT(google-explicit-constructor)

  void Append(SharedBytes part);
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  absl::Span<const SharedBytes> parts() const { return parts_; }

  // `out` is as long as the bytes.
  void CopyTo(absl::Span<uint8_t> out) const;
  // In memory of their own, in one piece.
  SharedBytes Copy() const;
  // In one piece: the part itself where it is one alone, otherwise a copy.
  SharedBytes Joined() const;

 private:
  absl::InlinedVector<SharedBytes, 1> parts_;  // none is empty
  size_t size_ = 0;
};

// Memory to be filled once and then shared: not zeroed, and large ones on large pages and used
// again after they were let go, so that filling them costs one pass over them.
class FreshBytes {
 public:
  explicit FreshBytes(size_t size);
  absl::Span<uint8_t> span() { return absl::MakeSpan(bytes_.get(), size_); }
  // A part of it to be filled and shared by itself, whatever becomes of the others.
  FreshBytes Part(size_t offset, size_t size) const;
  // The first `used` bytes, in memory of their own if they are less than half. Their parts keep all
  // of it alive; nothing is written afterwards.
  SharedBytes Share(size_t used) &&;

 private:
  FreshBytes(std::shared_ptr<uint8_t> bytes, size_t size) : bytes_(std::move(bytes)), size_(size) {}

  std::shared_ptr<uint8_t> bytes_;
  size_t size_;
};

}  // namespace atolld
