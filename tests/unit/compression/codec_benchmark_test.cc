#include "compression/codec_benchmark.h"

#include <gtest/gtest.h>

#include <cmath>

namespace atolld {
namespace {

TEST(CodecBenchmark, ReportsWhatTheClockSays) {
  // Broken: published speeds would not be bytes of fp32 over the time of the right step.
  // Each reading is 1 s later than the one before, so every step takes 1 s, except that encoding
  // takes 3 s.
  int reading = 0;
  double now = 0;
  const auto clock = [&] {
    now += reading % 4 == 2 ? 3 : 1;
    ++reading;
    return now;
  };
  const auto result = MeasureCodec(*ParseCodecName("int8"), 1000000, 3, clock);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->codec, "int8");
  EXPECT_EQ(result->elements, 1000000u);
  EXPECT_DOUBLE_EQ(result->memcpy_gb_per_s, 0.004);
  EXPECT_DOUBLE_EQ(result->encode_gb_per_s, 0.004 / 3);
  EXPECT_DOUBLE_EQ(result->decode_gb_per_s, 0.004);
  EXPECT_EQ(result->bytes, 1000000u + 4 * 3907);
  EXPECT_EQ(reading, 16);
}

TEST(CodecBenchmark, ErrorsAreThoseOfTheLiterature) {
  // Broken: the codec would be less exact than block-256 absmax int8 is: 0.7 % on Gaussian values.
  const auto clock = [now = 0.0]() mutable { return now += 1; };
  const auto int8 = MeasureCodec(*ParseCodecName("int8"), 200000, 1, clock);
  ASSERT_TRUE(int8.ok());
  EXPECT_NEAR(int8->relative_error, 0.007, 0.0005);
  const auto fp32 = MeasureCodec(*ParseCodecName("fp32"), 1000, 1, clock);
  ASSERT_TRUE(fp32.ok());
  EXPECT_EQ(fp32->relative_error, 0.0);
}

TEST(CodecBenchmark, CountsZstdIn) {
  // Broken: "int8+zstd" would be reported with int8's size.
  const auto clock = [now = 0.0]() mutable { return now += 1; };
  const auto plain = MeasureCodec(*ParseCodecName("int8"), 200000, 1, clock);
  const auto framed = MeasureCodec(*ParseCodecName("int8+zstd"), 200000, 1, clock);
  ASSERT_TRUE(plain.ok() && framed.ok());
  EXPECT_EQ(framed->codec, "int8+zstd");
  EXPECT_LT(framed->bytes, plain->bytes * 97 / 100);
  EXPECT_EQ(framed->relative_error, plain->relative_error);
}

TEST(CodecBenchmark, ValuesAreStandardNormal) {
  // Broken: the error would be measured on other values than it says.
  const std::vector<float> values = GaussianValues(100001, 1);
  EXPECT_EQ(values, GaussianValues(100001, 1));
  EXPECT_NE(values, GaussianValues(100001, 2));
  double sum = 0, squares = 0;
  for (const float value : values) {
    sum += value;
    squares += static_cast<double>(value) * value;
  }
  EXPECT_NEAR(sum / 100001, 0, 0.02);
  EXPECT_NEAR(squares / 100001, 1, 0.02);
}

TEST(CodecBenchmark, RefusesNothingToMeasure) {
  // Broken: a benchmark of nothing would divide by zero.
  const auto clock = [] { return 0.0; };
  EXPECT_FALSE(MeasureCodec(*ParseCodecName("int8"), 0, 1, clock).ok());
  EXPECT_FALSE(MeasureCodec(*ParseCodecName("int8"), 1, 0, clock).ok());
}

}  // namespace
}  // namespace atolld
