// Would break: a machine joins a run that it cannot take part in, or is told that all is well.
#include "daemon/fitness/preflight.h"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "daemon/cli/local_layout.h"
#include "daemon/fitness/kernel_fitness.h"
#include "daemon/transport/sockets.h"
#include "gmock/gmock.h"
#include "tests/unit/daemon/env/temporary_directory.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;
using Weight = Finding::Weight;

const absl::Time kNow = absl::FromUnixSeconds(1800000000);

std::string FreeAddress() { return absl::StrCat("127.0.0.1:", FreeLoopbackPort(0).value()); }

PreflightOptions Options(const TemporaryDirectory& directory) {
  PreflightOptions options;
  options.dir = directory.File("not/made/yet");
  options.coordinator = FreeAddress();
  options.now = kNow;
  options.no_earlier_than = kNow - absl::Minutes(5);
  return options;
}

Finding Of(const std::vector<Finding>& findings, const std::string& subject) {
  for (const Finding& finding : findings) {
    if (finding.line.rfind(subject + ": ", 0) == 0) return finding;
  }
  return {Weight::kFatal, "nothing said of " + subject};
}

TEST(Preflight, SaysWhatItFound) {
  const TemporaryDirectory directory;
  PreflightOptions options = Options(directory);
  const auto findings = Preflight(options);
  EXPECT_EQ(10u, findings.size());
  EXPECT_EQ(Weight::kGood, Of(findings, "clock").weight);
  EXPECT_NE(Weight::kFatal, Of(findings, "disk").weight) << Of(findings, "disk").line;
  EXPECT_THAT(Of(findings, "disk").line, HasSubstr("B free in "));
  EXPECT_EQ(Weight::kGood, Of(findings, "folder").weight) << Of(findings, "folder").line;
  EXPECT_THAT(Of(findings, "memory").line, HasSubstr("B free of "));
  EXPECT_THAT(Of(findings, "memory").line, ::testing::Not(HasSubstr("memory: 0 B")));
  // Nobody listens there; it may be on its way up.
  EXPECT_EQ(Weight::kDoubtful, Of(findings, "coordinator").weight);
  EXPECT_THAT(Of(findings, "coordinator").line, HasSubstr("refused"));
  EXPECT_EQ(Weight::kGood, Of(findings, "others").weight);
  EXPECT_THAT(Of(findings, "others").line, HasSubstr("dials out only"));
}

// Without a token or a config there is no coordinator to ask, and no clock to compare with.
TEST(Preflight, LooksAtTheMachineAlone) {
  const TemporaryDirectory directory;
  PreflightOptions options = Options(directory);
  options.coordinator.clear();
  options.no_earlier_than = absl::InfinitePast();
  std::vector<std::string> subjects;
  for (const Finding& finding : Preflight(options)) {
    subjects.push_back(finding.line.substr(0, finding.line.find(": ")));
  }
  EXPECT_THAT(subjects, ::testing::ElementsAre("disk", "folder", "memory", "processors",
                                               "open files", "processes", "threads", "others"));
}

// Broken: a container is told that it has the machine, and its workers fight for two cores.
TEST(Preflight, GoesByWhatTheProcessMayHave) {
  ProcessLimits limits;
  limits.cores = {2, 16, "cgroup cpu.max"};
  limits.memory = {uint64_t{3} << 30, uint64_t{4} << 30, "cgroup memory.max"};
  limits.descriptors = 4096;
  const auto good = CheckLimits(limits, 2);
  EXPECT_EQ("processors: 2 of 16 cores: cgroup cpu.max", Of(good, "processors").line);
  EXPECT_THAT(Of(good, "memory").line, testing::EndsWith(": cgroup memory.max"));
  EXPECT_EQ("open files: 4096 at a time", Of(good, "open files").line);
  for (const Finding& finding : good) EXPECT_EQ(Weight::kGood, finding.weight) << finding.line;
  limits.memory.free_bytes = uint64_t{100} << 20;
  limits.descriptors = 256;
  const auto doubtful = CheckLimits(limits, 3);
  for (const Finding& finding : doubtful) {
    EXPECT_EQ(Weight::kDoubtful, finding.weight) << finding.line;
  }
  EXPECT_THAT(Of(doubtful, "processors").line, HasSubstr("[worker] threads = 3 is more"));
  limits.descriptors = 4096;
  limits.file_bytes = 1 << 20;
  EXPECT_EQ(Weight::kDoubtful, Of(CheckLimits(limits, 1), "open files").weight);
}

