#include "compression/topk_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "compression/codec_benchmark.h"
#include "compression/error_feedback.h"
#include "compression/simd.h"
#include "tests/unit/compression/codec_reference.h"
#include "tests/unit/compression/test_values.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

std::vector<uint8_t> EncodedTopk(absl::Span<const float> values, bool mean = false) {
  const TopkCodec codec;
  std::vector<uint8_t> bytes(codec.MaxEncodedBytes(values.size()));
  const auto used = mean ? codec.EncodeMean(values, absl::MakeSpan(bytes))
                         : codec.Encode(values, absl::MakeSpan(bytes));
  EXPECT_TRUE(used.ok()) << used.status();
  bytes.resize(used.value_or(0));
  return bytes;
}

std::vector<float> DecodedTopk(absl::Span<const uint8_t> bytes, size_t elements) {
  std::vector<float> values(elements);
  const absl::Status status = TopkCodec().Decode(bytes, absl::MakeSpan(values));
  EXPECT_TRUE(status.ok()) << status;
  return values;
}

std::set<size_t> PlacesOf(absl::Span<const float> values) {
  std::set<size_t> places;
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] != 0) places.insert(i);
  }
  return places;
}

// As the bytes name them: of two bits' four values one may be 0.
std::set<size_t> SentPlaces(absl::Span<const uint8_t> bytes, size_t elements) {
  std::set<size_t> places;
  SparseBlock block;
  for (size_t begin = 0; begin < elements; begin += 4096) {
    const auto size = ReadSparseBlock(bytes, std::min<size_t>(4096, elements - begin), &block);
    EXPECT_TRUE(size.ok()) << size.status();
    for (size_t i = 0; i < block.count; ++i) places.insert(begin + block.places[i]);
    bytes.remove_prefix(*size);
  }
  return places;
}

// The places of the largest by sorting them all.
std::set<size_t> LargestPlaces(absl::Span<const float> values) {
  std::set<size_t> places;
  for (size_t begin = 0; begin < values.size(); begin += 4096) {
    const size_t count = std::min<size_t>(4096, values.size() - begin);
    std::vector<size_t> order(count);
    std::iota(order.begin(), order.end(), begin);
    std::stable_sort(order.begin(), order.end(), [values](size_t a, size_t b) {
      return std::fabs(values[a]) > std::fabs(values[b]);
    });
    for (size_t i = 0; i < (count + 63) / 64; ++i) {
      if (values[order[i]] != 0) places.insert(order[i]);
    }
  }
  return places;
}

