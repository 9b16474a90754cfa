#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compression/codec.h"
#include "compression/wire_codec.h"

namespace atolld {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(CodecRegistry, FindsEachCodecByItsName) {
  // Broken: a log's header would name a codec that its own program does not know.
  EXPECT_THAT(CodecNames(), ElementsAre("fp32", "fp16", "bf16", "int8", "int4", "int2", "topk"));
  for (const std::string& name : CodecNames()) {
    const auto codec = FindCodec(name);
    ASSERT_TRUE(codec.ok());
    EXPECT_EQ((*codec)->name(), name);
    EXPECT_EQ(*codec, *FindCodec(name));
  }
}

TEST(CodecRegistry, SuggestsTheNearestName) {
  // Broken: a typing error in a config would not be explained.
  const absl::Status status = FindCodec("itn8").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "unknown codec \"itn8\": did you mean \"int8\"? "
            "Known: fp32, fp16, bf16, int8, int4, int2, topk");
}

TEST(CodecRegistry, ParsesWhatAConfigSays) {
  // Broken: `codec = "int8+zstd"` would be misread.
  for (const std::string& name : WireCodecNames()) {
    const auto codec = ParseCodecName(name);
    ASSERT_TRUE(codec.ok()) << codec.status();
    EXPECT_EQ(codec->name(), name);
  }
  EXPECT_TRUE(ParseCodecName("int8+zstd")->zstd);
  EXPECT_FALSE(ParseCodecName("int8")->zstd);
  EXPECT_EQ(ParseCodecName("int8+zstd")->codec, *FindCodec("int8"));
  for (const char* name : {"", "+zstd", "int8+", "int8+zstd+zstd", "int8+gzip", "INT8 "}) {
    EXPECT_FALSE(ParseCodecName(name).ok()) << name;
  }
  EXPECT_THAT(ParseCodecName("int8+zst").status().message(),
              HasSubstr("did you mean \"int8+zstd\""));
}

}  // namespace
}  // namespace atolld
