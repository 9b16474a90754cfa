// Would break: a joiner finds out what it lacks when its token is spent, or brings what the run's
// peers would have given it.
#include "daemon/fitness/run_needs.h"

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "daemon/config/config.h"
#include "daemon/env/posix_files.h"
#include "daemon/replica/state/run_file_copy.h"
#include "gmock/gmock.h"
#include "membership/history/run_files.h"
#include "tests/unit/daemon/env/temporary_directory.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;
using Weight = Finding::Weight;

class RunNeedsTest : public ::testing::Test {
 protected:
  RunNeedsTest() {
    run_.mutable_spec()->set_run_id("r1");
    run_.mutable_spec()->set_rounds(40);
    run_.mutable_spec()->mutable_model()->set_kind("gpt");
    run_.mutable_spec()->mutable_data()->set_kind("text");
    run_.set_begun(true);
    run_.set_version(12);
    run_.set_role("peer");
    brought_.data = Write("books.txt", "text");
  }

  std::string Write(const std::string& name, const std::string& content) {
    std::ofstream(directory_.File(name)) << content;
    return directory_.File(name);
  }

  void List(const std::string& role, const std::string& path, uint64_t bytes = 0) {
    v1::RunFile listed = ListFile(files_, path, role).value();
    if (bytes > 0) listed.set_bytes(bytes);
    *run_.mutable_spec()->add_files() = listed;
  }

  // The finding that begins so; fatal where there is none.
  Finding Of(const std::string& subject) {
    for (const Finding& finding : CheckNeeds(files_, run_, brought_, memory_)) {
      if (finding.line.rfind(subject + ": ", 0) == 0) return finding;
    }
    return {Weight::kFatal, "nothing said of " + subject};
  }

  void Expect(const std::string& subject, Weight weight, const std::string& text) {
    const Finding finding = Of(subject);
    EXPECT_EQ(weight, finding.weight) << finding.line;
    EXPECT_THAT(finding.line, HasSubstr(text));
  }

  TemporaryDirectory directory_;
  PosixFiles files_;
  v1::RunDescription run_;
  Brought brought_;
  MemoryLimit memory_;
};

TEST_F(RunNeedsTest, SaysBeforehandWhetherTheModelFitsIntoMemory) {
  v1::ModelSpec& model = *run_.mutable_spec()->mutable_model();
  model.set_kind(kStubKind);
  model.set_parameters(250'000'000);
  Expect("memory", Weight::kGood, "the daemon needs up to 5.0 GB for 250,000,000 parameters");
  memory_.free_bytes = 6'000'000'000;
  Expect("memory", Weight::kGood, "beside the training");
  memory_.free_bytes = 1'500'000'000;
  Expect("memory", Weight::kDoubtful,
         "1.5 GB are free. With [peer] values_in = \"disk\" it needs up to 3.0 GB");
}

// Broken: a joiner hears of the daemon's memory alone, and its worker is killed; or it is told that
// something fits which does not.
TEST_F(RunNeedsTest, SaysBeforehandWhatTrainingNeeds) {
  v1::ModelSpec& model = *run_.mutable_spec()->mutable_model();
  model.set_layers(4);
  model.set_heads(4);
  model.set_width(128);
  model.set_context(256);
  model.set_vocabulary(256);
  run_.mutable_spec()->mutable_inner()->set_optimizer("adamw");
  run_.mutable_spec()->mutable_inner()->set_batch(32);
  Expect("training memory", Weight::kGood, "a worker needs about 624 MB on the CPU");
  memory_.free_bytes = 2'000'000'000;
  Expect("training memory", Weight::kGood,
         "fits into what is free beside the daemon (2.0 GB in all)");
  memory_.free_bytes = 400'000'000;
  Expect("training memory", Weight::kDoubtful,
         "It would fit with accumulation = 4, which needs 315 MB, which [worker] memory chooses");
  memory_.free_bytes = 100'000'000;
  Expect("training memory", Weight::kDoubtful, "a machine with more, or a smaller model");

  TrainingRoom room;
  room.limit_bytes = 400'000'000;
  Finding finding = TrainingFinding(run_.spec(), room, *FitInto(run_.spec(), room));
  EXPECT_EQ(finding.weight, Weight::kGood);
  EXPECT_THAT(finding.line, HasSubstr("fits into [worker] memory = 400 MB with accumulation = 4"));
  room.limit_bytes = 200'000'000;
  finding = TrainingFinding(run_.spec(), room, *FitInto(run_.spec(), room));
  EXPECT_EQ(finding.weight, Weight::kFatal);
  room.device = "cuda";
  EXPECT_FALSE(FitInto(run_.spec(), room).has_value());
}