void ExpectTopkRefused(absl::Span<const uint8_t> bytes, size_t elements, const std::string& why) {
  std::vector<float> values(elements);
  const absl::Status decoded = TopkCodec().Decode(bytes, absl::MakeSpan(values));
  EXPECT_EQ(decoded.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(decoded.message(), HasSubstr(why));
  std::vector<float> sum(elements, 3.0f);
  const absl::Status accumulated = TopkCodec().DecodeAccumulate(bytes, 0.5f, absl::MakeSpan(sum));
  EXPECT_EQ(accumulated.message(), decoded.message());
  EXPECT_EQ(sum, std::vector<float>(elements, 3.0f)) << "the sum changed on error";
}

TEST(TopkCodec, MatchesAWorkedExample) {
  // Broken: the format would not be the documented one.
  std::vector<float> values(200, 0.5f);
  values[3] = -8.0f;
  values[70] = 8.0f;
  values[199] = 8.0f;
  values[100] = 9.0f;  // the largest four of 200
  // As a mean: three values of which none is zero.
  std::vector<float> mean(200);
  mean[3] = -8.0f;
  mean[70] = 1.0f;
  mean[199] = 3.0f;
  EXPECT_EQ(EncodedTopk(mean, true), (std::vector<uint8_t>{0x03, 0x20, 0x03, 0x60, 0x04, 0xc7, 0x00,
                                                           0x00, 0xc1, 0x80, 0x3f, 0x40, 0x40}));
  const std::vector<uint8_t> update = EncodedTopk(values);
  ASSERT_EQ(update.size(), 2 + 6 + 16 + 1);
  EXPECT_EQ(std::vector<uint8_t>(update.begin(), update.begin() + 8),
            (std::vector<uint8_t>{0x04, 0x00, 0x03, 0x60, 0x04, 0x64, 0x70, 0x0c}));
  const std::vector<float> decoded = DecodedTopk(update, 200);
  EXPECT_EQ(decoded[3], -8.0f);
  EXPECT_EQ(decoded[100], 25.0f / 3);  // the mean of 8, 8 and 9, which share a bin
  EXPECT_EQ(EncodedTopk(std::vector<float>(5000)), (std::vector<uint8_t>{0, 0, 0, 0}));
}

TEST(TopkCodec, KeepsTheLargestOfEveryBlock) {
  // Broken: what matters most would not be sent; or equal values be chosen otherwise elsewhere.
  std::vector<float> equal(4096, -2.0f);
  std::vector<float> few(4096);
  few[17] = 1e-20f;
  std::vector<float> coarse = BellValues(9000, 3);
  for (float& value : coarse) value = std::nearbyint(value * 64);
  for (const std::vector<float>& values :
       {BellValues(4096, 1), AnyFiniteValues(10000, 2), equal, few, coarse, BellValues(65, 4),
        std::vector<float>{3.0f}}) {
    const std::vector<uint8_t> bytes = EncodedTopk(values);
    EXPECT_EQ(SentPlaces(bytes, values.size()), LargestPlaces(values));
  }
}

TEST(TopkCodec, GivesTheOraclesBits) {
  // Broken: the bytes would not be what docs/codecs.md says, and another program could not read
  // them.
  for (const size_t elements : {1, 2, 63, 64, 65, 100, 129, 640, 4095, 4096, 4097, 9001}) {
    std::vector<float> sparse = BellValues(elements, 2);
    for (size_t i = 0; i < elements; i += 1 + i % 3) sparse[i] = 0;
    for (const std::vector<float>& values :
         {AnyFiniteValues(elements, 1), BellValues(elements, 3), sparse,
          std::vector<float>(elements, -1e-38f), std::vector<float>(elements, FLT_MAX)}) {
      for (const bool mean : {false, true}) {
        const std::vector<uint8_t> bytes = EncodedTopk(values, mean);
        ASSERT_EQ(bytes, ReferenceTopkEncode(values, mean)) << elements << " " << mean;
        ASSERT_TRUE(SameBits(DecodedTopk(bytes, elements), ReferenceTopkDecode(bytes, elements)));
      }
    }
  }
}

TEST(TopkCodec, AnUpdateIsAHundredthOfItsFloats) {
  // Broken: the codec would not be worth its loss.
  const std::vector<float> values = BellValues(1 << 20, 5);
  EXPECT_EQ(EncodedTopk(values).size(), (1 << 20) / 4096 * 130);
  EXPECT_LE(EncodedTopk(values).size() * 100, values.size() * sizeof(float));
}

TEST(TopkCodec, TheErrorIsThatOfTheory) {
  // Broken: fewer or other values would be sent than the format says. The largest 64th of a
  // Gaussian holds 11.8 % of its energy, of which two bits keep nearly all.
  const std::vector<float> values = GaussianValues(1 << 20, 1);
  const std::vector<float> decoded = DecodedTopk(EncodedTopk(values), values.size());
  double error = 0;
  double norm = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    error += std::pow(static_cast<double>(decoded[i]) - values[i], 2);
    norm += std::pow(static_cast<double>(values[i]), 2);
  }
  EXPECT_NEAR(std::sqrt(error / norm), std::sqrt(1 - 0.118), 0.002);
}

