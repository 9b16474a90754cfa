// The table of keys, and what is written from it.
#include "daemon/config/config_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "daemon/config/config_text.h"
#include "daemon/config/run_record.h"
#include "tests/unit/daemon/config/change_value.h"
#include "tests/unit/daemon/config/config_file.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Runs in which every key counts for something in one of them.
std::vector<Config> ManyRuns() {
  Config rich;
  rich.model.kind = "llama";
  rich.model.lora_rank = 4;
  rich.inner.optimizer = "muon";
  rich.inner.schedule = "wsd";
  rich.inner.cooldown_steps = 5;
  rich.exchange.error_feedback = true;
  rich.exchange.aggregation = "trimmed_mean";
  Config stub;
  stub.model.kind = kStubKind;
  Config federated;
  federated.data.is_private = true;
  federated.outer.rule = "adam";
  federated.federation.weights = "loss";
  federated.privacy.clip = 1;
  federated.privacy.masked = true;
  federated.privacy.threshold = 3;
  federated.privacy.roster = 4;
  Config streaming;
  streaming.mode.kind = "streaming";
  Config delayed;
  delayed.mode.kind = "delayed";
  delayed.outer.rule = "delayed_nesterov";
  Config hub;
  hub.model.kind = kHuggingFaceKind;
  Config owned;
  owned.experts.owners = 2;
  return {Config(), rich, stub, federated, streaming, delayed, hub, owned};
}

TEST(ConfigTable, SaysWhichKeysTheRunRecords) {
  // Broken: the page would promise that a value is fixed for the run, or may be changed, and it is
  // not so.
  // What of these is recorded is read where the files are.
  const std::set<std::string> by_digest = {"[data] path", "[model] file", "[model] path",
                                           "[run] branch"};
  Config none;
  for (size_t index = 0; index < ConfigFields(none).size(); ++index) {
    bool recorded = false;
    std::string name;
    Recorded said = Recorded::kNo;
    for (Config config : ManyRuns()) {
      const std::string before = MakeRunSpec(config).SerializeAsString();
      const ConfigField field = ConfigFields(config)[index];
      ChangeValue(field);
      recorded |= MakeRunSpec(config).SerializeAsString() != before;
      name = field.Name();
      said = field.record.how;
    }
    if (by_digest.count(name) > 0) {
      EXPECT_EQ(said, Recorded::kInPart) << name;
    } else {
      EXPECT_EQ(recorded, said != Recorded::kNo) << name;
    }
  }
}

TEST(ConfigTable, EveryKeyIsExplained) {
  // Broken: somebody would have to read the code to know when to change a key.
  Config config;
  std::set<std::string> names;
  for (const ConfigField& field : ConfigFields(config)) {
    EXPECT_FALSE(field.meaning.empty()) << field.Name();
    EXPECT_NE(field.meaning.back(), '.') << field.Name();
    ASSERT_FALSE(field.advice.empty()) << field.Name();
    EXPECT_EQ(field.advice.back(), '.') << field.Name();
    EXPECT_TRUE(names.insert(field.Name()).second) << field.Name() << " stands there twice";
    if (const auto* number = std::get_if<WholeNumber>(&field.value)) {
      EXPECT_LT(number->minimum, number->maximum) << field.Name() << " has one legal value";
    }
    if (const auto* text = std::get_if<Text>(&field.value)) {
      EXPECT_NE(text->choices.size(), 1u) << field.Name() << " has one legal value";
    }
  }
}

TEST(ConfigTable, TheDefaultsAreACompleteFileThatIsValid) {
  // Broken: a file that users are told to begin with would be refused, or mean another run than an
  // empty one.
  ConfigFile file;
  const std::string text = PrintDefaultConfig();
  const absl::StatusOr<Config> read = file.Load(text);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(FormatConfig(*read), FormatConfig(*file.Load("")));
  Config config;
  for (const ConfigField& field : ConfigFields(config)) {
    EXPECT_THAT(text, HasSubstr(absl::StrCat(field.key, " = "))) << field.Name();
  }
  EXPECT_THAT(text, HasSubstr("\nrounds = 40\n"));
  EXPECT_THAT(text, HasSubstr("\n#path = \"\"\n"));          // has no default
  EXPECT_THAT(text, HasSubstr("\n#learning_rate = 0.7\n"));  // follows from rule and peers
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(text, '\n'))) {
    EXPECT_LE(line.size(), 100u) << line;
  }
}

TEST(ConfigTable, APrintedFileMeansTheSame) {
  // Broken: a file that was printed to see all that is in effect would be another run.
  for (const std::string& text :
       {std::string("[run]\npeers = 8\n[exchange]\ncodec = \"topk\"\n"),
        std::string("[outer]\nrule = \"average\"\n[peer]\nid = \"p\"\nkeep_bytes = \"20GB\"\n"),
        std::string("[model]\nkind = \"stub\"\nparameters = 5\n"),
        std::string("[model]\nkind = \"huggingface\"\ncontext = 9\n"),
        std::string("[model]\nkind = \"external\"\n")}) {
    ConfigFile file;
    const absl::StatusOr<Config> config = file.Load(text);
    ASSERT_TRUE(config.ok()) << config.status();
    const std::string printed = PrintConfig(*config);
    const absl::StatusOr<Config> read = file.Load(printed);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(PrintConfig(*read), printed);
    EXPECT_EQ(FormatConfig(*read), FormatConfig(*config));
  }
  ConfigFile file;
  const std::string printed = PrintConfig(*file.Load("[run]\npeers = 8\n[peer]\nid = \"p\"\n"));
  EXPECT_THAT(printed, HasSubstr("\nlearning_rate = 0.8\n"));
  // Where the default is from, and with a rule that the table does not know, nothing.
  const std::string unwrapped = absl::StrReplaceAll(printed, {{"\n# ", " "}});
  EXPECT_THAT(unwrapped, HasSubstr("The table's for this run: 0.8 / 0.9 (8 peers, 30 steps, adamw; "
                                   "arXiv:2503.09799, figure 7)."));
  EXPECT_THAT(PrintConfig(*file.Load("[outer]\nrule = \"average\"\n")),
              Not(HasSubstr("The table's")));
  EXPECT_THAT(PrintDefaultConfig(), Not(HasSubstr("The table's")));
  EXPECT_THAT(printed, HasSubstr("\nid = \"p\"\n"));
  EXPECT_THAT(printed, Not(HasSubstr("\ndir = ")));
}

TEST(ConfigTable, ThePageIsMadeFromIt) {
  // Broken: docs/config.md would tell of keys that are not there, or not of those that are.
  std::ifstream stream(ATOLL_CONFIG_PAGE, std::ios::binary);
  const std::string page(std::istreambuf_iterator<char>(stream), {});
  EXPECT_TRUE(page == ConfigMarkdown())
      << "docs/config.md differs from the table; write it anew with\n"
         "  atoll config print --markdown >docs/config.md";
  Config config;
  std::printf("docs/config.md: %zu keys\n", ConfigFields(config).size());
}

}  // namespace
}  // namespace atolld
