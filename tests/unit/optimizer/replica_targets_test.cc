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
  // In the order of the rule's names.
  std::vector<std::vector<float>> buffers;

  // Steps by the entry's payload under the SIMD target that is pinned.
  void Apply(const OuterRule& rule, const Codec& codec, absl::Span<const uint8_t> payload) {
    std::vector<float> mean(kReplicaElements);
    ASSERT_TRUE(codec.Decode(payload, absl::MakeSpan(mean)).ok());
    buffers.resize(rule.buffers().size(), std::vector<float>(kReplicaElements));
    std::vector<absl::Span<float>> spans;
    for (std::vector<float>& buffer : buffers) spans.push_back(absl::MakeSpan(buffer));
    const OuterScalars scalars = rule.Scalars({0.7f, 0.9f, 0.99f, 1e-3f}).value();
    ASSERT_TRUE(rule.Step(scalars, mean, absl::MakeSpan(theta), spans).ok());
  }

  std::string Digest() const {
    std::string bytes(reinterpret_cast<const char*>(theta.data()), theta.size() * sizeof(float));
    // One buffer's place is kept where a rule has none.
    std::vector<std::vector<float>> all = buffers;
    all.resize(std::max<size_t>(1, all.size()), std::vector<float>(kReplicaElements));
    for (const std::vector<float>& buffer : all) {
      bytes.append(reinterpret_cast<const char*>(buffer.data()), buffer.size() * sizeof(float));
    }
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

// {rule, codec} -> digest of theta and buffers after kRounds; the same on every target, machine
// and release.
const std::map<std::pair<std::string, std::string>, std::string>& GoldenStates() {
  static const auto& digests = *new std::map<std::pair<std::string, std::string>, std::string>{
      {{"adagrad", "fp32"}, "3c0c5fad2cba2f4e6437ecff572a7e97f41520601115ff84371b5cd0c24542bb"},
      {{"adagrad", "fp16"}, "dc7c9172052919f0e910492582892aa9257960281a113adc4917d00a28fd1b7f"},
      {{"adagrad", "bf16"}, "fd0de08cb027201ce333ff02d7af630b212a2933fb420cbd5379fd3a9f8db65e"},
      {{"adagrad", "int8"}, "deb1916eca68aa95192dafff078e84c39e874f218f0c67c393f306ec6214dcdb"},
      {{"adagrad", "int4"}, "a0696277ceb55512f6c4c9ccc3b8c38405ba18169c51e516581358911b131e83"},
      {{"adagrad", "int2"}, "efccb108bcfa83efb724643603b3e2217647b91da0c84d715b6999ed80e43b0f"},
      {{"adagrad", "topk"}, "769c2f859794b2106d62f22852c5a2598e89bc87f682ebe8049d0a3077915455"},
      {{"adam", "fp32"}, "2839f21896cf45976be220a246e96e02cc0782773c7ad6664eda986d3a54b26a"},
      {{"adam", "fp16"}, "51e755f309650d619307298e5515e2cfb95877405f7d32a0eda7d2de8cb74df7"},
      {{"adam", "bf16"}, "def36b6e0c0776a11d8a14bfd2be3e2e932620b4872c01dbb57b724a53fd8791"},
      {{"adam", "int8"}, "f620c54a515fc7810b41550eec99f6ca8c8d354d32e4fd2fb420c46362d43929"},
      {{"adam", "int4"}, "7fcd94dedce3a718b8c0a81bfe5f6fdd1c83672cb859e3ceff14849d3043a6ba"},
      {{"adam", "int2"}, "916bcdc22433650f75323c1a36f762c42fb4876ae2688a8c5a7113b1ebc60a55"},
      {{"adam", "topk"}, "51ac217a0e1cb9944a389a7009dc6d8796aad6d31eb96cd3bec65cbe594c8929"},
      {{"average", "fp32"}, "567c2d0e5f109cb930fcd62b43dadc75d4c5a5323f68f50c8a1ef002de0534a0"},
      {{"average", "fp16"}, "b86242c551000e85dad7b6d4cbeb32b101b1cc06d4295d6a35d0676b26d4f8be"},
      {{"average", "bf16"}, "2009a19739a62f937c5322ad33756526421a931340093230c127a8fbe5411873"},
      {{"average", "int8"}, "9adda0dd8769b89860d2f0cb69138eb337a49869f47cff59c06e6bc785f542a6"},
      {{"average", "int4"}, "8194c276d272de485b60399a57e09ef32345398c93607d53496f740ecfffe514"},
      {{"average", "int2"}, "3542f0f979d4ba39f1713704908c2a904b0b6091da7658908dfd9f0b06ada89a"},
      {{"average", "topk"}, "7223a3e87ae3415606774e1aef9d02b987a0608f9dd3b7ae1dc55eb458e64e33"},
      {{"momentum", "fp32"}, "97038f533293c7f5f93908e6b777438055310c115504d9a21c8c7be9e1633750"},
      {{"momentum", "fp16"}, "27e7b209db4aa12f8edd9037046ce2cb6d44d2d766ed764267499ef6abd648f4"},
      {{"momentum", "bf16"}, "18959e961a7601c2ee2bffa0e71d9389df170987f16f7d2ff608dcc2909a1037"},
      {{"momentum", "int8"}, "4e1d9309fa8e7c911db87f534b17c7f810b456e083de10dcb897f66c62529e18"},
      {{"momentum", "int4"}, "4a00191a851a447749cf41fdff61d21dbbd7299052fdf905fa5116c8957cd013"},
      {{"momentum", "int2"}, "08edfa645228714ce90fcee0e1901b1b7743f25457565a6a87b1f86d1012a96c"},
      {{"momentum", "topk"}, "d9497af54456c4162b166a68581c6c37e4cfb518b81d346b237b6557a6c09925"},
      {{"nesterov", "fp32"}, "caba7699c8ce049cefecca4027fe61987dfeb8a4190a7482832ef788aec7d9f9"},
      {{"nesterov", "fp16"}, "67f25a0cf5d7f24ef552afab48b40627253ccfab1efebf20f5765d55950d073f"},
      {{"nesterov", "bf16"}, "e89d8c6effd03af279a6247ef7ff97f8e8910413c4731acfd924eaeac9c2d198"},
      {{"nesterov", "int8"}, "8d7f8e19ed3f2815d15e1d67c5e53d9bedd1d88928df108df9d2c4865fc1ec28"},
      {{"nesterov", "int4"}, "1f93593279a963d078b04c1954b9c621aac7a5cfe0ebfd21f41d56ed398c1564"},
      {{"nesterov", "int2"}, "a7513e70aaa24247de18e37ecd2162a033fd13db5339cd22339a1d7ed2304bf8"},
      {{"nesterov", "topk"}, "8c400ba0baaa3181213564ed39a8e0d4cf3a11324b5c10459df7568cc8a29e67"},
      {{"yogi", "fp32"}, "5ccddeda7932b75fe2a1fa1ebc4620da599e645ba38dc474d2583d9407f71011"},
      {{"yogi", "fp16"}, "7886328b6e474fb203437fd38af469468923cafdfbf599160a935e89e15835d4"},
      {{"yogi", "bf16"}, "0336c67dfcd1bfca83e1d57f7794a2aa3327a8c15dc202eee0a8d456fb548a83"},
      {{"yogi", "int8"}, "fc141f80eb0096785b4db611c38a80fe1c2c3a64da219bfc6d094391eab3ed5a"},
      {{"yogi", "int4"}, "09c79d9272d7466c0c772231e48f7742f3cffe2603b4f528e7f950db9ebeeff2"},
      {{"yogi", "int2"}, "dfae9d22d4da5ba42c80a7242f7d910d405320c468a9d3b0c0b25d5ac88eeed1"},
      {{"yogi", "topk"}, "020057c89a0660e62bcd1914414920b94674630b9e0d78bf3aea7f665e578311"}};
  return digests;
}

// With scalars as Scalars() makes them, an entry that is a whole period and new, these are the
// rules that they are made of.
std::string GoldenRuleOf(const std::string& rule) {
  if (rule == "cgad") return "adam";
  return rule == "delayed_nesterov" ? "nesterov" : rule;
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
        for (size_t i = 0; i < replica.buffers.size(); ++i) {
          EXPECT_TRUE(SameBits(replica.buffers[i], replicas[0].buffers[i]))
              << rule_name << " " << codec_name;
        }
      }
      if (rule_name == "delayed_nesterov") {
        EXPECT_TRUE(SameBits(replicas[0].buffers[0], std::vector<float>(kReplicaElements)));
        replicas[0].buffers.erase(replicas[0].buffers.begin());
      }
      EXPECT_EQ(replicas[0].Digest(), GoldenStates().at({GoldenRuleOf(rule_name), codec_name}))
          << rule_name << " " << codec_name;
    }
  }
}

}  // namespace
}  // namespace atolld