TEST_F(RunNeedsTest, DataIsWhatEachMachineBrings) {
  Expect("run", Weight::kGood, "r1, a model of kind gpt, version 12 of 40");
  Expect("data", Weight::kGood, "books.txt");
  brought_.data = directory_.File("none");
  Expect("data", Weight::kFatal, "no such file or folder");
  brought_.data.clear();
  Expect("data", Weight::kFatal, "name it with --data");
  run_.mutable_spec()->mutable_data()->add_weights(0.5);
  run_.mutable_spec()->mutable_data()->add_weights(0.5);
  Expect("data", Weight::kFatal, "2 files or folders with commas");
  brought_.data = Write("a", "a") + ", " + Write("b", "b");
  Expect("data", Weight::kGood, "a");
  run_.mutable_spec()->mutable_model()->set_kind(kStubKind);  // it reads none
  brought_.data = directory_.File("none");
  Expect("data", Weight::kFatal, "no such file or folder");
  brought_.data.clear();
  EXPECT_EQ(1u, CheckNeeds(files_, run_, brought_, memory_).size());
  run_.mutable_spec()->mutable_model()->set_kind("gpt");
  run_.set_role("aggregator");
  EXPECT_EQ(1u, CheckNeeds(files_, run_, {}, memory_).size());
}

TEST_F(RunNeedsTest, ATokenizerComesFromThePeersUnlessItIsTooLarge) {
  run_.mutable_spec()->mutable_data()->set_tokenizer("file");
  Expect("tokenizer", Weight::kFatal, "name it with --tokenizer");  // of an older release
  run_.set_begun(false);
  Expect("tokenizer", Weight::kDoubtful, "comes with version 0");
  run_.set_begun(true);
  const std::string file = Write("tokenizer.json", "{}");
  List(kTokenizerRole, file);
  Expect("tokenizer", Weight::kGood, "tokenizer.json (0.0 kB) comes from the run's peers");
  brought_.tokenizer = file;
  Expect("tokenizer", Weight::kGood, file);
  brought_.tokenizer = Write("other.json", "[]");
  Expect("tokenizer", Weight::kFatal, "differs from the run's tokenizer.json");
  brought_.tokenizer = directory_.File("none.json");
  Expect("tokenizer", Weight::kFatal, "none.json");
  brought_.tokenizer.clear();
  run_.mutable_spec()->mutable_files(0)->set_bytes(kLargestRunFile + 1);
  Expect("tokenizer", Weight::kFatal, "larger than the 64 MiB");
  Expect("tokenizer", Weight::kFatal, "--tokenizer");
}

TEST_F(RunNeedsTest, ABaseIsKnownByItsDigest) {
  const std::string base = Write("base.safetensors", "parameters");
  run_.mutable_spec()->mutable_model()->set_base_digest(DigestOfFile(base).value());
  Expect("base", Weight::kFatal, "with --base");
  brought_.base = base;
  Expect("base", Weight::kGood, base);
  brought_.base = Write("other", "others");
  Expect("base", Weight::kFatal, "the run's adapters are of SHA-256");
  run_.mutable_spec()->mutable_model()->clear_base_digest();
  Expect("base", Weight::kDoubtful, "--base is not used");
}

TEST_F(RunNeedsTest, AFolderOfHuggingFacesIsKnownByItsConfig) {
  // Broken: a token would be spent by a machine that lacks the model, or has another one.
  run_.mutable_spec()->mutable_model()->set_kind(kHuggingFaceKind);
  Expect("model", Weight::kFatal, "name its folder with --base");
  brought_.base = directory_.path();
  Expect("model", Weight::kFatal, "not a folder with a config.json");
  const std::string config = Write("config.json", "{}");
  Expect("model", Weight::kGood, directory_.path());
  run_.mutable_spec()->mutable_model()->set_file_digest(DigestOfFile(config).value());
  Expect("model", Weight::kGood, directory_.path());
  Write("config.json", "{\"hidden_size\": 1}");
  Expect("model", Weight::kFatal, "differs from the run's");
}

TEST_F(RunNeedsTest, AProgramIsTheFileOrTheWorker) {
  run_.mutable_spec()->mutable_model()->set_kind(kTorchScriptKind);
  List(kProgramRole, Write("model.pt", "program"));
  Expect("program", Weight::kGood, "comes from the run's peers");
  run_.mutable_spec()->mutable_model()->set_kind(kExternalKind);
  run_.mutable_spec()->clear_files();
  Expect("program", Weight::kFatal, "with --program");
  brought_.program = Write("train.py", "");
  Expect("program", Weight::kGood, "train.py");
}

// Broken: whoever joins too late only waits.
TEST_F(RunNeedsTest, ARunThatIsOverSaysHowItEndedAndWhoHasItsModel) {
  run_.mutable_seal()->set_version(12);
  run_.set_validation_loss(2.25);
  run_.add_holders("a");
  Expect("run", Weight::kDoubtful, "r1 is over: it was stopped at version 12 of 40");
  Expect("run", Weight::kDoubtful, "only fetches its model, from a");
  run_.clear_holders();
  run_.add_past_holders("a");
  run_.add_past_holders("b");
  Expect("run", Weight::kFatal, "validation loss 2.2500 nats a byte");
  Expect("run", Weight::kFatal, "it lies with a, b, where `atoll export`");
}

}  // namespace
}  // namespace atolld
