#include "compression/zstd_frame.h"

#include <zstd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "compression/base/status_macros.h"
#include "compression/base/words.h"

namespace atolld {
namespace {

struct FreeCompressor {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
};
struct FreeDecompressor {
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

// RFC 8878, section 3.1.1: four magic bytes, then the descriptor, whose bit 2 says that a checksum
// ends the frame.
constexpr uint8_t kMagic[] = {0x28, 0xb5, 0x2f, 0xfd};
constexpr size_t kDescriptor = 4;
constexpr uint8_t kHasChecksum = 1 << 2;

absl::Status Refuse(absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("zstd frame: ", why));
}

// Returns the content size that the header declares, if the frame is an accepted one.
absl::StatusOr<size_t> CheckFrame(absl::Span<const uint8_t> frame, size_t max_bytes) {
  if (frame.size() <= kDescriptor) return Refuse("truncated");
  for (size_t i = 0; i < kDescriptor; ++i) {
    if (frame[i] != kMagic[i]) return Refuse("wrong magic number");
  }
  if ((frame[kDescriptor] & kHasChecksum) == 0) return Refuse("no checksum");
  const unsigned long long content = ZSTD_getFrameContentSize(frame.data(), frame.size());
  if (content == ZSTD_CONTENTSIZE_ERROR) return Refuse("malformed header");
  if (content == ZSTD_CONTENTSIZE_UNKNOWN) return Refuse("no content size");
  if (content > max_bytes) {
    return Refuse(
        absl::StrCat("declares ", content, " bytes, at most ", max_bytes, " are expected"));
  }
  const size_t length = ZSTD_findFrameCompressedSize(frame.data(), frame.size());
  if (ZSTD_isError(length) != 0) return Refuse(ZSTD_getErrorName(length));
  if (length != frame.size()) {
    return Refuse(
        absl::StrCat(Counted(frame.size() - length, "byte follows", "bytes follow"), " the frame"));
  }
  return static_cast<size_t>(content);
}

}  // namespace

absl::StatusOr<std::string> ZstdCompress(absl::Span<const uint8_t> bytes, int level) {
  if (level < 1 || level > ZSTD_maxCLevel()) {
    return absl::InvalidArgumentError(
        absl::StrCat("zstd level ", level, " is not from 1 to ", ZSTD_maxCLevel()));
  }
  const std::unique_ptr<ZSTD_CCtx, FreeCompressor> context(ZSTD_createCCtx());
  if (context == nullptr) return absl::ResourceExhaustedError("zstd: no memory for a compressor");
  for (const auto& [parameter, value] :
       {std::pair(ZSTD_c_compressionLevel, level), std::pair(ZSTD_c_contentSizeFlag, 1),
        std::pair(ZSTD_c_checksumFlag, 1)}) {
    const size_t result = ZSTD_CCtx_setParameter(context.get(), parameter, value);
    if (ZSTD_isError(result) != 0)
      return absl::InternalError(absl::StrCat("zstd: ", ZSTD_getErrorName(result)));
  }
  std::string frame(ZSTD_compressBound(bytes.size()), '\0');
  const size_t size =
      ZSTD_compress2(context.get(), frame.data(), frame.size(), bytes.data(), bytes.size());
  if (ZSTD_isError(size) != 0)
    return absl::InternalError(absl::StrCat("zstd: ", ZSTD_getErrorName(size)));
  frame.resize(size);
  return frame;
}

absl::StatusOr<std::string> ZstdDecompress(absl::Span<const uint8_t> frame, size_t max_bytes) {
  ASSIGN_OR_RETURN(const size_t size, CheckFrame(frame, max_bytes));
  const std::unique_ptr<ZSTD_DCtx, FreeDecompressor> context(ZSTD_createDCtx());
  if (context == nullptr) return absl::ResourceExhaustedError("zstd: no memory for a decompressor");
  std::string content(size, '\0');
  const size_t written = ZSTD_decompressDCtx(context.get(), content.data(), content.size(),
                                             frame.data(), frame.size());
  if (ZSTD_isError(written) != 0) return Refuse(ZSTD_getErrorName(written));
  if (written != content.size()) return Refuse("the content is shorter than declared");
  return content;
}

}  // namespace atolld