TEST(TopkCodec, AMeanIsTheUnionOfItsUpdates) {
  // Broken: what a contributor sent would be dropped by the reducer, and no residual knows of it.
  constexpr size_t kElements = 10000;
  for (const int contributors : {1, 2, 5, 40}) {
    std::vector<float> sum(kElements);
    std::set<size_t> everybodys;
    for (int i = 0; i < contributors; ++i) {
      const std::vector<uint8_t> update = EncodedTopk(BellValues(kElements, 100 + i));
      const std::set<size_t> places = PlacesOf(DecodedTopk(update, kElements));
      everybodys.insert(places.begin(), places.end());
      ASSERT_TRUE(
          TopkCodec()
              .DecodeAccumulate(update, 1.0f + 0.1f * static_cast<float>(i), absl::MakeSpan(sum))
              .ok());
    }
    const std::vector<uint8_t> bytes = EncodedTopk(sum, true);
    const std::vector<float> mean = DecodedTopk(bytes, kElements);
    EXPECT_EQ(PlacesOf(mean), everybodys);
    for (const size_t place : everybodys) {
      EXPECT_NEAR(mean[place], sum[place], std::fabs(sum[place]) * 0x1p-8f) << place;
    }
    // Again from its own values: the same bytes, so a relay's mean loses nothing at the next hop.
    EXPECT_EQ(EncodedTopk(mean, true), bytes);
  }
}

TEST(TopkCodec, ADenseMeanIsATableOfPlaces) {
  // Broken: with many contributors a list of places would be longer than it must, or than what a
  // receiver allows.
  const TopkCodec codec;
  for (const size_t elements : {1, 7, 8, 9, 341, 342, 4095, 4096, 4097, 12288}) {
    std::vector<float> all(elements, 1.5f);
    EXPECT_EQ(DecodedTopk(EncodedTopk(all, true), elements), all) << elements;
    EXPECT_LE(EncodedTopk(all).size(), codec.MaxEncodedBytes(elements));
  }
  // 341 places take 512 bytes as a list and as a bitmap, 342 are shorter as a bitmap.
  for (const size_t count : {340, 341, 342, 343}) {
    std::vector<float> values(4096);
    for (size_t i = 0; i < count; ++i) values[4095 - 11 * i] = -1.0f;
    const std::vector<uint8_t> bytes = EncodedTopk(values, true);
    EXPECT_EQ(bytes.size(), 2 + std::min<size_t>((3 * count + 1) / 2, 512) + 2 * count);
    EXPECT_EQ(DecodedTopk(bytes, 4096), values);
  }
}

TEST(TopkCodec, RefusesWhatNoEncoderWrites) {
  // Broken: a hostile chunk would write beyond a block, count a value twice, or stand for an update
  // in a second form.
  std::vector<float> values(130, 0.0f);
  values[1] = 5.0f;
  values[64] = 6.0f;
  values[129] = -7.0f;
  const std::vector<uint8_t> update = EncodedTopk(values);
  ASSERT_EQ(update.size(), 2 + 5 + 16 + 1);
  const auto changed = [&update](size_t at, int byte) {
    std::vector<uint8_t> bytes = update;
    bytes.at(at) = static_cast<uint8_t>(byte);
    return bytes;
  };
  // Places 1, 64 and 129 are the bytes 01 00 04 81 00.
  ExpectTopkRefused(changed(1, 0x40), 130, "block 0: its header is 16387");
  ExpectTopkRefused(changed(1, 0x80), 130, "block 0: its header is");
  ExpectTopkRefused(changed(0, 4), 130, "block 0: it has 4 values of 130, at most 3 are sent");
  ExpectTopkRefused(changed(0, 0), 130, "bytes follow the last block");
  ExpectTopkRefused(changed(2, 0x40), 130, "block 0: place 1 is 64 after 64");
  ExpectTopkRefused(changed(2, 0x41), 130, "block 0: place 1 is 64 after 65");
  ExpectTopkRefused(changed(5, 0x82), 130, "block 0: place 2 is 130, the block has 130 values");
  ExpectTopkRefused(changed(6, 0x10), 130, "the unused half of the last place is not 0");
  ExpectTopkRefused(changed(10, 0x80), 130, "block 0: entry 0 of the codebook");
  ExpectTopkRefused(changed(23, 0xff), 130, "the unused bits of the codes are not 0");
  ExpectTopkRefused({}, 130, "block 0: its header is missing");
  ExpectTopkRefused(update, 4096 + 130, "block 1: its header is missing");
  std::vector<uint8_t> bytes = update;
  bytes.push_back(0);
  ExpectTopkRefused(bytes, 130, "1 byte follows the last block");
  for (size_t size = 0; size < update.size(); ++size) {
    ExpectTopkRefused(absl::MakeSpan(update).first(size), 130, "block 0");
  }
}

