#include "membership/history/step_scalars.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "absl/base/casts.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

uint32_t Fp32(float value) { return absl::bit_cast<uint32_t>(value); }

v1::RunSpec LateSpec(const std::string& kind, const std::string& rule) {
  v1::RunSpec spec;
  if (kind != "sync") spec.mutable_mode()->set_kind(kind);
  spec.mutable_outer()->set_rule(rule);
  return spec;
}

v1::EntryHeader HeaderOf(uint64_t version, const std::vector<uint32_t>& ages,
                         const std::vector<uint64_t>& tokens) {
  v1::EntryHeader header;
  header.set_version(version);
  for (size_t i = 0; i < ages.size(); ++i) {
    v1::Contributor* const contributor = header.add_contributors();
    contributor->set_age(ages[i]);
    contributor->set_tokens(tokens[i]);
  }
  return header;
}

std::map<std::string, float> Told(const v1::EntryHeader& header) {
  std::map<std::string, float> told;
  for (const v1::Scalar& scalar : header.scalars()) {
    told[scalar.name()] = absl::bit_cast<float>(scalar.bits());
  }
  EXPECT_EQ(told.size(), static_cast<size_t>(header.scalars_size()));
  return told;
}

// Would break: replicas take the momentum in another entry than the coordinator meant, or of more
// updates than N, so that theta moves in bursts where several share an entry.
TEST(StepScalars, CountTheUpdatesOfDelayedNesterov) {
  v1::RunSpec spec = LateSpec("async", "delayed_nesterov");
  spec.mutable_outer()->set_buffer(3);
  struct {
    size_t updates;
    float due, waiting, share, rest;
  } const wanted[] = {
      {2, 0, 2, 2.0f / 3, 0},         // 2
      {2, 1, 1, 2.0f / 3, 1.0f / 3},  // 4: three for the momentum, one is left
      {1, 0, 2, 1.0f / 3, 0},         // 2
      {3, 1, 2, 1, 2.0f / 3},         // 5
      {1, 1, 0, 1.0f / 3, 0},         // 3
      {5, 1, 0, 1, 0},                // as many as N, and no more
      {1, 0, 1, 1.0f / 3, 0},
  };
  v1::EntryHeader before;
  for (const auto& one : wanted) {
    v1::EntryHeader header = HeaderOf(before.version() + 1, std::vector<uint32_t>(one.updates, 0),
                                      std::vector<uint64_t>(one.updates, 10));
    AddStepScalars(spec, before.version() == 0 ? nullptr : &before, 0, &header);
    EXPECT_EQ(
        Told(header),
        (std::map<std::string, float>{
            {"due", one.due}, {"rest", one.rest}, {"share", one.share}, {"waiting", one.waiting}}))
        << header.version();
    EXPECT_TRUE(CheckStepScalars(spec, header).ok()) << CheckStepScalars(spec, header);
    before = header;
  }
}

// Would break: momentum is due again by somebody's own exp(), or never where updates are old.
TEST(StepScalars, CountAnOldUpdateAsTheShareThatItHas) {
  v1::RunSpec spec = LateSpec("async", "delayed_nesterov");
  spec.mutable_outer()->set_buffer(2);
  spec.mutable_mode()->set_age_decay_bits(Fp32(0.5f));
  v1::EntryHeader first = HeaderOf(1, {0, 2}, {10, 10});
  AddStepScalars(spec, nullptr, 0, &first);
  EXPECT_FLOAT_EQ(Told(first)["share"], 0.683939721f);  // (1 + 1/e) / 2
  EXPECT_FLOAT_EQ(Told(first)["waiting"], 1.36787944f);
  EXPECT_EQ(Told(first)["due"], 0);
  v1::EntryHeader second = HeaderOf(2, {0}, {10});
  AddStepScalars(spec, &first, 0, &second);
  EXPECT_EQ(Told(second)["due"], 1);
  EXPECT_FLOAT_EQ(Told(second)["waiting"], 0.36787944f);
  EXPECT_FLOAT_EQ(Told(second)["rest"], 0.18393972f);
  EXPECT_TRUE(CheckStepScalars(spec, first).ok() && CheckStepScalars(spec, second).ok());
}

// Would break: a coordinator could take the momentum twice of the same updates, or of none.
TEST(StepScalars, RefuseACountThatNoContributorsLeadTo) {
  v1::RunSpec spec = LateSpec("async", "delayed_nesterov");
  spec.mutable_outer()->set_buffer(4);
  v1::EntryHeader right = HeaderOf(3, {0, 0}, {10, 10});
  AddStepScalars(spec, nullptr, 0, &right);
  const auto told = [&](const std::string& name, float value) {
    v1::EntryHeader forged = right;
    for (v1::Scalar& scalar : *forged.mutable_scalars()) {
      if (scalar.name() == name) scalar.set_bits(Fp32(value));
    }
    return forged;
  };
  EXPECT_TRUE(CheckStepScalars(spec, told("waiting", 3)).ok()) << "one may have waited";
  EXPECT_THAT(CheckStepScalars(spec, told("waiting", 1)).message(),
              HasSubstr("scalar waiting is 1; by its contributors it must be from"));
  EXPECT_FALSE(CheckStepScalars(spec, told("waiting", 5)).ok());
  EXPECT_THAT(CheckStepScalars(spec, told("due", 0.5f)).message(), HasSubstr("due is 0.5"));
  EXPECT_THAT(CheckStepScalars(spec, told("rest", 0.5f)).message(),
              HasSubstr("scalar rest is 0.5; by what waits it is 0"));
  EXPECT_THAT(CheckStepScalars(spec, told("due", 1)).message(),
              HasSubstr("scalar rest is 0; by what waits it is 0.5"));
  EXPECT_FALSE(CheckStepScalars(spec, told("share", 1)).ok());
  v1::EntryHeader lacking = right;
  lacking.clear_scalars();
  EXPECT_FALSE(CheckStepScalars(spec, lacking).ok());
}