[[noreturn]] void TellOfFewThreads() {
  rlimit little = {};
  little.rlim_cur = little.rlim_max = uint64_t{2} << 30;
  setrlimit(RLIMIT_AS, &little);
  const Finding few = Of(CheckKernel(1000), "threads");
  const bool told = few.weight == Weight::kFatal && few.line.find("only ") != std::string::npos &&
                    few.line.find("pids.max") != std::string::npos;
  _exit(told ? 7 : 1);
}

// Broken: a daemon is told that all is well where its worker could not be started.
TEST(Preflight, TriesWhatADaemonAsksOfTheKernel) {
  const auto findings = CheckKernel(ThreadsOfPeer(2));
  EXPECT_EQ(Weight::kGood, Of(findings, "processes").weight) << Of(findings, "processes").line;
  EXPECT_EQ(Weight::kGood, Of(findings, "threads").weight) << Of(findings, "threads").line;
  // Stacks count as memory of the process: with little of it left, few threads can run.
  EXPECT_EXIT(TellOfFewThreads(), ::testing::ExitedWithCode(7), "");
}

TEST(Preflight, WhereNothingCanBeWrittenNothingCanLive) {
  const TemporaryDirectory directory;
  PreflightOptions options = Options(directory);
  std::ofstream(directory.File("file")) << "x";
  options.dir = directory.File("file/atoll");
  const Finding file = Of(Preflight(options), "disk");
  EXPECT_EQ(Weight::kFatal, file.weight);
  EXPECT_THAT(file.line, HasSubstr("/file is not a folder"));
  options.dir = "/proc/sys/atoll";  // nobody may write there, whoever asks
  EXPECT_EQ(Weight::kFatal, Of(Preflight(options), "disk").weight);
}

TEST(Preflight, AsksTheWorkerWhatItWouldTrainOn) {
  const TemporaryDirectory directory;
  PreflightOptions options = Options(directory);
  const auto finding_of = [&](const std::string& script) {
    options.worker = directory.File("worker");
    std::ofstream(options.worker) << "#!/bin/sh\n" << script << "\n";
    std::filesystem::permissions(options.worker, std::filesystem::perms::owner_all);
    return Of(Preflight(options), "training");
  };
  const auto probed = [](int gpus) {
    return absl::StrCat(R"([ "$1" = probe ] && echo '{"gflops": 96.1, "kernel": "OpenBLAS X", )",
                        R"("threads": 2, "torch": "1.13.0", "gpus": )", gpus, "}'");
  };
  EXPECT_EQ("training: no GPU; 96 GFLOP/s on one thread of 2 (OpenBLAS X, libtorch 1.13.0)",
            finding_of(probed(0)).line);
  EXPECT_EQ(Weight::kGood, finding_of(probed(0)).weight);
  EXPECT_THAT(finding_of(probed(1)).line, HasSubstr(": 1 GPU; "));
  EXPECT_THAT(finding_of(probed(8)).line, HasSubstr(": 8 GPUs; "));
  // A run of workers of their own would still be one to join.
  for (const std::string script : {"echo no libtorch here >&2; exit 1", "echo '{}'", "echo"}) {
    EXPECT_EQ(Weight::kDoubtful, finding_of(script).weight) << script;
  }
  EXPECT_THAT(finding_of("echo no libtorch here >&2; exit 1").line,
              HasSubstr("no libtorch here; only a worker of your own can train here"));
}

TEST(Preflight, AClockThatIsBehindTheTokenIsFatal) {
  const TemporaryDirectory directory;
  PreflightOptions options = Options(directory);
  options.now = options.no_earlier_than - absl::Seconds(59);
  EXPECT_EQ(Weight::kGood, Of(Preflight(options), "clock").weight);
  options.now = options.no_earlier_than - absl::Minutes(50);
  const Finding finding = Of(Preflight(options), "clock");
  EXPECT_EQ(Weight::kFatal, finding.weight);
  EXPECT_THAT(finding.line, HasSubstr("at least 50:00 behind the coordinator's"));
}