TEST(TopkCodec, RefusesWrongMeans) {
  // Broken: as above, for the bitmap and the halves of a mean.
  const std::vector<float> all(100, 1.0f);
  const std::vector<uint8_t> mean = EncodedTopk(all, true);
  ASSERT_EQ(mean.size(), 2 + 13 + 200);
  std::vector<uint8_t> bytes = mean;
  bytes[2] = 0xfe;
  ExpectTopkRefused(bytes, 100, "the bitmap has 99 places, the header says 100");
  bytes = mean;
  bytes[14] = 0x1f;
  ExpectTopkRefused(bytes, 100, "the bitmap has place 100, the block has 100 values");
  bytes = mean;
  bytes[16] = 0x7f;
  bytes[15] = 0x80;
  ExpectTopkRefused(bytes, 100, "a value is not finite");
  bytes = mean;
  bytes[0] = 101;
  ExpectTopkRefused(bytes, 100, "it has 101 values of 100, at most 100 are sent");
}

TEST(TopkCodec, RefusesWhatIsNotFinite) {
  // Broken: a worker that diverged would send garbage.
  const TopkCodec codec;
  std::vector<uint8_t> bytes(codec.MaxEncodedBytes(5000));
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    std::vector<float> values = BellValues(5000, 7);
    values[4500] = bad;
    EXPECT_EQ(codec.Encode(values, absl::MakeSpan(bytes)).status().message(),
              "value 4500 is not finite");
    EXPECT_EQ(codec.EncodeMean(values, absl::MakeSpan(bytes)).status().message(),
              "value 4500 is not finite");
  }
  EXPECT_FALSE(codec.Encode(BellValues(5000, 7), absl::MakeSpan(bytes).first(100)).ok());
  std::vector<float> sum(5000);
  EXPECT_FALSE(codec
                   .DecodeAccumulate(EncodedTopk(sum), std::numeric_limits<float>::infinity(),
                                     absl::MakeSpan(sum))
                   .ok());
  EXPECT_EQ(codec.MaxEncodedBytes(0), 0u);
  EXPECT_EQ(codec.Encode({}, {}).value(), 0u);
  EXPECT_TRUE(codec.Decode({}, {}).ok());
}

