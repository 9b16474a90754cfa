// A worker as a process: what is known of one that does not start, and the socket it finds.
#include "daemon/peer/worker_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/env/posix_executor.h"
#include "daemon/env/posix_files.h"
#include "tests/unit/daemon/env/temporary_directory.h"

namespace atolld {
namespace {

constexpr absl::Duration kWorkerLimit = absl::Seconds(30);

class SilentLog final : public atolld::Log {
 public:
  void Write(atolld::Log::Level, absl::string_view) override {}
};

// Nobody calls; a file stands where the socket would.
class FileTransport final : public Transport {
 public:
  class Place final : public Listener {
   public:
    explicit Place(std::string path) : path_(std::move(path)) { std::ofstream(path_) << ""; }
    ~Place() override { std::filesystem::remove(path_); }
    std::string address() const override { return "unix:" + path_; }

   private:
    const std::string path_;
  };

  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address,
                                                   Acceptor accept) override {
    ++listens;
    acceptor = std::move(accept);
    if (!refusal.ok()) return refusal;
    return std::make_unique<Place>(address.substr(5));
  }
  std::unique_ptr<Call> Dial(const std::string&, const std::string&, absl::Duration) override {
    return nullptr;
  }

  int listens = 0;
  absl::Status refusal;
  Acceptor acceptor;
};

// The call of a worker that says hello and nothing else.
class HelloCall final : public Call {
 public:
  HelloCall(Executor& executor, uint32_t protocol, std::vector<v1::DaemonMessage>* told)
      : executor_(executor), told_(told) {
    hello_.mutable_hello()->set_protocol(protocol);
  }
  void Start(Events events) override { events_ = std::move(events); }
  void Read() override {
    if (std::exchange(said_, true)) return;
    executor_.Post(guard_.Wrap([this] { events_.on_frame(Pack(hello_)); }));
  }
  void Write(Frame frame) override {
    told_->emplace_back();
    EXPECT_TRUE(Unpack(frame, &told_->back()).ok());
  }
  size_t unsent_bytes() const override { return 0; }
  void Finish(absl::Status) override {}
  uint64_t sent_bytes() const override { return 0; }
  std::string remote() const override { return "unix:"; }
  std::optional<Identity> identity() const override { return std::nullopt; }

 private:
  Executor& executor_;
  std::vector<v1::DaemonMessage>* const told_;
  v1::WorkerMessage hello_;
  Events events_;
  bool said_ = false;
  CallbackGuard guard_;
};

class WorkerProcessTest : public ::testing::Test {
 protected:
  void Start(const std::string& script, double slower = 1, const std::string& sharding = "none") {
    const std::string program = dir_.File("worker");
    std::ofstream(program) << "#!/bin/sh\n" << script << "\n";
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
    WorkerProcess::Settings settings;
    settings.program = program;
    settings.slower = slower;
    settings.sharding = sharding;
    settings.memory = memory_;
    settings.lora_rank = lora_rank_;
    settings.system_root = system_root_;
    settings.socket = absl::StrCat("unix:", dir_.File("worker.sock"));
    worker_ = std::make_unique<WorkerProcess>(Env{executor_, files_, transport_, log_}, settings);
    worker_->Start(spec_, {nullptr, nullptr,
                           [this](const absl::Status& why) { lost_.emplace_back(why.message()); }});
  }
  // What one of this protocol is told; nothing: it was ended.
  std::vector<v1::DaemonMessage> ToldOne(uint32_t protocol) {
    executor_.Post([&] {
      transport_.acceptor("/atolld.v1.Worker/Attach",
                          std::make_unique<HelloCall>(executor_, protocol, &told_));
    });
    EXPECT_TRUE(executor_.RunUntil([&] { return !told_.empty() || !lost_.empty(); }, kWorkerLimit));
    return told_;
  }
  bool RunToLoss(size_t count) {
    return executor_.RunUntil([&] { return lost_.size() >= count; }, kWorkerLimit);
  }

