#include "daemon/experiment/experiment_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "daemon/config/federation_config.h"
#include "daemon/experiment/run_plan.h"
#include "membership/privacy/accountant.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

constexpr char kRun[] =
    "[run]\nrounds = 4\n[model]\nkind = \"stub\"\nparameters = 1000\n[inner]\nsteps = 2\n";

absl::StatusOr<Experiment> Parsed(const std::string& text) {
  return ParseExperiment(text, "try.toml", "/tmp");
}

std::string ErrorOf(const std::string& text) {
  const absl::StatusOr<Experiment> experiment = Parsed(text);
  return experiment.ok() ? "" : std::string(experiment.status().message());
}

std::string PlanErrorOf(const std::string& text) {
  const absl::StatusOr<Experiment> experiment = Parsed(text);
  if (!experiment.ok()) return std::string(experiment.status().message());
  for (size_t i = 0; i < experiment->settings.size(); ++i) {
    const absl::StatusOr<RunPlan> plan = PlanRun(*experiment, i, 1, std::nullopt);
    if (!plan.ok()) return std::string(plan.status().message());
  }
  return "";
}

TEST(ExperimentFileTest, ReadsWhatAnExperimentIs) {
  // Broken: a key of the file would be ignored, or mean something else.
  const auto experiment = Parsed(absl::StrCat(
      "[experiment]\nname = \"e\"\nseeds = [3, 1]\nparties = 4\njobs = 2\nin = \"lab\"\n"
      "target_loss = 2.5\n[faults]\nkill_every = \"2m\"\n[[ramp]]\nround = 2\npeers = 8\n"
      "[[ramp]]\nround = 3\npeers = 2\n[links]\n\"party-1\" = {up = \"2Mbit\"}\n"
      "default = {up = \"20Mbit\", down = \"100Mbit\", delay = \"30ms\", loss = 0.5}\n",
      kRun));
  ASSERT_TRUE(experiment.ok()) << experiment.status();
  EXPECT_EQ(experiment->name, "e");
  EXPECT_EQ(experiment->seeds, (std::vector<uint64_t>{3, 1}));
  EXPECT_EQ(experiment->jobs, 2u);
  EXPECT_EQ(experiment->place, "lab");
  EXPECT_EQ(experiment->target_loss, 2.5);
  EXPECT_EQ(experiment->keys.parties, 4u);
  EXPECT_EQ(experiment->keys.ramp, "2:8,3:2");
  EXPECT_EQ(experiment->keys.faults.kill_every, absl::Minutes(2));
  ASSERT_EQ(experiment->links.size(), 2u);
  EXPECT_EQ(experiment->links[0].pattern, "default");
  EXPECT_EQ(experiment->links[0].down, 12500000u);
  EXPECT_EQ(experiment->links[0].delay, absl::Milliseconds(30));
  EXPECT_EQ(experiment->links[1].up, 250000u);
  ASSERT_EQ(experiment->settings.size(), 1u);
  EXPECT_EQ(experiment->settings[0].name, "e");
}

TEST(ExperimentFileTest, NameIsTheFilesByDefault) {
  // Broken: two experiments without a name would share a folder.
  const auto experiment = Parsed(absl::StrCat("[experiment]\n", kRun));
  ASSERT_TRUE(experiment.ok()) << experiment.status();
  EXPECT_EQ(experiment->name, "try");
}

TEST(ExperimentFileTest, GridAndSettingsAreCombinedInTheFilesOrder) {
  // Broken: a combination would be missing, or run under a wrong name.
  const auto experiment = Parsed(
      absl::StrCat("[experiment]\n[grid]\n\"outer.rule\" = [\"nesterov\", \"average\"]\n"
                   "inner.steps = [1, 2]\n[[setting]]\nname = \"A\"\n[[setting]]\nname = \"B\"\n"
                   "\"exchange.codec\" = \"bf16\"\n",
                   kRun));
  ASSERT_TRUE(experiment.ok()) << experiment.status();
  std::vector<std::string> names;
  for (const ExperimentSetting& setting : experiment->settings) names.push_back(setting.name);
  EXPECT_THAT(names, ::testing::ElementsAre(
                         "A, rule = nesterov, steps = 1", "A, rule = nesterov, steps = 2",
                         "A, rule = average, steps = 1", "A, rule = average, steps = 2",
                         "B, rule = nesterov, steps = 1", "B, rule = nesterov, steps = 2",
                         "B, rule = average, steps = 1", "B, rule = average, steps = 2"));
  EXPECT_EQ(experiment->settings[4].changes.size(), 3u);
}

