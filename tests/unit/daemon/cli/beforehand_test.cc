// Would break: everything is started, and every worker fails for a reason that could be seen
// before.
#include "daemon/cli/beforehand.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/unit/daemon/env/temporary_directory.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

class BeforehandTest : public ::testing::Test {
 protected:
  BeforehandTest() {
    config_.data.path = directory_.File("text.txt");
    std::ofstream(config_.data.path) << "some text";
    config_.model.context = 64;
  }

  // What stands for atoll-worker.
  std::string Worker(const std::string& script) {
    const std::string path = directory_.File("worker");
    std::ofstream(path) << "#!/bin/sh\n" << script << "\n";
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path;
  }
  std::string Found(const std::string& train, const std::string& validation,
                    const std::string& vocabulary) {
    return Worker("echo '{\"train_tokens\": " + train + ", \"validation_tokens\": " + validation +
                  ", \"vocabulary\": " + vocabulary + "}'");
  }
  std::string WhatIsWrong(const std::string& worker, ConfigUse use = ConfigUse::kLocal) {
    Config config = config_;
    return std::string(InspectData(worker, &config, use).status().message());
  }

  TemporaryDirectory directory_;
  Config config_;
};

TEST_F(BeforehandTest, EverySplitHasASequence) {
  EXPECT_EQ(WhatIsWrong(Found("65", "65", "256")), "");
  EXPECT_THAT(WhatIsWrong(Found("64", "65", "256")),
              HasSubstr("the training split has 64 tokens; a sequence of [model] context = 64 "
                        "needs 65"));
  EXPECT_THAT(WhatIsWrong(Found("65", "64", "256")), HasSubstr("the validation split has 64"));
  config_.data.validation_fraction = 0;
  EXPECT_EQ(WhatIsWrong(Found("65", "0", "256")), "");
}

// Broken: a run of small parties would start or not by which of them has number 1.
TEST_F(BeforehandTest, OnePrivateSourceMayBeShorterThanTheContext) {
  config_.data.is_private = true;
  EXPECT_EQ(WhatIsWrong(Found("18", "2", "256")), "");
  EXPECT_EQ(WhatIsWrong(Found("2", "0", "256")), "");
  EXPECT_THAT(WhatIsWrong(Found("1", "0", "256")),
              HasSubstr("the training split has 1 token; a party trains from two tokens on"));
  // Of several sources each must fill a sequence.
  config_.data.sources = config_.data.path + ":0.5," + config_.data.path + ":0.5";
  config_.data.path.clear();
  EXPECT_THAT(WhatIsWrong(Found("18", "2", "256")), HasSubstr("context = 64 needs 65"));
  EXPECT_EQ(WhatIsWrong(Found("65", "0", "256")), "");
}

TEST_F(BeforehandTest, TheVocabularyHoldsEveryId) {
  config_.model.vocabulary = 100;
  EXPECT_EQ(WhatIsWrong(Found("999", "999", "100")), "");
  EXPECT_THAT(WhatIsWrong(Found("999", "999", "101")),
              HasSubstr("has token ids up to 100; [model] vocabulary = 100 must be more"));
  config_.model.vocabulary = 0;
  config_.data.tokenizer = kCharTokenizer;
  Config counted = config_;
  const auto found = InspectData(Found("999", "888", "77"), &counted, ConfigUse::kLocal);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(counted.model.vocabulary, 77u);
  EXPECT_TRUE(found->read);
  EXPECT_EQ(found->train_tokens, 999u);
}

TEST_F(BeforehandTest, WhatTheWorkerCannotReadIsSaidInItsWords) {
  EXPECT_EQ(WhatIsWrong(Worker("echo 'atoll-worker: data: a.txt is not UTF-8' >&2; exit 1")),
            "data: a.txt is not UTF-8");
  config_.model.kind = kStubKind;
  EXPECT_EQ(WhatIsWrong(Worker("exit 1")), "");  // it reads none
}

TEST_F(BeforehandTest, TheWorkerComparesTheTokenizerWithTheModels) {
  const std::string compares = Worker(
      "case \"$*\" in *'--initial /m/a.safetensors --base /m/b.safetensors'*) "
      "echo 'atoll-worker: initial: another tokenizer' >&2; exit 1;; esac; "
      "echo '{\"train_tokens\": 99, \"validation_tokens\": 99, \"vocabulary\": 256}'");
  EXPECT_EQ(WhatIsWrong(compares), "");
  config_.model.initial = "/m/a.safetensors";
  config_.model.base = "/m/b.safetensors";
  EXPECT_EQ(WhatIsWrong(compares), "initial: another tokenizer");
  EXPECT_EQ(WhatIsWrong(compares, ConfigUse::kAny), "initial: another tokenizer");
  // The run's tokenizer comes to it later.
  EXPECT_EQ(WhatIsWrong(compares, ConfigUse::kPeer), "");
}

TEST_F(BeforehandTest, TheDevicesAreThere) {
  const std::string none = Worker("echo \"atoll-worker: no GPU for $3\" >&2; exit 1");
  EXPECT_TRUE(CheckDevices(none, config_).ok());  // "auto" fits every machine
  config_.worker.device = "mps";
  EXPECT_EQ(std::string(CheckDevices(none, config_).message()), "no GPU for mps");
  config_.worker.device = "cuda:3";
  EXPECT_EQ(std::string(CheckDevices(none, config_).message()), "no GPU for cuda:3");
  EXPECT_TRUE(CheckDevices(Worker("exit 0"), config_).ok());
  config_.worker.program = "/mine";
  EXPECT_TRUE(CheckDevices(none, config_).ok());
}

TEST_F(BeforehandTest, TheModelFitsIntoMemory) {
  config_.worker.device = "cpu";
  MemoryLimit memory{1, uint64_t{1} << 30, "cgroup memory.max"};
  EXPECT_TRUE(CheckFits(config_, 4, memory).ok());
  config_.model.width = 4096;
  config_.model.layers = 8;
  EXPECT_THAT(std::string(CheckFits(config_, 2, memory).message()),
              HasSubstr("this process may have 1.1 GB (cgroup memory.max)"));
  EXPECT_THAT(std::string(CheckFits(config_, 2, memory).message()),
              HasSubstr("[peer] values_in = \"disk\" keeps 8 bytes a parameter out of it"));
  config_.worker.device = "cuda";
  EXPECT_FALSE(CheckFits(config_, 2, memory).ok());
  config_.peer.values_in = "disk";
  EXPECT_TRUE(CheckFits(config_, 2, memory).ok());
  memory.bytes = 0;  // nothing is known
  EXPECT_TRUE(CheckFits(config_, 2, memory).ok());
}

// Broken: a local run starts, and its workers refuse one after another.
TEST_F(BeforehandTest, TheTrainingFitsIntoTheWorkersMemory) {
  config_.model.layers = 4;
  config_.model.heads = 4;
  config_.model.width = 128;
  config_.model.context = 256;
  config_.inner.batch = 32;
  EXPECT_TRUE(CheckTrainingFits(config_).ok());  // no limit
  config_.worker.memory = 400'000'000;
  EXPECT_TRUE(CheckTrainingFits(config_).ok());
  config_.worker.memory = 200'000'000;
  EXPECT_THAT(std::string(CheckTrainingFits(config_).message()),
              HasSubstr("may have 0.2 GB by [worker] memory: raise it"));
}

}  // namespace
}  // namespace atolld
