#include "daemon/coordinator/aggregator_process.h"

#include <csignal>
#include <cstdint>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "compression/base/status_macros.h"
#include "daemon/config/config_text.h"
#include "daemon/identity/credentials.h"

namespace atolld {
namespace {

constexpr char kName[] = "aggregator";

constexpr absl::Duration kFirstPause = absl::Seconds(1);
constexpr absl::Duration kLongestPause = absl::Minutes(1);
// An aggregator that lived this long did not die of its settings.
constexpr absl::Duration kGrownUp = absl::Minutes(1);
// An aggregator that lived this long listens.
constexpr absl::Duration kSettled = absl::Seconds(5);

// Returns its last line, which says why; if an address that it cannot have is the reason, also what
// to set.
std::string WhyItEnded(const ExitStatus& status) {
  absl::string_view last_line = status.last_line;
  absl::ConsumePrefix(&last_line, "atolld: ");
  // Its config is the coordinator's to write, and that key is not the one to set.
  absl::ConsumePrefix(&last_line, "[peer] listen: ");
  if (last_line.empty()) return status.Text();
  const bool address = absl::StrContains(last_line, "cannot listen on");
  return absl::StrCat(last_line,
                      address ? "; give it another with [coordinator] aggregator_address" : "");
}

struct HostPort {
  std::string host;
  uint32_t port;
};

absl::StatusOr<HostPort> Split(const std::string& address) {
  const size_t colon = address.rfind(':');
  uint32_t port = 0;
  if (absl::StartsWith(address, "unix:") || colon == std::string::npos ||
      !absl::SimpleAtoi(address.substr(colon + 1), &port)) {
    return absl::InvalidArgumentError(absl::StrCat("'", address, "' has no port"));
  }
  return HostPort{address.substr(0, colon), port};
}

absl::StatusOr<std::string> AddressBeside(const Config::Coordinator& coordinator) {
  if (!coordinator.aggregator_address.empty()) return coordinator.aggregator_address;
  ASSIGN_OR_RETURN(const HostPort own, Split(coordinator.address));
  if (own.port == 0 || own.port >= 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", coordinator.address, "' has no next port for an aggregator"));
  }
  return absl::StrCat(own.host, ":", own.port + 1);
}

}  // namespace

absl::StatusOr<Config> AggregatorConfig(const Config& coordinator) {
  const std::string fix = "set [coordinator] aggregator_address";
  absl::StatusOr<std::string> address = AddressBeside(coordinator.coordinator);
  if (!address.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(address.status().message(), "; ", fix));
  }
  Config config = coordinator;
  config.coordinator = Config::Coordinator();
  config.coordinator.address = coordinator.coordinator.address;
  config.http = Config::Http();  // the coordinator's port is its own
  config.log.format = "text";    // its lines are messages of the coordinator's log
  config.peer = Config::Peer();
  config.peer.id = kName;
  config.peer.role = kAggregatorRoleName;
  config.peer.dir = absl::StrCat(coordinator.coordinator.dir, "/", kName);
  config.peer.advertise = *address;
  config.peer.listen = *address;
  // Where the coordinator listens on other names than it is dialled by, so does what is beside it.
  if (!coordinator.coordinator.listen.empty()) {
    const absl::StatusOr<HostPort> listened = Split(coordinator.coordinator.listen);
    const absl::StatusOr<HostPort> dialled = Split(*address);
    if (listened.ok() && dialled.ok()) {
      config.peer.listen = absl::StrCat(listened->host, ":", dialled->port);
    }
  }
  return config;
}

AggregatorProcess::AggregatorProcess(Env env, std::string program, const Config& coordinator,
                                     Authority* authority, OnTrouble on_trouble)
    : env_(env),
      program_(std::move(program)),
      coordinator_(coordinator),
      authority_(authority),
      on_trouble_(std::move(on_trouble)),
      pause_(kFirstPause, kLongestPause) {}

AggregatorProcess::~AggregatorProcess() = default;

void AggregatorProcess::Start() {
  const absl::StatusOr<Config> config = AggregatorConfig(coordinator_);
  absl::Status status = config.status();
  if (status.ok()) status = WriteConfig(*config);
  if (status.ok()) status = WriteIdentity(*config);
  if (!status.ok()) return Trouble(std::string(status.message()));
  config_path_ = config->peer.dir + "/config.toml";
  env_.log.Info(absl::StrCat("starting an aggregator at ", config->peer.advertise));
  Launch();
}

absl::Status AggregatorProcess::WriteConfig(const Config& config) const {
  RETURN_IF_ERROR(env_.files.MakeDirectories(config.peer.dir));
  const std::string text = FormatConfig(config);
  return WriteFileDurably(env_.files, config.peer.dir + "/config.toml", BytesOf(text));
}

absl::Status AggregatorProcess::WriteIdentity(const Config& config) const {
  if (authority_ == nullptr) return absl::OkStatus();
  return EnsureCredentials(env_.files, *authority_,
                           absl::StrCat(config.peer.dir, "/", kIdentityFolder), Role::kAggregator,
                           config.peer.id, env_.executor.WallTime());
}

void AggregatorProcess::Launch() {
  launched_ = env_.executor.Now();
  ChildProcess::Options options;
  options.arguments = {program_, "peer", "--config", config_path_};
  options.death_signal = SIGKILL;
  options.own_process_group = true;
  ChildProcess::Events events;
  events.on_output_line = events.on_error_line = [this](const std::string& line) {
    env_.log.Info(absl::StrCat("aggregator: ", line));
  };
  events.on_exit = [this](const ExitStatus& status) { OnExit(status); };
  absl::StatusOr<std::unique_ptr<ChildProcess>> process =
      ChildProcess::Spawn(env_.executor, std::move(options), std::move(events));
  if (!process.ok()) return Trouble(std::string(process.status().message()));
  process_ = *std::move(process);
  env_.executor.RunAfter(kSettled, guard_.Wrap([this, launch = ++launches_] {
    if (process_ != nullptr && launch == launches_ && on_trouble_) on_trouble_("");
  }));
}

void AggregatorProcess::Trouble(const std::string& why) const {
  env_.log.Error(absl::StrCat("no aggregator can be started: ", why));
  if (on_trouble_) on_trouble_(why);
}

void AggregatorProcess::OnExit(const ExitStatus& status) {
  process_.reset();
  if (status.ok()) return env_.log.Info("the aggregator has ended");
  if (env_.executor.Now() - launched_ >= kGrownUp) pause_.Reset();
  const absl::Duration pause = pause_.Next();
  if (on_trouble_) on_trouble_(WhyItEnded(status));
  env_.log.Warning(absl::StrCat("the aggregator is gone (", status.Text(),
                                "); starting it again in ", absl::FormatDuration(pause)));
  env_.executor.RunAfter(pause, guard_.Wrap([this] { Launch(); }));
}

}  // namespace atolld
