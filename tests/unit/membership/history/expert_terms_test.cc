#include "membership/history/expert_terms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/base/casts.h"
#include "absl/strings/str_cat.h"
#include "membership/history/payload.h"
#include "membership/history/slice_shares.h"
#include "tests/unit/membership/history/records_text.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

v1::Manifest MixtureOf(uint32_t experts) {
  v1::Manifest manifest;
  const auto add = [&](const std::string& name, uint64_t count) {
    v1::Tensor* const tensor = manifest.add_tensors();
    tensor->set_name(name);
    tensor->add_shape(count);
    tensor->set_offset(manifest.elements());
    manifest.set_elements(manifest.elements() + count);
  };
  add("model.embed_tokens.weight", 4096);
  for (uint32_t i = 0; i < experts; ++i) {
    add(absl::StrCat("model.layers.0.mlp.experts.", i, ".up_proj.weight"), 4096);
  }
  return manifest;
}

v1::RunSpec OwnedSpec(uint32_t owners) {
  v1::RunSpec spec;
  spec.mutable_model()->set_kind("llama");
  spec.mutable_exchange()->set_codec("int8");
  spec.mutable_outer()->set_rule("nesterov");
  spec.mutable_experts()->set_owners(owners);
  spec.mutable_experts()->add_tensors("*.mlp.experts.#.*");
  return spec;
}

// Broken: a run with owners would never begin, or one without them would be judged by their rules.
TEST(ExpertTerms, AMixtureMayHaveOwnersAndOtherRunsAreFree) {
  EXPECT_TRUE(CheckExperts(OwnedSpec(2), MixtureOf(4)).ok());
  EXPECT_TRUE(CheckExperts(OwnedSpec(kMostOwners), MixtureOf(4)).ok());
  v1::RunSpec named = OwnedSpec(2);
  named.mutable_mode()->set_kind("sync");
  named.mutable_exchange()->set_aggregation("mean");
  named.mutable_exchange()->set_error_feedback(true);
  named.mutable_exchange()->set_slow_codec("int4");
  named.mutable_federation()->set_participation_bits(0x3f800000);  // 1
  named.mutable_federation()->set_drop_bits(0x3f000000);
  EXPECT_TRUE(CheckExperts(named, MixtureOf(4)).ok());
  v1::RunSpec none = OwnedSpec(2);
  none.clear_experts();
  none.mutable_mode()->set_kind("streaming");
  EXPECT_TRUE(CheckExperts(none, v1::Manifest()).ok());
}

// Broken: a run would begin whose peers do not know what they own, or whose sums mix values of
// different experts.
TEST(ExpertTerms, WhatNeedsWholeUpdatesIsRefused) {
  std::vector<std::pair<std::string, v1::RunSpec>> cases;
  const auto odd = [&](const std::string& what) {
    cases.emplace_back(what, OwnedSpec(2));
    return &cases.back().second;
  };
  for (const char* kind : {"streaming", "eager", "delayed", "async"}) {
    odd(absl::StrCat("[mode] kind '", kind, "'"))->mutable_mode()->set_kind(kind);
  }
  odd("[privacy] masked")->mutable_privacy()->set_masked(true);
  odd("[privacy] clip")->mutable_privacy()->set_clip_bits(0x3f800000);
  odd("[inner] control_variates")->mutable_inner()->set_control_variates(true);
  odd("[exchange] aggregation 'median'")->mutable_exchange()->set_aggregation("median");
  odd("[outer] rule 'delayed_nesterov'")->mutable_outer()->set_rule("delayed_nesterov");
  odd("[model] kind 'external'")->mutable_model()->set_kind("external");
  odd("[model] kind 'torchscript'")->mutable_model()->set_kind("torchscript");
  odd("[federation] participation below 1")
      ->mutable_federation()
      ->set_participation_bits(0x3f000000);  // 0.5
  for (auto& [what, spec] : cases) {
    const std::string refused(CheckExperts(spec, MixtureOf(4)).message());
    EXPECT_THAT(refused, StartsWith(what));
    EXPECT_THAT(refused, HasSubstr("cannot be combined with [experts] owners = 2"));
    spec.clear_experts();
    EXPECT_TRUE(CheckExperts(spec, MixtureOf(4)).ok()) << what;
  }
}

// Broken: a run would begin in which nobody owns anything, or whose record says two things.
TEST(ExpertTerms, AModelWithoutTheExpertsIsRefused) {
  const auto refusal = [](const v1::RunSpec& spec, uint32_t experts) {
    return std::string(CheckExperts(spec, MixtureOf(experts)).message());
  };
  EXPECT_THAT(refusal(OwnedSpec(2), 0), HasSubstr("matches no tensor of the model"));
  EXPECT_THAT(refusal(OwnedSpec(2), 1), HasSubstr("the model has 1 experts"));
  EXPECT_THAT(refusal(OwnedSpec(kMostOwners + 1), 4), HasSubstr("owners must be at most 1024"));
  EXPECT_THAT(refusal(OwnedSpec(0), 4), HasSubstr("tensors has no meaning with owners = 0"));
}

