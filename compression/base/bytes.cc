#include "compression/base/bytes.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>

#include "compression/base/check.h"

namespace atolld {
namespace {

constexpr size_t kLargePage = size_t{2} << 20;

// Large blocks that were released and are kept for the next round: clearing their pages again would
// cost as much as filling them. The system may take the pages meanwhile. For any thread.
class SpareBlocks {
 public:
  struct Block {
    uint8_t* bytes = nullptr;
    size_t size = 0;
  };

  // A block of at least `size` bytes and not twice as many; null if there is none.
  Block Take(size_t size) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (Block& spare : spares_) {
      if (spare.size >= size && spare.size < 2 * size) return std::exchange(spare, Block());
    }
    return Block();
  }

  void Give(Block block) {
    madvise(block.bytes, block.size, MADV_FREE);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      // Where no place is free, the one that has lain here longest goes.
      Block* place = std::find_if(spares_.begin(), spares_.end(),
                                  [](const Block& spare) { return spare.bytes == nullptr; });
      if (place == spares_.end()) {
        place = &spares_[next_];
        next_ = (next_ + 1) % spares_.size();
      }
      block = std::exchange(*place, block);
    }
    std::free(block.bytes);
  }

 private:
  std::mutex mutex_;
  std::array<Block, 4> spares_ = {};
  size_t next_ = 0;
};

SpareBlocks& Spares() {
  static auto* const spares = new SpareBlocks;  // lives longer than any bytes
  return *spares;
}

std::shared_ptr<uint8_t> NewLarge(size_t size) {
  const size_t reserved = (size + kLargePage - 1) / kLargePage * kLargePage;
  SpareBlocks::Block block = Spares().Take(reserved);
  if (block.bytes == nullptr) {
    block = {static_cast<uint8_t*>(std::aligned_alloc(kLargePage, reserved)), reserved};
    CHECK(block.bytes != nullptr);
    // A hint: without large pages the memory is as good.
    madvise(block.bytes, block.size, MADV_HUGEPAGE);
  }
  return std::shared_ptr<uint8_t>(block.bytes, [block](uint8_t*) { Spares().Give(block); });
}

}  // namespace

std::string BytesOfHex(absl::string_view digits) {
  // Of the two calls that Abseil has had, no one release has both without a warning.
  const auto value = [](char digit) {
    return digit <= '9' ? digit - '0' : (digit | ('a' - 'A')) - 'a' + 10;
  };
  std::string bytes(digits.size() / 2, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<char>(value(digits[2 * i]) * 16 + value(digits[2 * i + 1]));
  }
  return bytes;
}

void ByteParts::Append(SharedBytes part) {
  if (part.empty()) return;
  size_ += part.size();
  parts_.push_back(std::move(part));
}

void ByteParts::CopyTo(absl::Span<uint8_t> out) const {
  CHECK(out.size() == size_);
  for (const SharedBytes& part : parts_) {
    std::memcpy(out.data(), part.data(), part.size());
    out.remove_prefix(part.size());
  }
}

SharedBytes ByteParts::Copy() const {
  if (empty()) return SharedBytes();
  FreshBytes copy(size_);
  CopyTo(copy.span());
  return std::move(copy).Share(size_);
}

SharedBytes ByteParts::Joined() const { return parts_.size() == 1 ? parts_.front() : Copy(); }

FreshBytes::FreshBytes(size_t size)
    : bytes_(size >= 2 * kLargePage
                 ? NewLarge(size)
                 : std::shared_ptr<uint8_t>(new uint8_t[size], std::default_delete<uint8_t[]>())),
      size_(size) {}

FreshBytes FreshBytes::Part(size_t offset, size_t size) const {
  CHECK(offset <= size_ && size <= size_ - offset);
  return FreshBytes(std::shared_ptr<uint8_t>(bytes_, bytes_.get() + offset), size);
}

SharedBytes FreshBytes::Share(size_t used) && {
  CHECK(used <= size_);
  const auto written = absl::MakeConstSpan(bytes_.get(), used);
  if (used < size_ / 2) return SharedBytes(std::vector<uint8_t>(written.begin(), written.end()));
  return SharedBytes(std::shared_ptr<const void>(bytes_), written);
}

}  // namespace atolld
