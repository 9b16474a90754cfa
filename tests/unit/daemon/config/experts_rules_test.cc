// What goes with owners of experts, and what does not: [experts].
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/config/config_rules.h"
#include "daemon/config/mode_resolution.h"
#include "daemon/config/run_record.h"
#include "membership/experts/expert_parts.h"
#include "tests/unit/daemon/config/config_file.h"

namespace atolld {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kMixture[] =
    "[model]\nkind = \"llama\"\nfamily = \"qwen3_moe\"\nexperts = 8\nexperts_per_token = 2\n";

std::string OwnedText(const std::string& more) {
  return absl::StrCat("[experts]\nowners = 2\n", more);
}

// Broken: the record would leave the patterns to the release that reads it, or a run without owners
// would get another digest.
TEST(ExpertsConfig, TheRecordHasThePatternsOfTheFamily) {
  const auto recorded = [](const std::string& text) {
    const absl::StatusOr<Config> config = ConfigFile().Load(text);
    EXPECT_TRUE(config.ok()) << config.status();
    return config.ok() ? MakeRunSpec(*config) : v1::RunSpec();
  };
  const v1::RunSpec qwen = recorded(absl::StrCat(kMixture, OwnedText("")));
  EXPECT_EQ(qwen.experts().owners(), 2u);
  EXPECT_THAT(qwen.experts().tensors(), ElementsAre("*.mlp.experts.#.*"));
  const v1::RunSpec mixtral = recorded(absl::StrCat(
      "[model]\nkind = \"llama\"\nfamily = \"mixtral\"\nexperts = 8\nexperts_per_token = 2\n",
      OwnedText("")));
  EXPECT_THAT(mixtral.experts().tensors(), ElementsAre("*.block_sparse_moe.experts.#.*"));
  const v1::RunSpec own = recorded(absl::StrCat(
      kMixture, OwnedText("tensors = \"*.experts.#.up_proj.*, *.experts.#.down*\"\n")));
  EXPECT_THAT(own.experts().tensors(), ElementsAre("*.experts.#.up_proj.*", "*.experts.#.down*"));
  EXPECT_FALSE(recorded(kMixture).has_experts());
  ConfigModel hub;
  hub.kind = kHuggingFaceKind;
  EXPECT_THAT(DefaultExpertTensors(hub), ElementsAre("*.experts.#.*"));
  EXPECT_THAT(DefaultExpertTensors(ConfigModel()), IsEmpty());
}

// Broken: a run would begin, or fail only at its first round, with a setting that needs whole
// updates.
TEST(ExpertsConfig, RefusesWhatNeedsWholeUpdates) {
  const std::pair<const char*, const char*> cases[] = {
      {"[mode]\nkind = \"streaming\"\n", "[mode] kind must be 'sync' or 'auto' with [experts]"},
      {"[mode]\nkind = \"async\"\n", "[mode] kind must be 'sync' or 'auto' with [experts]"},
      {"[data]\nprivate = true\n[privacy]\nmasked = true\n", "[privacy] masked must be false with"},
      {"[data]\nprivate = true\n[privacy]\nclip = 1\nnoise = 1\n", "[privacy] clip must be 0 with"},
      {"[inner]\noptimizer = \"sgd\"\ncontrol_variates = true\n",
       "[inner] control_variates must be false with"},
      {"[exchange]\naggregation = \"median\"\n", "[exchange] aggregation must be 'mean' with"},
      {"[exchange]\nplan = \"regions\"\n", "[exchange] plan must be 'flat' or 'auto' with"},
      {"[outer]\nrule = \"delayed_nesterov\"\n", "[outer] rule must be another than"},
      {"[parties]\nhosted = 4\n", "[parties] hosted must be 0 with"},
      {"[federation]\nparticipation = 0.5\n", "[federation] participation must be 1 with"},
  };
  for (const auto& [text, refused] : cases) {
    EXPECT_THAT(ConfigFile().ErrorOf(absl::StrCat(kMixture, OwnedText(""), text)),
                HasSubstr(refused));
  }
  for (const char* fine :
       {"[exchange]\nslow_codec = \"int4\"\n", "[exchange]\nerror_feedback = true\n",
        "[outer]\nrule = \"adam\"\n", "[federation]\ndrop = 0.1\n"}) {
    EXPECT_EQ(ConfigFile().ErrorOf(absl::StrCat(kMixture, OwnedText(""), fine)), "") << fine;
  }
}

// Broken: a model without experts, or with names that are not known, would be found out only when
// the first worker has started.
TEST(ExpertsConfig, RefusesAModelWithoutExperts) {
  EXPECT_THAT(ConfigFile().ErrorOf(OwnedText("")),
              HasSubstr("[experts] owners needs a mixture of experts, and a model of kind 'gpt' is "
                        "none: set [model] kind 'llama' or 'huggingface'"));
  EXPECT_THAT(ConfigFile().ErrorOf(OwnedText("[model]\nkind = \"llama\"\n")),
              HasSubstr("a model of kind 'llama' with [model] experts = 0 is none"));
  EXPECT_THAT(
      ConfigFile().ErrorOf(OwnedText("[model]\nkind = \"external\"\n")),
      HasSubstr("[model] kind must be 'llama' or 'huggingface' with [experts] owners above 0, not "
                "'external'"));
  EXPECT_THAT(
      ConfigFile().ErrorOf(absl::StrCat(kMixture, OwnedText("tensors = \"*.experts.*\"\n"))),
      HasSubstr("\"*.experts.*\" must have one #"));
  EXPECT_THAT(ConfigFile().ErrorOf("[experts]\ntensors = \"*.experts.#.*\"\n"),
              HasSubstr("[experts] tensors needs owners above 0"));
  EXPECT_EQ(ConfigFile().ErrorOf(OwnedText("tensors = \"part.#\"\n[model]\nkind = \"stub\"\n"
                                           "parameters = 4096\n")),
            "");
}

// Broken: a run would begin whose record its own peers refuse.
TEST(ExpertsConfig, PatternsAreFewAndShort) {
  std::string many = "*.experts.#.*";
  for (size_t i = 1; i <= kMostExpertPatterns; ++i) absl::StrAppend(&many, ",*.experts.#.*");
  EXPECT_THAT(ConfigFile().ErrorOf(
                  absl::StrCat(kMixture, OwnedText(absl::StrCat("tensors = \"", many, "\"\n")))),
              HasSubstr("[experts] tensors has 17 patterns; it must have at most 16"));
  const std::string longer = std::string(kLongestExpertPattern, '*') + "#";
  EXPECT_THAT(ConfigFile().ErrorOf(
                  absl::StrCat(kMixture, OwnedText(absl::StrCat("tensors = \"", longer, "\"\n")))),
              HasSubstr("a pattern has 257 characters; it must have at most 256"));
}

// Broken: adapters of attention alone would be found to be nobody's experts only when the first
// worker has started.
TEST(ExpertsConfig, AdaptersMustBeOfExperts) {
  const std::string lora =
      absl::StrCat(kMixture, "lora_rank = 4\nbase_digest = \"", std::string(64, 'a'), "\"\n");
  EXPECT_THAT(ConfigFile().ErrorOf(absl::StrCat(lora, OwnedText(""))),
              HasSubstr("[model] lora_targets must have gate_proj, up_proj or down_proj with"));
  EXPECT_EQ(ConfigFile().ErrorOf(
                absl::StrCat(lora, "lora_targets = \"q_proj,up_proj\"\n", OwnedText(""))),
            "");
}

// Broken: "auto" would ask for figures that it does not need, or choose a mode without owners.
TEST(ExpertsConfig, AutoIsSync) {
  const absl::StatusOr<Config> config = ConfigFile().Load(
      absl::StrCat("[run]\nid = \"r\"\n", kMixture,
                   OwnedText("[mode]\nkind = \"auto\"\n[coordinator]\ndir = \"c\"\n")),
      ConfigUse::kCoordinator);
  ASSERT_TRUE(config.ok()) << config.status();
  std::string because;
  const absl::StatusOr<v1::RunSpec> spec = SpecOf(*config, nullptr, &because);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_FALSE(spec->has_mode());
  EXPECT_THAT(because, HasSubstr("sync is the one mode in which experts have owners"));
}

// Adapters of rank 16, as `more` has them.
std::string SlicedText(const std::string& more) {
  return absl::StrCat("[model]\nlora_rank = 16\nbase_digest = \"", std::string(64, 'a'), "\"\n",
                      more);
}

// Broken: peers would not know from the record which tensors are slices, or a run whose adapters
// are whole would get another digest.
TEST(SlicesConfig, TheRecordHasTheSlices) {
  const auto recorded = [](const std::string& text) {
    const absl::StatusOr<Config> config = ConfigFile().Load(text);
    EXPECT_TRUE(config.ok()) << config.status();
    return config.ok() ? MakeRunSpec(*config) : v1::RunSpec();
  };
  const v1::RunSpec sliced = recorded(SlicedText("lora_slice = 4\n"));
  EXPECT_EQ(sliced.model().lora_slice(), 4u);
  EXPECT_EQ(sliced.experts().owners(), 0u);
  EXPECT_THAT(sliced.experts().tensors(), ElementsAre("*.slice#*"));
  EXPECT_TRUE(HasExperts(sliced));
  const v1::RunSpec whole = recorded(SlicedText(""));
  EXPECT_FALSE(whole.has_experts());
  EXPECT_FALSE(HasExperts(whole));
  EXPECT_TRUE(
      recorded(SlicedText("lora_slice = 4\n[worker]\nlora_rank = 8\n")).SerializeAsString() ==
      sliced.SerializeAsString())
      << "what a machine trains is its own";
}

// Broken: a run would begin whose adapters cannot be cut, or with a setting that needs whole
// updates.
TEST(SlicesConfig, RefusesWhatDoesNotGoTogether) {
  const std::pair<const char*, const char*> cases[] = {
      {"lora_slice = 3\n",
       "[model] lora_slice is 3; it must divide [model] lora_rank (16) and be "},
      {"lora_slice = 16\n", "and be less than that"},
      {"lora_slice = 32\n", "[model] lora_slice is 32; it must divide"},
      {"lora_slice = 4\nlocal = \"lm_head\"\n", "[model] local must be empty with [model] lora_"},
      {"lora_slice = 4\n[mode]\nkind = \"streaming\"\n",
       "[mode] kind must be 'sync' or 'auto' with"},
      {"lora_slice = 4\n[data]\nprivate = true\n[privacy]\nmasked = true\n",
       "[privacy] masked must be false with [model] lora_slice above 0"},
      {"lora_slice = 4\n[data]\nprivate = true\n[privacy]\nclip = 1\nnoise = 1\n",
       "[privacy] clip must be 0 with"},
      {"lora_slice = 4\n[inner]\noptimizer = \"sgd\"\ncontrol_variates = true\n",
       "[inner] control_variates must be false with"},
      {"lora_slice = 4\n[exchange]\naggregation = \"median\"\n",
       "[exchange] aggregation must be 'mean' with"},
      {"lora_slice = 4\n[exchange]\nplan = \"regions\"\n", "[exchange] plan must be 'flat' or"},
      {"lora_slice = 4\n[outer]\nrule = \"delayed_nesterov\"\n",
       "[outer] rule must be another than"},
      {"lora_slice = 4\n[parties]\nhosted = 4\n", "[parties] hosted must be 0 with"},
      {"lora_slice = 4\n[worker]\nlora_rank = 6\n",
       "[worker] lora_rank is 6; it must be a multiple of [model] lora_slice (4), at most [model] "
       "lora_rank (16)"},
      {"lora_slice = 4\n[worker]\nlora_rank = 20\n", "[worker] lora_rank is 20; it must be"},
  };
  for (const auto& [text, refused] : cases) {
    EXPECT_THAT(ConfigFile().ErrorOf(SlicedText(text)), HasSubstr(refused));
  }
  EXPECT_THAT(ConfigFile().ErrorOf("[model]\nlora_slice = 4\n"),
              HasSubstr("it must divide [model] lora_rank (0)"));
  for (const char* fine : {"", "[worker]\nlora_rank = 16\n", "[exchange]\nslow_codec = \"int4\"\n",
                           "[federation]\nparticipation = 0.5\n"}) {
    EXPECT_EQ(ConfigFile().ErrorOf(SlicedText(absl::StrCat("lora_slice = 4\n", fine))), "") << fine;
  }
}

// Broken: a machine's own file, which does not have the run's keys, would be refused; or a rank
// would be ignored without a word where it has no meaning.
TEST(SlicesConfig, AMachinesRankIsJudgedWhereTheRunIsKnown) {
  const std::string own =
      "[peer]\nid = \"p\"\ndir = \"d\"\n[data]\npath = \"x.txt\"\n[worker]\nlora_rank = 8\n";
  ConfigFile file;
  file.Write("x.txt", "text");
  EXPECT_EQ(file.ErrorOf(own, ConfigUse::kPeer), "");
  EXPECT_THAT(ConfigFile().ErrorOf(SlicedText("base = \"b\"\n[worker]\nlora_rank = 8\n[run]\nid = "
                                              "\"r\"\n[coordinator]\ndir = \"c\"\n"),
                                   ConfigUse::kCoordinator),
              HasSubstr("[worker] lora_rank is 8, and the run's adapters are whole"));
}

// Broken: zeros would be sent between slices, and nobody would know.
TEST(SlicesConfig, WarnsOfPadding) {
  Config config;
  config.model.kind = "llama";
  config.model.width = 64;
  config.model.layers = 2;
  config.model.lora_rank = 16;
  config.model.lora_slice = 4;
  config.exchange.chunk_elements = 4096;
  // Each slice has 2 layers x 2 modules x 4 ranks x (64 + 64) = 2,048 values.
  EXPECT_THAT(WarningOfPadding(config),
              HasSubstr("[exchange] chunk_elements is 4096: each slice begins at a chunk, and the "
                        "zeros between make an entry 1.75 times as long as the adapters"));
  config.model.width = 2048;
  config.model.heads = 16;
  EXPECT_EQ(WarningOfPadding(config), "");
}

// Broken: somebody would wait for memory to be saved in a run in which everybody owns everything.
TEST(ExpertsConfig, WarnsWhereAllOwnAll) {
  Config config;
  config.run.peers = 2;
  EXPECT_EQ(WarningOfOwners(config), "");
  config.experts.owners = 2;
  EXPECT_THAT(WarningOfOwners(config), HasSubstr("every peer owns all experts until more peers"));
  config.run.peers = 3;
  EXPECT_EQ(WarningOfOwners(config), "");
}

Config SmallExperts(uint32_t chunk_elements) {
  Config config;
  config.model.kind = "llama";
  config.model.decoder.family = "qwen3_moe";
  config.model.layers = 2;
  config.model.heads = 4;
  config.model.kv_heads = 2;
  config.model.width = 64;
  config.model.context = 64;
  config.model.vocabulary = 256;
  config.model.decoder.experts.count = 8;
  config.model.decoder.experts.per_token = 2;
  config.model.decoder.experts.hidden = 128;
  config.experts.owners = 2;
  config.exchange.chunk_elements = chunk_elements;
  return config;
}

// Broken: a run would send, hash and keep zeros, more of them than values, and nobody would know.
TEST(ExpertsConfig, WarnsOfPadding) {
  // Each of the 8 experts has 2 x 3 x 64 x 128 = 49,152 values, and the model 435,584.
  EXPECT_EQ(WarningOfPadding(SmallExperts(4096)), "");
  EXPECT_EQ(WarningOfPadding(SmallExperts(16384)), "");
  const std::string warning = WarningOfPadding(SmallExperts(65536));
  EXPECT_THAT(warning, HasSubstr("[exchange] chunk_elements is 65536"));
  EXPECT_THAT(warning, HasSubstr("an entry 1.32 times as long as the model"));
  EXPECT_THAT(warning, HasSubstr("with 16384 it is 1.02 times"));
  Config tiny = SmallExperts(65536);
  tiny.model.width = 16;
  tiny.model.decoder.experts.hidden = 4;
  EXPECT_THAT(WarningOfPadding(tiny),
              HasSubstr("too small for any value to make it less than 1.1"));
  Config everybody = SmallExperts(65536);
  everybody.experts.owners = 0;
  EXPECT_EQ(WarningOfPadding(everybody), "") << "the run has no owners";
  Config counted = SmallExperts(65536);
  counted.model.vocabulary = 0;
  counted.data.tokenizer = "chars";
  EXPECT_EQ(WarningOfPadding(counted), "") << "the model's size is not known";
}

}  // namespace
}  // namespace atolld