TEST(ExperimentFileTest, ErrorsNameTheLineAndTheNearestName) {
  // Broken: somebody would have to search a file for what is wrong with it.
  const std::string head = "[experiment]\n";
  const std::pair<std::string, std::string> wrong[] = {
      {"[run]\nrounds = 3\n", "try.toml:1: there is no [experiment]"},
      {head + "partys = 3\n",
       "try.toml:2: unknown key 'partys' in [experiment]; did you mean "
       "'parties'?"},
      {head + "seeds = 3\n", "try.toml:2: [experiment] seeds must be a list"},
      {head + "seeds = [1, 1]\n", "try.toml:2: [experiment] seeds must be a list"},
      {head + "in = \"cloud\"\n", "try.toml:2: [experiment] in must be"},
      {head + "[gird]\n", "try.toml:2: unknown section [gird]; did you mean 'grid'?"},
      {head + "[grid]\n\"outer.ruel\" = [1]\n",
       "try.toml:3: unknown key 'ruel' in [outer]; did you mean 'rule'?"},
      {head + "[grid]\n\"outr.rule\" = [1]\n",
       "try.toml:3: unknown section 'outr' in \"outr.rule\"; did you mean 'outer'?"},
      {head + "[grid]\n\"outer.rule\" = \"average\"\n", "must be a list of the values to try"},
      {head + "[grid]\nrule = [1]\n", "'rule' is not a key of a section"},
      {head + "[grid]\n\"run.seed\" = [1]\n",
       "try.toml:3: a setting cannot change run.seed: [experiment] seeds says it"},
      {head + "[[setting]]\n\"inner.steps\" = 3\n", "try.toml:2: a [[setting]] needs a name"},
      {head + "[[setting]]\nname = \"a\"\n[[setting]]\nname = \"a\"\n",
       "two settings are called 'a'"},
      {head + "[[ramp]]\nround = 0\npeers = 0\n", "try.toml:2: a step of the ramp is"},
      {head + "[links]\ndefault = {upp = \"2Mbit\"}\n", "try.toml:3: unknown key 'upp' in [links]"},
      {head + "[faults]\nkill_every = 3\n", "try.toml:3: [faults] kill_every must be"},
      {head + "[run]\nrounds = three\n", "try.toml:3: [run] rounds must be a whole number"},
  };
  for (const auto& [text, message] : wrong) {
    EXPECT_THAT(ErrorOf(text), HasSubstr(message)) << text;
  }
}

TEST(ExperimentFileTest, ARunsRulesHoldForEverySetting) {
  // Broken: a setting that no daemon takes would be found out after the others have run for hours,
  // or with the line of a file that nobody wrote.
  const std::string text = absl::StrCat("[experiment]\nparties = 2\n", kRun,
                                        "[grid]\n\"exchange.codec\" = [\"int8\", \"int9\"]\n");
  EXPECT_THAT(PlanErrorOf(text), HasSubstr("try.toml:11: [exchange] codec"));
  // A line of the run's own sections keeps its number though the experiment's are taken out.
  EXPECT_THAT(PlanErrorOf("[experiment]\nparties = 2\n[grid]\n\"inner.steps\" = [\n  1,\n  2,\n]\n"
                          "[run]\nrounds = 3\n[model]\nkind = \"stub\"\n"),
              HasSubstr("try.toml:11: [model] parameters is missing"));
}

