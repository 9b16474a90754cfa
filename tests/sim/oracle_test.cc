// Tests the oracle against the codecs that it reimplements, and against means computed by hand.
#include "tests/sim/oracle.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "compression/codec.h"
#include "tests/sim/oracle_fragments.h"
#include "tests/sim/sim_events.h"
#include "tests/unit/membership/history/records_text.h"

namespace atolld {
namespace {

uint32_t Bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

v1::RunSpec SpecOf(const std::string& codec, const std::string& rule, uint32_t chunk_elements) {
  v1::RunSpec spec;
  spec.mutable_exchange()->set_codec(codec);
  spec.mutable_exchange()->set_chunk_elements(chunk_elements);
  spec.mutable_outer()->set_rule(rule);
  return spec;
}

void AddScalar(const std::string& name, float value, v1::EntryHeader* header) {
  v1::Scalar* scalar = header->add_scalars();
  scalar->set_name(name);
  scalar->set_bits(Bits(value));
}

// Values of every magnitude that a block may hold, and blocks of zeros.
std::vector<float> DrawValues(SimRandom& random, size_t count) {
  std::vector<float> values(count);
  const int exponent = static_cast<int>(random.Below(240)) - 120;
  for (float& value : values) {
    value = std::ldexp(static_cast<float>(random.Unit()) - 0.5f, exponent);
    if (random.Below(50) == 0) value = 0;
  }
  return values;
}

// If this failed, a difference between oracle and replica could be the oracle's own error.
TEST(OracleTest, EncodesToTheBitAsTheCodecsDo) {
  SimRandom random(1);
  for (const std::string& name : CodecNames()) {
    const Codec& codec = **FindCodec(name);
    for (int trial = 0; trial < 300; ++trial) {
      const std::vector<float> values = DrawValues(random, 1 + random.Below(700));
      const auto whole = static_cast<uint32_t>(values.size());
      const Oracle oracle(SpecOf(name, "average", whole), values);
      std::vector<uint8_t> bytes(codec.MaxEncodedBytes(values.size()));
      bytes.resize(*codec.Encode(values, absl::MakeSpan(bytes)));
      const Oracle::Chunks chunks = oracle.Encode("p1", 0, values);
      ASSERT_EQ(chunks.size(), 1u);
      EXPECT_EQ(chunks[0], std::string(bytes.begin(), bytes.end())) << name << " trial " << trial;
    }
  }
}

// If this failed, NaN would pass for a contribution.
TEST(OracleTest, RefusesWhatIsNotFinite) {
  const std::vector<float> values = {1, std::nanf("")};
  EXPECT_TRUE(Oracle(SpecOf("fp32", "average", 2), values).Encode("p1", 0, values).empty());
}

// If this failed, weights, bitmaps or partial means would be misread: 3 contributors, the first two
// averaged by a relay in chunk 0, the last absent in chunk 1.
TEST(OracleTest, MeanByWeightsBitmapsAndPartials) {
  const std::vector<float> zeros(2, 0.0f);
  Oracle oracle(SpecOf("fp32", "average", 1), zeros);
  v1::EntryHeader header;
  for (const float weight : {1.0f, 3.0f, 4.0f}) {
    header.add_contributors()->set_weight_bits(Bits(weight));
  }
  *header.mutable_records() = RecordsOf({{"p1", {{1, "\x07", {"\x03"}}, {1, "\x03"}}}});
  AddScalar("learning_rate", 1, &header);
  const Oracle::Chunks first = oracle.Encode("p1", 0, std::vector<float>{8, 8});
  const Oracle::Chunks second = oracle.Encode("p2", 0, std::vector<float>{4, 4});
  const Oracle::Chunks third = oracle.Encode("p3", 0, std::vector<float>{-1, 100});
  const std::string payload = oracle.Payload(header, {&first, &second, &third});
  oracle.Step(header, payload);
  // Chunk 0: partial (8 + 12) / 4 = 5 of weight 4, then (5 x 4 - 4) / 8. Chunk 1: (8 + 12) / 4.
  EXPECT_EQ(oracle.theta(), (std::vector<float>{-2, -5}));
  EXPECT_EQ(oracle.Residual(header, 2, std::vector<float>{-1, 100}, third),
            (std::vector<float>{0, 100}));
  // What an entry takes scaled leaves a scaled rest, also of chunks that it does not take.
  header.mutable_contributors(2)->set_scale_bits(Bits(0.25f));
  EXPECT_EQ(oracle.Residual(header, 2, std::vector<float>{3, 100}, third),
            (std::vector<float>{1, 25}));
}

// If this failed, levels with codecs of their own would be confused: 1 + 2^-10 is a value of fp32
// and none of bf16, whose next ones are 1 and 1 + 2^-7.
TEST(OracleTest, EachLevelHasItsCodec) {
  const float fine = 1 + std::ldexp(1.0f, -10);
  v1::EntryHeader header;
  for (int i = 0; i < 3; ++i) header.add_contributors()->set_weight_bits(Bits(1));
  *header.mutable_records() = RecordsOf({{"p1", {{1, "\x07", {"\x03"}}}}});
  AddScalar("learning_rate", 1, &header);
  // The lower level's codec, the upper's, what two fine values and one of 4 come to.
  const struct {
    const char* updates;
    const char* means;
    float mean;
  } cases[] = {{"fp32", "", (2 * fine + 4) / 3},
               {"fp32", "bf16", 2},   // the partial mean is 1 then, and 6 / 3 a value of bf16
               {"bf16", "fp32", 2}};  // the updates are
  for (const auto& one : cases) {
    v1::RunSpec spec = SpecOf(one.updates, "average", 1);
    spec.mutable_exchange()->set_upper_codec(one.means);
    Oracle oracle(spec, std::vector<float>{0});
    const Oracle::Chunks low = oracle.Encode("p1", 0, std::vector<float>{fine});
    const Oracle::Chunks high = oracle.Encode("p3", 0, std::vector<float>{4});
    oracle.Step(header, oracle.Payload(header, {&low, &low, &high}));
    EXPECT_NEAR(oracle.theta()[0], -one.mean, 1e-6) << one.updates << "/" << one.means;
    const float lost = oracle.Residual(header, 0, std::vector<float>{fine}, low)[0];
    EXPECT_EQ(lost, std::string(one.updates) == "fp32" ? 0 : fine - 1);
  }
}

// If this failed, the buffer would be mixed in too early or too late.
TEST(OracleTest, NesterovStepsAsWritten) {
  const std::vector<float> start = {10};
  Oracle oracle(SpecOf("fp32", "nesterov", 1), start);
  v1::EntryHeader header;
  header.add_contributors()->set_weight_bits(Bits(1));
  *header.mutable_records() = RecordsOf({{"p1", {{1, "\x01"}}}});
  AddScalar("learning_rate", 0.5f, &header);
  AddScalar("momentum", 0.5f, &header);
  const Oracle::Chunks two = oracle.Encode("p1", 0, std::vector<float>{2});
  const std::string payload = oracle.Payload(header, {&two});
  oracle.Step(header, payload);  // buffer 2; 10 - 0.5 x (2 + 1)
  EXPECT_EQ(oracle.theta(), std::vector<float>{8.5f});
  oracle.Step(header, payload);  // buffer 3; 8.5 - 0.5 x (2 + 1.5)
  EXPECT_EQ(oracle.theta(), std::vector<float>{6.75f});
  EXPECT_EQ(oracle.momentum(), std::vector<float>{3});
  EXPECT_EQ(oracle.version(), 2u);
}

// If this failed, the oracle would step an expert that nobody owns, count an update in a chunk that
// it does not have, or take the values between two parts for values of a tensor.
TEST(OracleTest, ExpertsBeginWithAChunkAndMoveByTheirOwners) {
  // Two values that all train around one of expert 7 and one of expert 12, in chunks of 3.
  v1::RunSpec spec = SpecOf("fp32", "average", 3);
  spec.mutable_experts()->add_tensors("*.#");
  spec.mutable_experts()->set_owners(1);
  v1::Manifest manifest;
  for (const char* const name : {"first", "expert.12", "expert.7", "last"}) {
    v1::Tensor* const tensor = manifest.add_tensors();
    tensor->set_name(name);
    tensor->add_shape(1);
    tensor->set_offset(static_cast<uint64_t>(manifest.tensors_size()) - 1);
  }
  const std::vector<std::vector<size_t>> places = OracleFragments(spec, manifest);
  const std::vector<size_t> expected = {0, 3, kNoPlace, 2, kNoPlace, kNoPlace, 1};
  ASSERT_EQ(places, std::vector<std::vector<size_t>>{expected});
  const std::vector<size_t> parts = OracleParts(spec, manifest);
  ASSERT_EQ(parts, (std::vector<size_t>{0, 1, 2}));
  Oracle oracle(spec, std::vector<float>{10, 20, 30, 40}, places, parts);
  const std::vector<float> update = oracle.Covered(1, std::vector<float>{1, 2, 3, 4});
  EXPECT_EQ(update, (std::vector<float>{1, 4, 0, 3, 0, 0, 2}));
  const Oracle::Chunks first = oracle.Encode("p1", 0, update, false, "\x01");
  const Oracle::Chunks second = oracle.Encode("p2", 0, update, false, std::string(1, '\0'));
  EXPECT_TRUE(first[2].empty());
  EXPECT_TRUE(second[1].empty());
  EXPECT_EQ(oracle.SquaredNorm(first, update.size()), 1 + 16 + 9);
  v1::EntryHeader header;
  header.set_version(1);
  for (int i = 0; i < 2; ++i) header.add_contributors()->set_weight_bits(Bits(1));
  const std::string nobody(1, '\0');
  *header.mutable_records() = RecordsOf({{"p1", {{1, "\x03"}, {1, "\x01"}, {1, nobody}}}});
  AddScalar("learning_rate", 1, &header);
  oracle.Step(header, oracle.Payload(header, {&first, &second}));
  EXPECT_EQ(oracle.theta(), (std::vector<float>{9, 20, 27, 36}));
  EXPECT_EQ(oracle.Residual(header, 0, update, first), (std::vector<float>{0, 0, 0, 0, 0, 0, 2}));
}

// If this failed, a guess would be checked against a formula other than that of modes.md.
TEST(OracleTest, GuessesByItsOwnShareOfTheNewestMean) {
  v1::RunSpec spec = SpecOf("fp32", "nesterov", 1);
  spec.mutable_outer()->set_learning_rate_bits(Bits(0.5f));
  spec.mutable_outer()->set_momentum_bits(Bits(0.5f));
  Oracle oracle(spec, std::vector<float>{10});
  const Oracle::Chunks now = oracle.Encode("p1", 0, std::vector<float>{4});
  // There is no mean yet: 10 - 0.5 x (4 + 0.5 x 4).
  EXPECT_EQ(oracle.Guess(spec.outer(), now, nullptr, true), std::vector<float>{7});
  v1::EntryHeader header;
  header.add_contributors()->set_weight_bits(Bits(1));
  header.add_contributors()->set_weight_bits(Bits(3));
  *header.mutable_records() = RecordsOf({{"p1", {{1, "\x03"}}}});
  AddScalar("learning_rate", 0.5f, &header);
  AddScalar("momentum", 0.5f, &header);
  header.mutable_contributors(0)->set_scale_bits(Bits(0.5f));
  const Oracle::Chunks own = oracle.Encode("p1", 0, std::vector<float>{16});
  const Oracle::Chunks other = oracle.Encode("p2", 0, std::vector<float>{0});
  oracle.Step(header, oracle.Payload(header, {&own, &other}));
  ASSERT_EQ(oracle.theta(), std::vector<float>{8.5f});  // mean 2, buffer 2
  // 2 + 0.25 x (4 - 0.5 x 16) = 1; buffer 0.5 x 2 + 1; 8.5 - 0.5 x (1 + 0.5 x 2)
  const Oracle::Given before = {own, 0.25f, 0.5f};
  EXPECT_EQ(oracle.Guess(spec.outer(), now, &before, true), std::vector<float>{7.5f});
  // The mean as it is: buffer 3; 8.5 - 0.5 x (2 + 0.5 x 3). And the update alone: buffer 5.
  EXPECT_EQ(oracle.Guess(spec.outer(), now, nullptr, true), std::vector<float>{6.75f});
  EXPECT_EQ(oracle.Guess(spec.outer(), now, &before, false), std::vector<float>{5.25f});
  EXPECT_EQ(oracle.theta(), std::vector<float>{8.5f}) << "a guess moves nothing";
}

// If this failed, a simulated run with Adam's rule would be checked against another rule.
TEST(OracleTest, AdamStepsAsWritten) {
  Oracle oracle(SpecOf("fp32", "adam", 1), std::vector<float>{10});
  v1::EntryHeader header;
  header.add_contributors()->set_weight_bits(Bits(1));
  *header.mutable_records() = RecordsOf({{"p1", {{1, "\x01"}}}});
  AddScalar("adaptivity", 1, &header);
  AddScalar("beta2", 0.5f, &header);
  AddScalar("learning_rate", 1, &header);
  AddScalar("momentum", 0.5f, &header);
  const Oracle::Chunks two = oracle.Encode("p1", 0, std::vector<float>{std::sqrt(7.0f)});
  oracle.Step(header, oracle.Payload(header, {&two}));
  // v = 0.5 x 1 + 0.5 x 7 = 4; m = sqrt(7) / 2; 10 - m / (2 + 1)
  EXPECT_NEAR(oracle.second_moment()[0], 3, 1e-6);
  EXPECT_NEAR(oracle.momentum()[0], 1.3228757, 1e-6);
  EXPECT_NEAR(oracle.theta()[0], 9.5590414, 1e-5);
}

}  // namespace
}  // namespace atolld
