#include "membership/history/payload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/replica/state/state_memory.h"
#include "tests/unit/daemon/replica/state/test_run.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

TEST(ChunkGrid, TilesTheVector) {
  // Broken: values would be left out of every exchange, or averaged twice.
  for (const uint64_t elements : {0u, 1u, 255u, 256u, 257u, 1000u}) {
    const ChunkGrid grid(elements, 256);
    uint64_t next = 0;
    for (uint32_t chunk = 0; chunk < grid.chunks(); ++chunk) {
      EXPECT_EQ(grid.Offset(chunk), next);
      EXPECT_GT(grid.Elements(chunk), 0u);
      next += grid.Elements(chunk);
    }
    EXPECT_EQ(next, elements);
  }
}

TEST(Payload, ComesApartAsItWasPutTogether) {
  // Broken: no entry could be applied.
  for (const uint64_t elements : {1u, 256u, 1000u, 5000u}) {
    TestRun run;
    run.elements = elements;
    const ChunkGrid grid(elements, run.chunk_elements);
    const Codec& codec = **FindCodec(run.codec);
    const SharedBytes payload = run.Payload(elements);
    EXPECT_LE(payload.size(), MaxPayloadBytes(grid, codec));
    const auto chunks = SplitPayload(grid, codec, payload);
    ASSERT_TRUE(chunks.ok()) << chunks.status();
    EXPECT_EQ(JoinPayload(*chunks).str(), payload.str());
    EXPECT_TRUE(CheckPayload(grid, codec, payload).ok());
  }
}

TEST(Payload, IsRefusedWhenItsLengthsDoNotFit) {
  // Broken: bytes from the network could be read out of bounds, or allocate without limit.
  const TestRun run;
  const ChunkGrid grid(run.elements, run.chunk_elements);
  const Codec& codec = **FindCodec(run.codec);
  const std::string good(run.Payload(1).str());
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_TRUE(absl::IsInvalidArgument(
        SplitPayload(grid, codec, SharedBytes(good.substr(0, size))).status()));
  }
  EXPECT_FALSE(SplitPayload(grid, codec, SharedBytes(good + "x")).ok());
  for (size_t at = 0; at < PayloadTableBytes(grid); ++at) {
    for (const int bit : {0, 3, 7}) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ (1 << bit));
      EXPECT_FALSE(SplitPayload(grid, codec, SharedBytes(bad)).ok()) << at;
    }
  }
}

TEST(Payload, IsRefusedWhenAValueIsNotFinite) {
  // Broken: one NaN would make every replica useless, for good.
  TestRun run;
  run.codec = "fp32";
  const ChunkGrid grid(run.elements, run.chunk_elements);
  const Codec& codec = **FindCodec(run.codec);
  std::string bytes(run.Payload(1).str());
  const size_t value = PayloadTableBytes(grid) + 4 * 300;
  for (const char* bits : {"\0\0\xc0\x7f", "\0\0\x80\x7f", "\0\0\x80\xff"}) {
    std::string bad = bytes;
    bad.replace(value, 4, std::string(bits, 4));
    const absl::Status status = CheckPayload(grid, codec, SharedBytes(bad));
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("chunk 1"));
  }
}

}  // namespace
}  // namespace atolld
