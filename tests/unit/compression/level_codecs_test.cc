// The codecs of an exchange's two levels.
#include "compression/level_codecs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace atolld {
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