// Adapters of `ranks` ranks in slices of 2, one tensor each, and perhaps one that is whole.
v1::Manifest SlicesOf(uint32_t ranks, bool whole = false) {
  v1::Manifest manifest;
  const auto add = [&](const std::string& name) {
    v1::Tensor* const tensor = manifest.add_tensors();
    tensor->set_name(name);
    tensor->add_shape(4096);
    tensor->set_offset(manifest.elements());
    manifest.set_elements(manifest.elements() + 4096);
  };
  for (uint32_t i = 0; i < ranks / 2; ++i) {
    add(absl::StrCat("model.layers.0.self_attn.q_proj.lora_A.slice", i, ".weight"));
  }
  if (whole) add("model.layers.0.self_attn.q_proj.lora_A.weight");
  return manifest;
}

// Broken: a run with slices would never begin, or one would whose peers count other slices.
TEST(ExpertTerms, SlicesAreAllThatIsTrained) {
  v1::RunSpec spec = OwnedSpec(0);
  spec.mutable_experts()->set_tensors(0, "*.slice#*");
  spec.mutable_model()->set_lora_rank(8);
  spec.mutable_model()->set_lora_slice(2);
  EXPECT_TRUE(CheckExperts(spec, SlicesOf(8)).ok()) << CheckExperts(spec, SlicesOf(8));
  const auto refusal = [&](const v1::RunSpec& refused, const v1::Manifest& manifest) {
    return std::string(CheckExperts(refused, manifest).message());
  };
  EXPECT_THAT(
      refusal(spec, SlicesOf(6)),
      HasSubstr("the adapters have slices 0-2; with [model] lora_rank = 8 and lora_slice = 2 "
                "they must be 0-3"));
  EXPECT_THAT(refusal(spec, SlicesOf(8, true)), HasSubstr("every tensor that is trained must be"));
  v1::RunSpec odd = spec;
  odd.mutable_experts()->set_owners(2);
  EXPECT_THAT(refusal(odd, SlicesOf(8)),
              HasSubstr("[experts] owners = 2 cannot be combined with [model] lora_slice = 2"));
  odd = spec;
  odd.mutable_model()->set_lora_slice(3);
  EXPECT_THAT(refusal(odd, SlicesOf(8)), HasSubstr("[model] lora_slice is 3; it must divide"));
  odd = spec;
  odd.mutable_model()->add_local("*.lora_B.*");
  EXPECT_THAT(refusal(odd, SlicesOf(8)), HasSubstr("[model] local cannot be combined with"));
  odd = spec;
  odd.mutable_mode()->set_kind("async");
  EXPECT_THAT(refusal(odd, SlicesOf(8)), HasSubstr("cannot be combined with [model] lora_slice"));
  odd = spec;
  odd.mutable_federation()->set_participation_bits(0x3f000000);  // 0.5
  EXPECT_TRUE(CheckExperts(odd, SlicesOf(8)).ok());
}

// Broken: slices of different peers would add up where those of one slice are averaged, and a run
// with several ranks would learn less than one with the smallest of them.
TEST(ExpertTerms, ASliceMovesByTheShareOfThoseWhoHaveTrainedIt) {
  v1::RunSpec spec = OwnedSpec(0);
  spec.mutable_experts()->set_tensors(0, "*.slice#*");
  spec.mutable_model()->set_lora_rank(6);
  spec.mutable_model()->set_lora_slice(2);
  spec.mutable_exchange()->set_chunk_elements(4096);
  const Fragments fragments(spec, SlicesOf(6));
  v1::EntryHeader header;
  header.set_version(1);
  header.set_chunk_elements(4096);
  const auto add = [&](const std::string& peer, float weight, char owned) {
    v1::Contributor* const one = header.add_contributors();
    one->set_peer(peer);
    one->set_weight_bits(absl::bit_cast<uint32_t>(weight));
    one->set_owned(std::string(1, owned));
  };
  add("a", 1, 0b111);
  add("b", 3, 0b001);
  add("c", 4, 0b011);
  // Chunk 1 of c was lost in the exchange, which is no reason to move less. Nobody's chunk 2 came.
  *header.mutable_records() =
      RecordsOf({{"a", {{1, "\x07"}, {1, "\x01"}, {1, std::string(1, '\0')}}}});
  EXPECT_EQ(SliceShares(fragments, header), (std::vector<float>{1, 0.25f, 0}));
  v1::RunSpec owners = OwnedSpec(2);
  owners.mutable_exchange()->set_chunk_elements(4096);
  EXPECT_TRUE(SliceShares(Fragments(owners, MixtureOf(4)), header).empty());
}

// Broken: a peer would end at the check of a grid that a run's record can ask for.
TEST(ExpertTerms, ThePaddedGridHasSoManyChunks) {
  const auto with_shared = [](uint64_t values) {
    v1::Manifest manifest = MixtureOf(4);
    for (v1::Tensor& tensor : *manifest.mutable_tensors()) {
      const bool shared = tensor.offset() == 0;
      tensor.set_shape(0, shared ? values : 1);
      tensor.set_offset(shared ? 0 : values + (tensor.offset() / 4096 - 1));
    }
    manifest.set_elements(values + 4);
    return manifest;
  };
  v1::RunSpec spec = OwnedSpec(2);
  spec.mutable_exchange()->set_chunk_elements(64);
  // Each expert has one value, and a chunk.
  const uint64_t most = 64 * (kMaxChunks - 5);
  EXPECT_TRUE(CheckExperts(spec, with_shared(most)).ok());
  EXPECT_THAT(std::string(CheckExperts(spec, with_shared(most + 1)).message()),
              HasSubstr("[exchange] chunk_elements = 64 makes 2147483648 chunks"));
}

}  // namespace
}  // namespace atolld