// Would break: an old mean would count like a new one, or the gate open again behind the cutoff.
TEST(StepScalars, DiscountAMeanByTheAgeOfItsTokens) {
  v1::RunSpec spec = LateSpec("async", "cgad");
  spec.mutable_mode()->set_age_decay_bits(Fp32(0.1f));
  spec.mutable_mode()->set_age_cutoff(8);
  v1::EntryHeader header = HeaderOf(4, {1, 5}, {300, 100});
  v1::Scalar* const rate = header.add_scalars();
  rate->set_name("learning_rate");
  AddStepScalars(spec, nullptr, 0, &header);
  EXPECT_EQ(Told(header)["age"], 2);  // (300 x 1 + 100 x 5) / 400
  // e^-0.2 x (1 + cos(pi / 4)) / 2
  EXPECT_FLOAT_EQ(Told(header)["discount"], 0.698830410f);
  EXPECT_EQ(header.scalars(0).name(), "age");
  EXPECT_EQ(header.scalars(2).name(), "learning_rate");
  EXPECT_TRUE(CheckStepScalars(spec, header).ok());
  header.mutable_contributors(0)->set_age(2);
  EXPECT_THAT(CheckStepScalars(spec, header).message(), HasSubstr("scalar age is 2"));
  v1::EntryHeader old = HeaderOf(4, {9}, {1});
  AddStepScalars(spec, nullptr, 0, &old);
  EXPECT_EQ(Told(old)["discount"], 0);
  EXPECT_TRUE(IsTooOld(spec, 8) && !IsTooOld(spec, 7));
  EXPECT_FALSE(IsTooOld(LateSpec("sync", "nesterov"), 100));
}

// Would break: nobody could recompute the gap from the log, or a coordinator that is started again
// would go on with another.
TEST(StepScalars, MakeTheGapOfTheHeaderBefore) {
  v1::RunSpec spec = LateSpec("delayed", "nesterov");
  spec.mutable_mode()->set_gap_penalty(true);
  v1::EntryHeader first = HeaderOf(1, {0}, {10});
  AddStepScalars(spec, nullptr, 16, &first);
  EXPECT_EQ(Told(first),
            (std::map<std::string, float>{{"gap", 1}, {"mean_length", 4}, {"usual_length", 4}}));
  v1::EntryHeader second = HeaderOf(2, {1}, {10});
  AddStepScalars(spec, &first, 196, &second);  // |D| = 14
  EXPECT_EQ(Told(second),
            (std::map<std::string, float>{{"gap", 2}, {"mean_length", 14}, {"usual_length", 5}}));
  v1::EntryHeader third = HeaderOf(3, {1}, {10});
  AddStepScalars(spec, &second, 0, &third);  // nobody tells it
  EXPECT_FLOAT_EQ(Told(third)["gap"], 3.8f);
  EXPECT_EQ(Told(third)["usual_length"], 5);
  v1::EntryHeader fourth = HeaderOf(4, {1}, {10});
  AddStepScalars(spec, &third, 1, &fourth);
  EXPECT_EQ(Told(fourth)["gap"], 1);
  for (const v1::EntryHeader* header : {&first, &second, &third, &fourth}) {
    EXPECT_TRUE(CheckStepScalars(spec, *header).ok());
  }
  v1::EntryHeader forged = second;
  forged.mutable_scalars(0)->set_bits(Fp32(0.5f));
  EXPECT_THAT(CheckStepScalars(spec, forged).message(), HasSubstr("scalar gap is 0.5"));
  EXPECT_THAT(CheckStepScalars(LateSpec("delayed", "nesterov"), second).message(),
              HasSubstr("no gap penalty"));
}

// Would break: a coordinator could say of single entries that momentum is clipped, or not.
TEST(StepScalars, ClipTheMomentumAsTheRunSays) {
  v1::RunSpec spec = LateSpec("delayed", "nesterov");
  const v1::RunSpec without = spec;
  spec.mutable_mode()->set_momentum_clip_bits(Fp32(0.25f));
  v1::EntryHeader header = HeaderOf(1, {0}, {10});
  EXPECT_THAT(CheckStepScalars(spec, header).message(), HasSubstr("momentum_clip is missing"));
  AddStepScalars(spec, nullptr, 0, &header);
  EXPECT_EQ(Told(header)["momentum_clip"], 0.25f);
  EXPECT_TRUE(CheckStepScalars(spec, header).ok());
  EXPECT_FALSE(CheckStepScalars(without, header).ok());
}

// Would break: runs without any of this get scalars, and other digests than they had.
TEST(StepScalars, AreNoneInOtherRuns) {
  const v1::RunSpec spec = LateSpec("sync", "nesterov");
  v1::EntryHeader header = HeaderOf(1, {0}, {10});
  AddStepScalars(spec, nullptr, 16, &header);
  EXPECT_EQ(header.scalars_size(), 0);
  EXPECT_TRUE(CheckStepScalars(spec, header).ok());
}

}  // namespace
}  // namespace atolld