TEST(Preflight, AnAddressThatLeadsElsewhereIsSaid) {
  const TemporaryDirectory directory;
  PreflightOptions options = Options(directory);
  options.advertise = FreeAddress();
  const Finding here = Of(Preflight(options), "others");
  EXPECT_EQ(Weight::kGood, here.weight) << here.line;
  EXPECT_THAT(here.line, HasSubstr("leads here"));
  // Listens at one port, and names another at which nobody does.
  options.patience = absl::Milliseconds(300);
  options.listen = FreeAddress();
  const Finding refused = Of(Preflight(options), "others");
  EXPECT_EQ(Weight::kDoubtful, refused.weight);
  EXPECT_THAT(refused.line, HasSubstr("may not reach this machine"));
  options.advertise = "no-such-host.invalid:1";
  EXPECT_EQ(Weight::kDoubtful, Of(Preflight(options), "others").weight);
  EXPECT_THAT(Of(Preflight(options), "others").line, HasSubstr("name not found"));
}

// The machine itself reaches them all; nobody else does.
TEST(Preflight, AnAddressThatOthersCannotDialIsFatal) {
  const TemporaryDirectory directory;
  PreflightOptions options = Options(directory);
  options.patience = absl::Milliseconds(300);
  options.listen = FreeAddress();
  const std::string port = options.listen.substr(options.listen.rfind(':'));
  for (const std::string host : {"0.0.0.0", "[::]"}) {
    options.advertise = host + port;
    const Finding wildcard = Of(Preflight(options), "others");
    EXPECT_EQ(Weight::kFatal, wildcard.weight) << wildcard.line;
    EXPECT_THAT(wildcard.line, HasSubstr("nobody can dial it; give a HOST:PORT"));
  }
  options.advertise = options.listen;
  EXPECT_EQ(Weight::kGood, Of(Preflight(options), "others").weight) << "all on this machine";
  options.coordinator.clear();
  EXPECT_EQ(Weight::kDoubtful, Of(Preflight(options), "others").weight) << "nobody says where";
  options.coordinator = "192.0.2.77:1";
  const Finding loopback = Of(Preflight(options), "others");
  EXPECT_EQ(Weight::kFatal, loopback.weight) << loopback.line;
  EXPECT_THAT(loopback.line, HasSubstr("from this machine alone"));
}

// What the token of another machine's run says, where nobody has set an address.
TEST(Preflight, ACoordinatorOnLoopbackThatIsNotThereIsExplained) {
  const TemporaryDirectory directory;
  const Finding finding = Of(Preflight(Options(directory)), "coordinator");
  EXPECT_THAT(finding.line, HasSubstr("connection refused: nothing listens there; that is this "
                                      "machine itself"));
  EXPECT_THAT(finding.line, HasSubstr("`atoll local --listen`"));
}

// Its port is its own then: nobody else can listen there to see whether the address leads here.
TEST(Preflight, OfADaemonThatRunsItAsksWhetherTheAddressAnswers) {
  const TemporaryDirectory directory;
  PreflightOptions options = Options(directory);
  options.runs = true;
  options.advertise = FreeAddress();
  EXPECT_EQ(Weight::kDoubtful, Of(Preflight(options), "others").weight);
  const auto listeners = ListenTcp(options.advertise);
  ASSERT_TRUE(listeners.ok()) << listeners.status();
  EXPECT_EQ(Weight::kGood, Of(Preflight(options), "others").weight);
  options.runs = false;
  EXPECT_EQ(Weight::kDoubtful, Of(Preflight(options), "others").weight);
}

TEST(Preflight, ClocksAreCompared) {
  const absl::Duration lead = absl::Hours(1);
  const auto compare = [&](absl::Duration off) {
    return CompareClocks(kNow + off, kNow - lead, lead);
  };
  EXPECT_EQ(Weight::kGood, compare(absl::Seconds(3)).weight);
  EXPECT_EQ(Weight::kGood, compare(-absl::Seconds(3)).weight);
  EXPECT_EQ(Weight::kDoubtful, compare(absl::Minutes(3)).weight);
  EXPECT_THAT(compare(absl::Minutes(3)).line, HasSubstr("3:00 ahead of the coordinator's"));
  EXPECT_THAT(compare(-absl::Minutes(3)).line, HasSubstr("3:00 behind the coordinator's"));
}

TEST(ReachProbe, FindsWhoListens) {
  const std::string address = FreeAddress();
  EXPECT_TRUE(absl::IsUnavailable(ProbeConnect(address, absl::Seconds(5)).status()));
  EXPECT_TRUE(ProbeOwnAddress(address, address, "nonce", absl::Seconds(5)).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(ProbeConnect("nowhere", absl::Seconds(1)).status()));
  EXPECT_TRUE(
      absl::IsUnavailable(ProbeOwnAddress(address, FreeAddress(), "nonce", absl::Seconds(1))));
}

}  // namespace
}  // namespace atolld