TEST(TopkCodec, AnyBytesAreTakenOrRefused) {
  // Broken: a hostile chunk would be read past its end or leave a value that is not finite.
  TestRandom random(6);
  int taken = 0;
  for (int trial = 0; trial < 20000; ++trial) {
    const size_t elements = 1 + random.Next() % 300;
    std::vector<float> values = BellValues(elements, random.Next());
    const bool mean = random.Next() % 2 == 0;
    for (float& value : values) {
      if (mean && random.Next() % 2 == 0) value = 0;
    }
    std::vector<uint8_t> bytes = EncodedTopk(values, mean);
    for (uint32_t change = random.Next() % 4; change > 0; --change) {
      uint8_t& byte = bytes[random.Next() % std::min<size_t>(bytes.size(), 12)];
      byte = static_cast<uint8_t>(random.Next());
    }
    if (random.Next() % 8 == 0) bytes.resize(random.Next() % (2 * bytes.size()));
    std::vector<float> sum(elements, 3.0f);
    const bool ok = TopkCodec().Decode(bytes, absl::MakeSpan(values)).ok();
    ASSERT_EQ(ok, TopkCodec().DecodeAccumulate(bytes, 0.5f, absl::MakeSpan(sum)).ok()) << trial;
    taken += ok ? 1 : 0;
    for (size_t i = 0; i < elements; ++i) {
      ASSERT_TRUE(!ok || std::isfinite(values[i])) << trial;
      const volatile float product = 0.5f * values[i];
      ASSERT_EQ(sum[i], ok ? 3.0f + product : 3.0f) << trial;
    }
  }
  EXPECT_GT(taken, 4000);
  EXPECT_LT(taken, 16000);
}

TEST(TopkCodec, FeedbackSendsAllInTheEnd) {
  // Broken: values that are never among the largest would never be learned. The same update every
  // round: what arrived follows the sum of all, up to a residual that stays bounded.
  constexpr size_t kElements = 1024;
  const std::vector<float> delta = BellValues(kElements, 8);
  std::vector<float> residual(kElements);
  std::vector<double> arrived(kElements);
  constexpr int kRounds = 2000;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<float> update = delta;
    ASSERT_TRUE(AddResidual(1.0f, residual, absl::MakeSpan(update)).ok());
    const std::vector<uint8_t> sent = EncodedTopk(update);
    const std::vector<float> decoded = DecodedTopk(sent, kElements);
    for (size_t i = 0; i < kElements; ++i) arrived[i] += decoded[i];
    residual = update;
    ASSERT_TRUE(SubtractSent(TopkCodec(), sent, absl::MakeSpan(residual)).ok());
  }
  double error = 0;
  double norm = 0;
  for (size_t i = 0; i < kElements; ++i) {
    error += std::pow(arrived[i] / kRounds - delta[i], 2);
    norm += std::pow(static_cast<double>(delta[i]), 2);
  }
  EXPECT_LT(std::sqrt(error / norm), 0.05);
}

TEST(TopkCodec, KeepsTheGoldenDigestsOnEveryTarget) {
  // Broken: a release or another CPU would no longer replay yesterday's logs to the same bits.
  const std::vector<float> values = BellValues(100001, 2024);
  std::vector<float> half = values;
  for (size_t i = 0; i < half.size(); i += 1 + i / 4096) half[i] = 0;
  for (const std::string& target : SimdTargetNames()) {
    const ScopedSimdTarget pinned(target);
    const std::vector<uint8_t> update = EncodedTopk(values);
    const std::vector<uint8_t> mean = EncodedTopk(half, true);
    std::vector<float> sum = values;
    ASSERT_TRUE(TopkCodec().DecodeAccumulate(update, 0.3f, absl::MakeSpan(sum)).ok());
    ASSERT_TRUE(TopkCodec().DecodeAccumulate(mean, 0.7f, absl::MakeSpan(sum)).ok());
    EXPECT_EQ(Sha256Hex(update.data(), update.size()),
              "10c192acb8289764e7c96266c8bd7dfca9452d7e0470b735c5a9af3963f71a95")
        << target;
    EXPECT_EQ(Sha256Hex(mean.data(), mean.size()),
              "f2ae91f8d0d39b9c86b7986ffd67999c70dcf50c98f8ff17445986daa7bd2f85")
        << target;
    EXPECT_EQ(Sha256Hex(sum.data(), sum.size() * 4),
              "4ec61bec2b27f42e4cca5c0425bea015e41faadbd181345ff748d858ed7a8341")
        << target;
  }
}

}  // namespace
}  // namespace atolld
