// SharedBytes: a piece of an immutable buffer with shared ownership. ByteParts: a sequence of such
// pieces.
//
// Encoded chunks are sent to a peer, hashed, kept for a retry and written to the log, and none of
// these steps may copy them. A SharedBytes is a view that keeps the viewed bytes alive. It is cheap
// to copy, and the bytes are never written after it was made, so it is thread-safe.
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

// Returns the bytes of `text`, which must outlive the view.
inline absl::Span<const uint8_t> BytesOf(absl::string_view text) {
  return absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(text.data()), text.size());
}

// Converts hexadecimal digits to bytes, two digits to a byte. The caller must have checked that all
// are hexadecimal.
std::string BytesOfHex(absl::string_view digits);

class SharedBytes {
 public:
  SharedBytes() = default;

  // Takes ownership of the bytes.
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

  // Returns the part [offset, offset + size), which must lie inside these bytes.
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

// A sequence of bytes in several parts, which may begin and end anywhere. ByteParts is as cheap to
// copy and as safe as SharedBytes.
class ByteParts {
 public:
  ByteParts() = default;
  ByteParts(SharedBytes bytes) { Append(std::move(bytes)); }  // NOLINT(google-explicit-constructor)

  void Append(SharedBytes part);
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  absl::Span<const SharedBytes> parts() const { return parts_; }

  // Copies the bytes to `out`, which must have the same length.
  void CopyTo(absl::Span<uint8_t> out) const;
  // Returns a copy of the bytes in one piece.
  SharedBytes Copy() const;
  // Returns the bytes in one piece: the part itself if there is only one, otherwise a copy.
  SharedBytes Joined() const;

 private:
  absl::InlinedVector<SharedBytes, 1> parts_;  // no part is empty
  size_t size_ = 0;
};

// Memory that is filled once and then shared. It is not zeroed. Large buffers use large pages and
// are reused after their release, so that filling one costs only a single pass over it.
class FreshBytes {
 public:
  explicit FreshBytes(size_t size);
  absl::Span<uint8_t> span() { return absl::MakeSpan(bytes_.get(), size_); }
  // Returns a part that can be filled and shared independently of the others.
  FreshBytes Part(size_t offset, size_t size) const;
  // Returns the first `used` bytes. If they are less than half of the buffer, they are copied;
  // otherwise the result and its parts keep the whole buffer alive. The buffer must not be written
  // afterwards.
  SharedBytes Share(size_t used) &&;

 private:
  FreshBytes(std::shared_ptr<uint8_t> bytes, size_t size) : bytes_(std::move(bytes)), size_(size) {}

  std::shared_ptr<uint8_t> bytes_;
  size_t size_;
};

}  // namespace atolld
