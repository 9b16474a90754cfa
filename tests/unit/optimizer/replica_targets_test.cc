// The law that the whole system stands on: the same entries give the same bits on every CPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compression/codec.h"
#include "compression/simd.h"
#include "optimizer/aggregation_rule.h"
#include "optimizer/outer_rule.h"
#include "tests/unit/compression/test_values.h"

namespace atolld {
namespace {

constexpr size_t kReplicaElements = 5003;  // no multiple of a block or a vector
constexpr uint64_t kRounds = 12;

struct Replica {
  std::vector<float> theta = BellValues(kReplicaElements, 1000);
  std::vector<float> momentum = std::vector<float>(kReplicaElements);

  // Steps by the entry's payload under the SIMD target that is pinned.
  void Apply(const OuterRule& rule, const Codec& codec, absl::Span<const uint8_t> payload) {
    std::vector<float> mean(kReplicaElements);
    ASSERT_TRUE(codec.Decode(payload, absl::MakeSpan(mean)).ok());
    std::vector<absl::Span<float>> buffers;
    if (!rule.buffers().empty()) buffers.push_back(absl::MakeSpan(momentum));
    ASSERT_TRUE(
        rule.Step(rule.Scalars(0.7f, 0.9f).value(), mean, absl::MakeSpan(theta), buffers).ok());
  }

  std::string Digest() const {
    std::string bytes(reinterpret_cast<const char*>(theta.data()), theta.size() * sizeof(float));
    bytes.append(reinterpret_cast<const char*>(momentum.data()), momentum.size() * sizeof(float));
    return Sha256Hex(bytes.data(), bytes.size());
  }
};

// What a reducer makes of three peers' updates in a round, under the SIMD target that is pinned.
std::vector<uint8_t> Reduce(const Codec& codec, uint64_t round) {
  const std::vector<float> weights = {1.0f, 0.3f, 17.0f};
  std::vector<float> sum(kReplicaElements);
  std::vector<uint8_t> bytes(codec.MaxEncodedBytes(kReplicaElements));
  std::fill(sum.begin(), sum.end(), 0.0f);
  for (size_t peer = 0; peer < weights.size(); ++peer) {
    const auto used =
        codec.Encode(BellValues(kReplicaElements, 10 * round + peer), absl::MakeSpan(bytes));
    EXPECT_TRUE(used.ok());
    EXPECT_TRUE(codec
                    .DecodeAccumulate(absl::MakeSpan(bytes).first(*used), weights[peer],
                                      absl::MakeSpan(sum))
                    .ok());
  }
  EXPECT_TRUE(FinishMean(weights, absl::MakeSpan(sum)).ok());
  const auto used = codec.EncodeMean(sum, absl::MakeSpan(bytes));
  EXPECT_TRUE(used.ok());
  bytes.resize(*used);
  return bytes;
}

// {rule, codec} -> digest of theta and momentum after kRounds; the same on every target, machine
// and release.
const std::map<std::pair<std::string, std::string>, std::string>& GoldenStates() {
  static const auto& digests = *new std::map<std::pair<std::string, std::string>, std::string>{
      {{"average", "bf16"}, "2009a19739a62f937c5322ad33756526421a931340093230c127a8fbe5411873"},
      {{"average", "fp16"}, "b86242c551000e85dad7b6d4cbeb32b101b1cc06d4295d6a35d0676b26d4f8be"},
      {{"average", "fp32"}, "567c2d0e5f109cb930fcd62b43dadc75d4c5a5323f68f50c8a1ef002de0534a0"},
      {{"average", "int2"}, "3542f0f979d4ba39f1713704908c2a904b0b6091da7658908dfd9f0b06ada89a"},
      {{"average", "int4"}, "8194c276d272de485b60399a57e09ef32345398c93607d53496f740ecfffe514"},
      {{"average", "int8"}, "9adda0dd8769b89860d2f0cb69138eb337a49869f47cff59c06e6bc785f542a6"},
      {{"average", "topk"}, "7223a3e87ae3415606774e1aef9d02b987a0608f9dd3b7ae1dc55eb458e64e33"},
      {{"nesterov", "bf16"}, "e89d8c6effd03af279a6247ef7ff97f8e8910413c4731acfd924eaeac9c2d198"},
      {{"nesterov", "fp16"}, "67f25a0cf5d7f24ef552afab48b40627253ccfab1efebf20f5765d55950d073f"},
      {{"nesterov", "fp32"}, "caba7699c8ce049cefecca4027fe61987dfeb8a4190a7482832ef788aec7d9f9"},
      {{"nesterov", "int2"}, "a7513e70aaa24247de18e37ecd2162a033fd13db5339cd22339a1d7ed2304bf8"},
      {{"nesterov", "int4"}, "1f93593279a963d078b04c1954b9c621aac7a5cfe0ebfd21f41d56ed398c1564"},
      {{"nesterov", "int8"}, "8d7f8e19ed3f2815d15e1d67c5e53d9bedd1d88928df108df9d2c4865fc1ec28"},
      {{"nesterov", "topk"}, "8c400ba0baaa3181213564ed39a8e0d4cf3a11324b5c10459df7568cc8a29e67"}};
  return digests;
}

TEST(ReplicaTargets, ReplicasThatDecodeTheSameEntriesHoldTheSameBitsUnderDifferentTargets) {
  // Broken: live replicas on different CPUs would drift apart, and every digest check with them.
  const std::vector<std::string> targets = SimdTargetNames();
  for (const std::string& rule_name : OuterRuleNames()) {
    for (const std::string& codec_name : CodecNames()) {
      const OuterRule& rule = **FindOuterRule(rule_name);
      const Codec& codec = **FindCodec(codec_name);
      // One a target, and three even where there are fewer.
      std::vector<Replica> replicas(std::max<size_t>(3, targets.size()));
      for (uint64_t round = 0; round < kRounds; ++round) {
        std::vector<uint8_t> payload;
        {
          // The reducer's CPU is another one every round, and would have made the same bytes on
          // any.
          const ScopedSimdTarget reducer(targets[round % targets.size()]);
          payload = Reduce(codec, round);
        }
        for (size_t i = 0; i < replicas.size(); ++i) {
          const ScopedSimdTarget cpu(targets[i % targets.size()]);
          ASSERT_EQ(Reduce(codec, round), payload) << targets[i % targets.size()];
          replicas[i].Apply(rule, codec, payload);
        }
      }
      for (const Replica& replica : replicas) {
        EXPECT_TRUE(SameBits(replica.theta, replicas[0].theta)) << rule_name << " " << codec_name;
        EXPECT_TRUE(SameBits(replica.momentum, replicas[0].momentum))
            << rule_name << " " << codec_name;
      }
      EXPECT_EQ(replicas[0].Digest(), GoldenStates().at({rule_name, codec_name}))
          << rule_name << " " << codec_name;
    }
  }
}

}  // namespace
}  // namespace atolld
