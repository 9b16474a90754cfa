#include "compression/wire_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "compression/codec.h"

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

namespace {

TEST(LevelCodecs, AnEmptyUpperCodecIsTheOther) {
  // Broken: runs of one codec would have two.
  for (const std::string& name : WireCodecNames()) {
    const absl::StatusOr<LevelCodecs> codecs = ParseLevels(name, "");
    ASSERT_TRUE(codecs.ok()) << codecs.status();
    EXPECT_EQ(codecs->means.name(), name);
    EXPECT_EQ(codecs->name(), name);
    EXPECT_TRUE(ParseLevels(name, name).ok());
  }
  EXPECT_EQ(ParseLevels("bf16", "int4+zstd")->name(), "bf16/int4+zstd");
}

TEST(LevelCodecs, APairIsTakenWhereItsMeanSurvives) {
  // Broken: a pair that is refused and could train, or one that is taken and cannot: of sparse
  // updates what nobody sent stays zero, and topk writes fewer bytes than there are values.
  constexpr size_t kValues = 4096;
  std::vector<float> large(kValues);
  std::vector<float> small(kValues);
  for (size_t i = 0; i < kValues; ++i) {
    large[i] = std::sin(static_cast<float>(i));
    small[i] = 0.01f * std::sin(static_cast<float>(3 * i));
  }
  for (const std::string& updates : CodecNames()) {
    for (const std::string& means : CodecNames()) {
      const Codec& lower = **FindCodec(updates);
      const Codec& upper = **FindCodec(means);
      std::vector<float> mean(kValues, 0.0f);
      for (const std::vector<float>* values : {&large, &small}) {
        std::vector<uint8_t> bytes(lower.MaxEncodedBytes(kValues));
        bytes.resize(*lower.Encode(*values, absl::MakeSpan(bytes)));
        ASSERT_TRUE(lower.DecodeAccumulate(bytes, 0.5f, absl::MakeSpan(mean)).ok());
      }
      std::vector<uint8_t> encoded(upper.MaxEncodedBytes(mean.size()));
      encoded.resize(*upper.EncodeMean(mean, absl::MakeSpan(encoded)));
      std::vector<float> decoded(mean.size());
      ASSERT_TRUE(upper.Decode(encoded, absl::MakeSpan(decoded)).ok());
      bool zeros_stay = true;
      for (size_t i = 0; i < mean.size(); ++i) {
        zeros_stay = zeros_stay && (mean[i] != 0 || decoded[i] == 0);
      }
      const bool short_enough = means != "topk" || encoded.size() < kValues;
      const bool sparse = updates == "topk" && means != "topk";
      EXPECT_EQ(ParseLevels(updates, means).ok(), short_enough && (zeros_stay || !sparse))
          << updates << "/" << means << ": " << encoded.size() << " bytes";
    }
  }
}

TEST(LevelCodecs, UnknownNamesAreRefused) {
  // Broken: a slip in a name would be another codec.
  EXPECT_FALSE(ParseLevels("int9", "").ok());
  EXPECT_FALSE(ParseLevels("int8", "int9").ok());
}

}  // namespace

}  // namespace atolld
