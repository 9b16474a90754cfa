// What the table of keys says of the run's record.
#include "daemon/config/run_record.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "absl/base/casts.h"
#include "absl/strings/str_split.h"
#include "daemon/config/config_table.h"
#include "tests/unit/daemon/config/change_value.h"

namespace atolld {
namespace {

uint32_t Bits(float value) { return absl::bit_cast<uint32_t>(value); }

TEST(RunRecord, EachKeyHasAFieldOfItsOwnThatThereIs) {
  // Broken: a daemon would abort at the first run, or two keys would write over each other.
  Config config;
  std::set<std::string> fields;
  for (const ConfigField& key : ConfigFields(config)) {
    if (key.record.field.empty()) continue;
    EXPECT_EQ(key.record.how, Recorded::kYes) << key.Name();
    EXPECT_TRUE(fields.insert(key.record.field).second) << key.record.field;
    const google::protobuf::Descriptor* type = v1::RunSpec::descriptor();
    for (const std::string& name :
         std::vector<std::string>(absl::StrSplit(key.record.field, '.'))) {
      ASSERT_NE(type, nullptr) << key.record.field;
      const auto* const field = type->FindFieldByName(name);
      ASSERT_NE(field, nullptr) << key.record.field;
      type = field->message_type();
    }
  }
  EXPECT_GE(fields.size(), 60u);
}

TEST(RunRecord, EachConditionNamesAKeyThatThereIs) {
  // Broken: a daemon would abort as it reads any config.
  Config config;
  std::set<std::string> keys;
  for (const ConfigField& key : ConfigFields(config)) keys.insert(key.section + "." + key.key);
  for (const ConfigField& key : ConfigFields(config)) {
    for (const KeyCondition* const one : {&key.record.when, &key.only_with}) {
      EXPECT_TRUE(one->key.empty() || keys.count(one->key) > 0) << key.Name();
    }
    EXPECT_TRUE(key.only_with.key.empty() || !key.only_with.values.empty()) << key.Name();
  }
}

TEST(RunRecord, ValuesAreWrittenInTheirFieldsUnits) {
  // Broken: all peers would train with another value than the file has.
  Config config;
  config.inner.step_time = absl::Milliseconds(20);
  config.inner.learning_rate = 0.004;
  config.outer.learning_rate = 0.7;
  config.federation.participation = 0.25;
  config.mode.kind = "delayed";
  config.mode.age_decay = 0.5;
  config.mode.age_cutoff = 3;
  const v1::RunSpec spec = MakeRunSpec(config);
  EXPECT_EQ(spec.inner().step_microseconds(), 20000u);
  EXPECT_EQ(spec.inner().learning_rate(), 0.004);
  EXPECT_EQ(spec.outer().learning_rate_bits(), Bits(0.7f));
  EXPECT_EQ(spec.federation().participation_bits(), Bits(0.25f));
  EXPECT_EQ(spec.mode().kind(), "delayed");
  EXPECT_EQ(spec.mode().age_decay_bits(), Bits(0.5f));
  EXPECT_EQ(spec.mode().age_cutoff(), 3u);
}

TEST(RunRecord, WhatHasNoMeaningIsLeftOut) {
  // Broken: a run that does not use a feature would get another digest for its default.
  v1::RunSpec spec = MakeRunSpec(Config());
  EXPECT_FALSE(spec.has_mode());
  EXPECT_FALSE(spec.has_federation());
  EXPECT_FALSE(spec.has_privacy());
  // Broken: a coordinator would find other settings than those that its run was made with.
  Config whole;
  whole.evaluation.tokens = 0;
  whole.evaluation.every_rounds = 0;
  EXPECT_TRUE(MakeRunSpec(whole).has_evaluation());
  EXPECT_EQ(spec.inner().muon_momentum(), 0);
  EXPECT_EQ(spec.inner().precision(), "");
  Config config;
  config.mode.kind = "streaming";
  spec = MakeRunSpec(config);
  EXPECT_EQ(spec.mode().fragments(), 1u);
  EXPECT_EQ(spec.mode().merge_bits(), Bits(0.5f));
}

TEST(RunRecord, EachKeyIsRefusedWhereItHasNoMeaning) {
  // Broken: somebody would wait for the effect of a key that has none.
  Config none;
  size_t conditional = 0;
  for (size_t i = 0; i < ConfigFields(none).size(); ++i) {
    Config config;
    const std::vector<ConfigField> keys = ConfigFields(config);
    const KeyCondition& condition = keys[i].only_with;
    if (condition.key.empty()) continue;
    ++conditional;
    std::string* other = nullptr;
    for (const ConfigField& key : keys) {
      if (key.section + "." + key.key == condition.key) other = std::get<Text>(key.value).at;
    }
    ASSERT_NE(other, nullptr) << keys[i].Name();
    *other = "another";
    ChangeValue(keys[i]);
    const ConfigFault found = FaultOfMisplacedKey(config);
    ASSERT_FALSE(found.keys.empty()) << keys[i].Name();
    EXPECT_EQ(found.keys.front().second, keys[i].key);
    EXPECT_NE(found.what.find(condition.values.front()), std::string::npos) << found.what;
    *other = condition.values.back();
    EXPECT_EQ(FaultOfMisplacedKey(config).what, "") << keys[i].Name();
  }
  EXPECT_GE(conditional, 14u);
}

TEST(RunRecord, AKeyWithoutAMeaningIsNamedWithWhatItNeeds) {
  // Broken: somebody would wait for the effect of a key that has none.
  EXPECT_EQ(FaultOfMisplacedKey(Config()).what, "");
  Config config;
  config.mode.age_cutoff = 3;
  const ConfigFault found = FaultOfMisplacedKey(config);
  EXPECT_EQ(found.what, "[mode] age_cutoff is for kind 'delayed' or 'async' alone, not 'sync'");
  ASSERT_EQ(found.keys.size(), 2u);
  EXPECT_EQ(found.keys[0].second, "age_cutoff");
  EXPECT_EQ(found.keys[1].second, "kind");
  config.mode.kind = "async";
  EXPECT_EQ(FaultOfMisplacedKey(config).what, "");
}

}  // namespace
}  // namespace atolld