  TemporaryDirectory dir_;
  std::string system_root_;
  uint64_t memory_ = 0;
  uint32_t lora_rank_ = 0;
  PosixExecutor executor_{PosixExecutor::Options()};
  PosixFiles files_;
  FileTransport transport_;
  SilentLog log_;
  v1::RunSpec spec_;
  std::vector<v1::DaemonMessage> told_;
  std::unique_ptr<WorkerProcess> worker_;
  std::vector<std::string> lost_;
};

TEST_F(WorkerProcessTest, OneThatNeverStartsIsToldWithItsLastLine) {
  // Broken: the run would wait for ever, and why would stand in this peer's log alone.
  Start("echo first >&2; echo libtorch_cpu.so is missing >&2; echo >&2; exit 127");
  ASSERT_TRUE(RunToLoss(2));  // it is started again, and told again
  EXPECT_EQ(lost_[0], "exit code 127: libtorch_cpu.so is missing");
  EXPECT_EQ(lost_[1], lost_[0]);
}

TEST_F(WorkerProcessTest, OneThatTheKernelKillsForMemoryIsToldAsThat) {
  // Broken: nobody learns that the model does not fit; "killed by signal 9" is all that is said.
  std::filesystem::create_directories(dir_.File("proc/self"));
  std::ofstream(dir_.File("proc/vmstat")) << "oom_kill 4\n";
  std::ofstream(dir_.File("proc/meminfo")) << "MemTotal: 2097152 kB\nMemAvailable: 9 kB\n";
  system_root_ = dir_.path();
  Start(absl::StrCat("echo oom_kill 5 > ", dir_.File("proc/vmstat"), "; kill -9 $$"));
  ASSERT_TRUE(RunToLoss(2));
  EXPECT_EQ(lost_[0],
            "the kernel killed it for want of memory (/proc/vmstat: oom_kill 5); the limit is 2.0 "
            "GiB, by what the machine has; give it more, or lower [inner] batch, or raise [inner] "
            "accumulation");
  EXPECT_EQ(lost_[1], "killed by signal 9 (Killed)");  // no kill was counted for this one
}

TEST_F(WorkerProcessTest, OneIsToldHowSlowItsMachineIs) {
  // Broken: all machines would be equally fast, whatever the config says; or a worker that knows
  // nothing of it would not start.
  Start("shift 2; echo \"told $*\" >&2; exit 1", 2.5);
  ASSERT_TRUE(RunToLoss(1));
  EXPECT_EQ(lost_[0], "exit code 1: told --slower 2.5");
  worker_.reset();
  lost_.clear();
  Start("shift 2; echo \"told $*\" >&2; exit 1");
  ASSERT_TRUE(RunToLoss(1));
  EXPECT_EQ(lost_[0], "exit code 1: told");
  worker_.reset();
  lost_.clear();
  spec_.mutable_model()->set_kind("external");
  Start("exit 1", 2.5);
  ASSERT_TRUE(RunToLoss(1));
  EXPECT_EQ(lost_[0], "[worker] slower must be 1 with a model of kind 'external'");
}

TEST_F(WorkerProcessTest, AMachineTrainsRanksThatTheRunHas) {
  // Broken: a machine would train more or other ranks than its owner has said, without a word.
  lora_rank_ = 6;
  spec_.mutable_model()->set_lora_rank(16);
  spec_.mutable_model()->set_lora_slice(4);
  Start("exit 1");
  ASSERT_TRUE(RunToLoss(1));
  EXPECT_EQ(lost_[0],
            "[worker] lora_rank is 6; it must be a multiple of [model] lora_slice (4), at most "
            "[model] lora_rank (16)");
}

TEST_F(WorkerProcessTest, OneIsToldHowToFitIntoItsMemory) {
  // Broken: the kernel kills the worker although the config limits it; or a worker that cannot fit
  // is started again and again.
  v1::ModelSpec& model = *spec_.mutable_model();
  model.set_kind("gpt");
  model.set_layers(4);
  model.set_heads(4);
  model.set_width(128);
  model.set_context(256);
  model.set_vocabulary(256);
  spec_.mutable_inner()->set_optimizer("adamw");
  spec_.mutable_inner()->set_batch(32);
  memory_ = 400'000'000;
  Start("exec sleep 1000");
  const std::vector<v1::DaemonMessage> told = ToldOne(2);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].configure().spec().inner().accumulation(), 4u);
  EXPECT_FALSE(told[0].configure().spec().inner().checkpointing());
  worker_.reset();
  memory_ = 200'000'000;
  Start("exit 1");
  ASSERT_TRUE(RunToLoss(1));
  EXPECT_EQ(lost_.back(),
            "the training needs about 0.62 GB, and 0.23 GB even with the smallest pieces and "
            "checkpointing, and may have 0.2 GB by [worker] memory");
}

