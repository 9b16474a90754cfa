#include "compression/zstd_frame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zstd.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/unit/compression/test_values.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

absl::Span<const uint8_t> Bytes(absl::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

std::string Sample(size_t size) {
  TestRandom random(3);
  std::string sample(size, '\0');
  for (char& byte : sample) byte = static_cast<char>(random.Next() % 50);
  return sample;
}

// A frame as another program may write it.
std::string Frame(absl::string_view content,
                  const std::vector<std::pair<ZSTD_cParameter, int>>& parameters) {
  ZSTD_CCtx* context = ZSTD_createCCtx();
  for (const auto& [parameter, value] : parameters)
    ZSTD_CCtx_setParameter(context, parameter, value);
  std::string frame(ZSTD_compressBound(content.size()), '\0');
  frame.resize(ZSTD_compress2(context, frame.data(), frame.size(), content.data(), content.size()));
  ZSTD_freeCCtx(context);
  return frame;
}

void ExpectFrameRefused(absl::string_view frame, size_t max_bytes, const std::string& why) {
  const absl::Status status = ZstdDecompress(Bytes(frame), max_bytes).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(status.message(), HasSubstr(why));
}

TEST(ZstdFrame, GivesBackWhatWasCompressed) {
  // Broken: chunks would change on the wire.
  for (const size_t size : {0, 1, 100, 65536, 300000}) {
    for (const int level : {1, kDefaultZstdLevel, 19}) {
      const std::string content = Sample(size);
      const auto frame = ZstdCompress(Bytes(content), level);
      ASSERT_TRUE(frame.ok()) << frame.status();
      EXPECT_LT(frame->size(), size * 8 / 10 + 30);
      const auto back = ZstdDecompress(Bytes(*frame), size);
      ASSERT_TRUE(back.ok()) << back.status();
      EXPECT_EQ(*back, content);
    }
  }
  EXPECT_FALSE(ZstdCompress({}, 0).ok());
  EXPECT_FALSE(ZstdCompress({}, 1000).ok());
}

TEST(ZstdFrame, RefusesABombBeforeItAllocates) {
  // Broken: a few kilobytes from a peer would take all memory.
  const std::string bomb = *ZstdCompress(Bytes(std::string(64 << 20, '\0')));
  EXPECT_LT(bomb.size(), 10000u);
  ExpectFrameRefused(bomb, (64 << 20) - 1, "declares 67108864 bytes, at most 67108863");
}

TEST(ZstdFrame, RefusesFramesWithoutSizeOrChecksum) {
  // Broken: the output's size would be the sender's choice, or flipped bits would pass.
  const std::string content = Sample(1000);
  ExpectFrameRefused(Frame(content, {{ZSTD_c_checksumFlag, 1}, {ZSTD_c_contentSizeFlag, 0}}), 1000,
                     "no content size");
  ExpectFrameRefused(Frame(content, {{ZSTD_c_checksumFlag, 0}}), 1000, "no checksum");
}

TEST(ZstdFrame, RefusesAllButOneWholeFrame) {
  // Broken: bytes that nobody checks could ride along, or a cut chunk would be taken for a whole
  // one.
  const std::string content = Sample(1000);
  const std::string frame = *ZstdCompress(Bytes(content));
  for (size_t size = 0; size < frame.size(); ++size)
    ExpectFrameRefused(frame.substr(0, size), 1000, "zstd frame: ");
  ExpectFrameRefused(frame + std::string(1, '\0'), 1000, "1 byte follows");
  ExpectFrameRefused(frame + frame, 2000, "bytes follow");
  ExpectFrameRefused(std::string("\x50\x2a\x4d\x18\x00\x00\x00\x00", 8), 1000, "wrong magic");
  ExpectFrameRefused("not a frame at all", 1000, "wrong magic");
}

TEST(ZstdFrame, NoFlippedBitChangesTheContent) {
  // Broken: a corrupt chunk would enter the mean.
  const std::string content = Sample(3000);
  const std::string frame = *ZstdCompress(Bytes(content));
  for (size_t bit = 0; bit < frame.size() * 8; ++bit) {
    std::string flipped = frame;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    const auto back = ZstdDecompress(Bytes(flipped), 3000);
    EXPECT_EQ(back.value_or(content), content) << bit;
  }
  std::string checksum = frame;
  checksum.back() = static_cast<char>(checksum.back() ^ 1);
  ExpectFrameRefused(checksum, 3000, "checksum");
}

}  // namespace
}  // namespace atolld