TEST(ExperimentFileTest, APlanIsTheRunOfItsSettingAndSeed) {
  // Broken: settings or seeds would run as one another.
  const auto experiment = Parsed(absl::StrCat(
      "[experiment]\nparties = 6\nseeds = [5]\n", kRun,
      "[[setting]]\nname = \"Long steps\"\n\"inner.steps\" = 9\n\"experiment.parties\" = 3\n"
      "\"faults.pause_every\" = \"90s\"\n\"outer.learning_rate\" = 0.5\n"
      "\"exchange.error_feedback\" = true\n"));
  ASSERT_TRUE(experiment.ok()) << experiment.status();
  const auto plan = PlanRun(*experiment, 0, 5, std::nullopt);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->id, "01-long-steps-seed-5");
  EXPECT_EQ(plan->config.run.id, plan->id);
  EXPECT_EQ(plan->config.run.seed, 5u);
  EXPECT_EQ(plan->config.run.peers, 3u);
  EXPECT_EQ(plan->config.inner.steps, 9u);
  EXPECT_EQ(plan->config.outer.learning_rate, 0.5);
  EXPECT_TRUE(plan->config.exchange.error_feedback);
  EXPECT_EQ(plan->keys.faults.pause_every, absl::Seconds(90));
}

TEST(ExperimentFileTest, HostsShareThePartiesEvenly) {
  // Broken: parties would be hosted twice, or by nobody.
  const std::string rest = absl::StrCat(kRun, "[data]\npath = \"/tmp\"\nprivate = true\n");
  const auto experiment = Parsed(absl::StrCat("[experiment]\nparties = 1000\nhosts = 2\n", rest));
  ASSERT_TRUE(experiment.ok()) << experiment.status();
  const auto plan = PlanRun(*experiment, 0, 1, PartyData{"/tmp", "", 1000});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->config.run.peers, 2u);
  EXPECT_EQ(plan->config.parties.hosted, 500u);
  EXPECT_THAT(PlanErrorOf(absl::StrCat("[experiment]\nparties = 1000\nhosts = 3\n", rest)),
              HasSubstr("hosts must divide the 1000 parties, and 3 does not"));
  // Hosts number their parties through; a run that began elsewhere would leave some out.
  EXPECT_THAT(PlanErrorOf(absl::StrCat("[experiment]\nparties = 1000\nhosts = 2\n", rest,
                                       "[parties]\nfirst = 7\n")),
              HasSubstr("[parties] first is 7"));
}

TEST(ExperimentFileTest, RampsAreChecked) {
  // Broken: `atoll local` would refuse a ramp when the experiment has run for hours.
  EXPECT_THAT(PlanErrorOf(absl::StrCat("[experiment]\nparties = 4\nramp = \"8:2,4:4\"\n", kRun)),
              HasSubstr("the rounds of a ramp must ascend"));
  EXPECT_EQ(PlanErrorOf(absl::StrCat("[experiment]\nparties = 4\nramp = \"2:2\"\n", kRun)), "");
}

TEST(ExperimentFileTest, EveryExampleIsTaken) {
  // Broken: an experiment of configs/experiments would be refused after a key has changed.
  size_t examples = 0;
  for (const auto& entry : std::filesystem::directory_iterator(ATOLL_EXPERIMENTS)) {
    if (entry.path().extension() != ".toml") continue;
    ++examples;
    const auto experiment = ReadExperiment(entry.path().string());
    ASSERT_TRUE(experiment.ok()) << experiment.status();
    for (size_t i = 0; i < experiment->settings.size(); ++i) {
      const auto plan = PlanRun(*experiment, i, 1, std::nullopt);
      // The text is made by scripts/gcide, and the only thing that may be missing.
      const bool taken =
          plan.ok() || absl::StrContains(plan.status().message(), "gcide.txt' does not exist");
      EXPECT_TRUE(taken) << plan.status();
    }
  }
  EXPECT_GE(examples, 10u);
}