TEST_F(WorkerProcessTest, OneIsToldThatItsDevicesHoldOneModel) {
  // Broken: each device would hold a whole model, which may not fit; or a worker that divides
  // nothing would be told to.
  spec_.mutable_model()->set_kind("huggingface");
  Start("shift 2; echo \"told $*\" >&2; exit 1", 1, "full");
  ASSERT_TRUE(RunToLoss(1));
  EXPECT_EQ(lost_[0], "exit code 1: told --sharding full");
  worker_.reset();
  lost_.clear();
  spec_.mutable_model()->set_kind("external");
  Start("exit 1", 1, "full");
  ASSERT_TRUE(RunToLoss(1));
  EXPECT_EQ(lost_[0], "[worker] sharding must be 'none' with a model of kind 'external'");
}

TEST_F(WorkerProcessTest, ASocketThatWasTakenAwayIsBoundAgain) {
  // Broken: after a clean-up of temporary files no worker would ever connect again.
  Start(absl::StrCat("rm ", dir_.File("worker.sock"), "; exit 1"));
  ASSERT_TRUE(RunToLoss(3));
  EXPECT_GE(transport_.listens, 3);
}

TEST_F(WorkerProcessTest, OneThatIsToPauseEndsAndIsStartedWhenItMay) {
  // Broken: a machine that its owner needs would train on, or its end would be taken for a failure
  // and mended.
  const std::string lives = dir_.File("lives");
  // What a file or /proc says wakes no loop.
  const auto until = [&](const std::function<bool()>& holds) {
    const absl::Time end = executor_.Now() + kWorkerLimit;
    while (!holds() && executor_.Now() < end) {
      executor_.RunUntil([] { return false; }, absl::Milliseconds(10));
    }
    return holds();
  };
  const auto started = [&] {
    std::ifstream in(lives);
    return std::count(std::istreambuf_iterator<char>(in), {}, '\n');
  };
  Start(absl::StrCat("echo $$ >> ", lives, "; exec sleep 1000"));
  ASSERT_TRUE(until([&] { return started() == 1; }));
  worker_->Pause();
  std::string pid;
  std::ifstream(lives) >> pid;
  ASSERT_TRUE(until([&] { return !std::filesystem::exists("/proc/" + pid); }));
  worker_->Pause();
  EXPECT_FALSE(executor_.RunUntil([&] { return started() > 1; }, absl::Milliseconds(300)));
  EXPECT_TRUE(lost_.empty());
  worker_->Resume();
  ASSERT_TRUE(until([&] { return started() == 2; }));
  worker_->Pause();  // and it may again before it has ended
  worker_->Resume();
  ASSERT_TRUE(until([&] { return started() == 3; }));
  EXPECT_TRUE(lost_.empty());
}

TEST_F(WorkerProcessTest, ASocketThatStaysIsBoundOnce) {
  // Broken: each start would break the call of a worker that is still there.
  Start("exit 1");
  ASSERT_TRUE(RunToLoss(3));
  EXPECT_EQ(transport_.listens, 1);
}

TEST_F(WorkerProcessTest, ASocketThatCannotBeBoundIsTold) {
  // Broken: the same silence.
  transport_.refusal = absl::FailedPreconditionError("the address is in use");
  Start("exit 0");
  ASSERT_TRUE(RunToLoss(1));
  EXPECT_EQ(lost_[0], "the worker's socket: the address is in use");
}

TEST_F(WorkerProcessTest, OneThatKnowsNoModesIsEndedWhereTheRunHasOne) {
  // Broken: it would train from theta whatever it is told, and nobody would see why the run learns
  // badly.
  spec_.mutable_mode()->set_kind("eager");
  Start("exec sleep 1000");
  EXPECT_TRUE(ToldOne(1).empty());
  ASSERT_EQ(lost_.size(), 1u);
  EXPECT_THAT(lost_[0], ::testing::HasSubstr("it speaks protocol 1 (WorkerHello.protocol), and "
                                             "[mode] kind = 'eager' needs 2"));
}

TEST_F(WorkerProcessTest, OneThatKnowsModesIsToldTheRun) {
  // Broken: no worker would ever serve such a run.
  spec_.mutable_mode()->set_kind("streaming");
  Start("exec sleep 1000");
  const std::vector<v1::DaemonMessage> told = ToldOne(2);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].configure().spec().mode().kind(), "streaming");
  EXPECT_TRUE(lost_.empty());
}

TEST_F(WorkerProcessTest, AnOldOneServesARunWithoutAMode) {
  // Broken: every worker that a user has written would end with the next release.
  Start("exec sleep 1000");
  const std::vector<v1::DaemonMessage> told = ToldOne(1);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_TRUE(told[0].has_configure());
  EXPECT_TRUE(lost_.empty());
}

}  // namespace
}  // namespace atolld
