#include "daemon/bytes.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>

#include "daemon/status_macros.h"

namespace atolld {
namespace {

constexpr size_t kLargePage = size_t{2} << 20;

}  // namespace

FreshBytes::FreshBytes(size_t size) : size_(size) {
  const bool large = size >= 2 * kLargePage;
  const size_t alignment = large ? kLargePage : alignof(std::max_align_t);
  // aligned_alloc wants whole multiples.
  const size_t reserved = (std::max(size, size_t{1}) + alignment - 1) / alignment * alignment;
  auto* const bytes = static_cast<uint8_t*>(std::aligned_alloc(alignment, reserved));
  CHECK(bytes != nullptr);
  // A hint: without large pages the memory is as good.
  if (large) madvise(bytes, reserved, MADV_HUGEPAGE);
  bytes_.reset(bytes, [](uint8_t* owned) { std::free(owned); });
}

SharedBytes FreshBytes::Share(size_t used) && {
  CHECK(used <= size_);
  const auto written = absl::MakeConstSpan(bytes_.get(), used);
  if (used < size_ / 2) return SharedBytes(std::vector<uint8_t>(written.begin(), written.end()));
  return SharedBytes(std::shared_ptr<const void>(bytes_), written);
}

}  // namespace atolld