TEST(ExperimentFileTest, TheNoiseOfThePrivacyExampleKeepsItsEpsilon) {
  // Broken: a setting would spend more than the epsilon that it is called by, or waste noise.
  const auto experiment = ReadExperiment(absl::StrCat(ATOLL_EXPERIMENTS, "/privacy.toml"));
  ASSERT_TRUE(experiment.ok()) << experiment.status();
  EXPECT_THAT(experiment->run_text, HasSubstr("\nrounds = 50\n"));
  EXPECT_THAT(experiment->run_text, HasSubstr("\nsampling = 0.02\n"));
  size_t private_ones = 0;
  for (const ExperimentSetting& setting : experiment->settings) {
    absl::string_view name = setting.name;
    double budget = 0;
    if (!absl::ConsumePrefix(&name, "epsilon ") || !absl::SimpleAtod(name, &budget)) continue;
    ++private_ones;
    double noise = 0;
    for (const SettingChange& change : setting.changes) {
      if (change.Name() == "privacy.noise") noise = std::get<double>(change.value);
    }
    const auto spent = [](double z) {
      return PrivacyAccountant().EpsilonAfter(0.02, z, 50, PrivacyConfig().delta);
    };
    EXPECT_LE(spent(noise), budget) << setting.name;
    EXPECT_GT(spent(noise - 0.01), budget) << setting.name;
  }
  EXPECT_EQ(private_ones, 3u);
}

TEST(ExperimentFileTest, SpeedsAreOfTheExperimentOrOfASetting) {
  // Broken: a setting would run on other machines than the table says.
  const auto experiment = Parsed(
      absl::StrCat("[experiment]\nparties = 4\nspeeds = [1, 2.5]\n", kRun,
                   "[grid]\n\"experiment.speeds\" = [[2], []]\n[[setting]]\nname = \"A\"\n"));
  ASSERT_TRUE(experiment.ok()) << experiment.status();
  EXPECT_EQ(experiment->keys.speeds, "1,2.5");
  ASSERT_EQ(experiment->settings.size(), 2u);
  const auto slow = PlanRun(*experiment, 0, 1, std::nullopt);
  ASSERT_TRUE(slow.ok()) << slow.status();
  EXPECT_EQ(slow->keys.speeds, "2");
  EXPECT_EQ(PlanRun(*experiment, 1, 1, std::nullopt)->keys.speeds, "");

  const auto wrong = [](const std::string& speeds, const std::string& run) {
    return PlanErrorOf(absl::StrCat("[experiment]\nparties = 2\nspeeds = ", speeds, "\n", run));
  };
  EXPECT_THAT(wrong("[1, 0.5]", kRun), HasSubstr("speeds say how many times slower each machine"));
  EXPECT_THAT(wrong("[1, 0.5]", kRun), HasSubstr("not '0.5'"));
  EXPECT_THAT(wrong("[inf]", kRun), HasSubstr("not 'inf'"));
  EXPECT_THAT(wrong("[1, [2]]", kRun), HasSubstr("not 'something that is not a number'"));
  EXPECT_THAT(wrong("[true]", kRun), HasSubstr("not 'something that is not a number'"));
  EXPECT_THAT(wrong("4", kRun), HasSubstr("try.toml:3: [experiment] speeds must be"));
  EXPECT_THAT(wrong("[2]",
                    "[run]\nrounds = 3\n[worker]\nprogram = \"/bin/true\"\n"
                    "[model]\nkind = \"external\"\n"),
              HasSubstr("a model of kind 'external' has another worker"));
}

TEST(ExperimentFileTest, PathNamesArePlain) {
  // Broken: a setting's name would make a path that a shell splits, or two ids that are too long.
  EXPECT_EQ(PathName("FedProx, mu = 0.01"), "fedprox-mu-0-01");
  EXPECT_EQ(PathName("../../etc"), "etc");
  EXPECT_EQ(PathName("ä"), "setting");
  EXPECT_LE(PathName(std::string(100, 'x')).size(), 32u);
}

}  // namespace
}  // namespace atolld
