// Would break: a machine joins a run that it cannot take part in, or is told that all is well.
#include "daemon/cli/preflight.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "daemon/cli/local_layout.h"
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
  EXPECT_EQ(5u, findings.size());
  EXPECT_EQ(Weight::kGood, Of(findings, "clock").weight);
  EXPECT_NE(Weight::kFatal, Of(findings, "disk").weight) << Of(findings, "disk").line;
  EXPECT_THAT(Of(findings, "disk").line, HasSubstr("B free in "));
  EXPECT_THAT(Of(findings, "memory").line, HasSubstr("B free; processors: "));
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
  EXPECT_THAT(subjects, ::testing::ElementsAre("disk", "memory", "others"));
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
