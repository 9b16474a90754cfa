#include "daemon/bench/exchange_bench.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "compression/base/check.h"
#include "compression/base/process_limits.h"
#include "compression/base/status_macros.h"
#include "compression/base/words.h"
#include "compression/wire_codec.h"
#include "daemon/bench/exchange_bench_peer.h"
#include "daemon/env/child_process.h"
#include "daemon/env/posix_executor.h"
#include "daemon/env/posix_files.h"
#include "daemon/env/scratch_folder.h"
#include "daemon/identity/credentials.h"

namespace atolld {
namespace {

// Several processes on few cores may each draw 64M values.
constexpr absl::Duration kPeersStartPatience = absl::Minutes(5);
// The time before the end of a pause.
constexpr double kAwakeSeconds = 0.5;
// The descriptor from which a peer reads its orders.
constexpr int kOrdersDescriptor = 3;

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

// Measures how busy all cores of this machine were between two moments, whatever used them, from
// /proc/stat, in hundredths of a second.
class MachineLoad {
 public:
  MachineLoad();  // the first moment

  // Since then, of all cores' time the share that was not idle, 0 to 1; negative: not known.
  double BusyShare() const;

 private:
  struct Times {
    uint64_t all = 0;
    uint64_t idle = 0;  // and waiting for a disk
  };
  static Times Now();

  const Times first_;
};

MachineLoad::MachineLoad() : first_(Now()) {}

double MachineLoad::BusyShare() const {
  const Times now = Now();
  if (now.all <= first_.all) return -1;
  const uint64_t idle = now.idle - first_.idle;
  return 1 - static_cast<double>(idle) / static_cast<double>(now.all - first_.all);
}

// Parses "cpu  user nice system idle iowait irq softirq steal guest guest_nice"; guests are part of
// user.
MachineLoad::Times MachineLoad::Now() {
  std::ifstream stat("/proc/stat");
  std::string name;
  Times times;
  if (!(stat >> name)) return times;
  uint64_t hundredths = 0;
  for (int field = 0; field < 8 && stat >> hundredths; ++field) {
    times.all += hundredths;
    if (field == 3 || field == 4) times.idle += hundredths;
  }
  return times;
}

class ExchangeBench {
 public:
  explicit ExchangeBench(const ExchangeBenchOptions& options) : options_(options) {}

  absl::Status Start();
  absl::Status Repeat(int repetition);
  ExchangeBenchResult Result() const;

 private:
  struct Peer {
    std::unique_ptr<ChildProcess> process;
    Descriptor orders;  // our end of its pipe
    std::string address;
    bool ready = false;
    std::string complaint;  // its last line on standard error
    BenchPeerTimes times;
  };

  std::vector<std::string> CommandOf(size_t index) const;
  bool Reachable(size_t index) const {
    return options_.reachable.empty() || options_.reachable[index];
  }
  std::string HostOf(size_t index) const {
    return options_.hosts.empty() ? "127.0.0.1" : options_.hosts[index];
  }
  int Threads() const {
    const int cores = static_cast<int>(ReadProcessLimits().cores.threads());
    return options_.threads > 0 ? options_.threads : std::max(1, cores / options_.peers);
  }
  std::string IdentityOf(size_t index) const;  // the folder of its credentials
  absl::Status MakeIdentities();
  absl::Status StartPeer(size_t index);
  void OnLine(size_t index, const std::string& line);
  void OnExit(size_t index, const ExitStatus& exit);
  void Tell(const std::string& order);
  absl::Status Pause();
  absl::Status Await(const std::function<bool(const Peer&)>& holds, absl::Duration limit,
                     const std::string& what);

  const ExchangeBenchOptions options_;
  std::unique_ptr<const ScratchFolder> folder_;
  PosixExecutor executor_{{1, 0}};
  std::vector<Peer> peers_;
  absl::Status failed_;
  ExchangeBenchResult result_;
  std::vector<double> encode_, exchange_, decode_;
  std::vector<double> bytes_, cpu_, busy_;
  std::vector<std::vector<double>> cpu_of_peer_;
  bool identical_ = true;
};

std::vector<std::string> ExchangeBench::CommandOf(size_t index) const {
  std::vector<std::string> command;
  for (const std::string& word : options_.launcher) {
    const std::string number = absl::StrCat(index + 1);
    const std::string& name = options_.names.empty() ? number : options_.names[index];
    command.push_back(absl::StrReplaceAll(word, {{"{peer}", number}, {"{name}", name}}));
  }
  std::error_code error;
  command.push_back(std::filesystem::read_symlink("/proc/self/exe", error).string());
  const std::vector<std::string> arguments = {
      "bench",
      "exchange-peer",
      absl::StrCat("--orders=", kOrdersDescriptor),
      absl::StrCat("--index=", index),
      absl::StrCat("--host=", HostOf(index)),
      absl::StrCat("--elements=", options_.elements),
      absl::StrCat("--codec=", options_.codec),
      absl::StrCat("--chunk-elements=", options_.chunk_elements),
      absl::StrCat("--lanes=", options_.lanes),
      absl::StrCat("--threads=", Threads())};
  command.insert(command.end(), arguments.begin(), arguments.end());
  if (!options_.upper_codec.empty()) {
    command.push_back(absl::StrCat("--upper-codec=", options_.upper_codec));
  }
  if (!options_.plaintext) command.push_back(absl::StrCat("--certificates=", IdentityOf(index)));
  return command;
}

absl::Status ExchangeBench::StartPeer(size_t index) {
  ChildProcess::Options child;
  child.arguments = CommandOf(index);
  ASSIGN_OR_RETURN(Pipe orders, MakePipe(child.arguments.front()));
  peers_[index].orders = std::move(orders.write);
  child.descriptors = {{orders.read.get(), kOrdersDescriptor}};
  child.death_signal = SIGKILL;
  ChildProcess::Events events;
  events.on_output_line = [this, index](const std::string& line) { OnLine(index, line); };
  events.on_error_line = [this, index](const std::string& line) { peers_[index].complaint = line; };
  events.on_exit = [this, index](const ExitStatus& exit) { OnExit(index, exit); };
  ASSIGN_OR_RETURN(peers_[index].process,
                   ChildProcess::Spawn(executor_, std::move(child), std::move(events)));
  return absl::OkStatus();
}

std::string ExchangeBench::IdentityOf(size_t index) const {
  return absl::StrCat(folder_->path(), "/", BenchPeerName(index));
}

absl::Status ExchangeBench::MakeIdentities() {
  const absl::Time now = executor_.WallTime();
  ASSIGN_OR_RETURN(const std::unique_ptr<Authority> authority,
                   Authority::Make("bench", now, [this] { return executor_.Random(); }));
  PosixFiles files;
  for (size_t i = 0; i < peers_.size(); ++i) {
    RETURN_IF_ERROR(
        EnsureCredentials(files, *authority, IdentityOf(i), Role::kPeer, BenchPeerName(i), now));
  }
  return absl::OkStatus();
}

absl::Status ExchangeBench::Start() {
  std::error_code error;
  const std::filesystem::path top = std::filesystem::temp_directory_path(error);
  if (error) return absl::UnknownError("TMPDIR names no folder");
  ASSIGN_OR_RETURN(folder_, ScratchFolder::Make((top / "atoll-bench").string()));
  peers_.resize(static_cast<size_t>(options_.peers));
  if (!options_.plaintext) RETURN_IF_ERROR(MakeIdentities());
  for (size_t i = 0; i < peers_.size(); ++i) RETURN_IF_ERROR(StartPeer(i));
  RETURN_IF_ERROR(Await([](const Peer& peer) { return !peer.address.empty(); }, kPeersStartPatience,
                        "the peers listen"));
  std::string others = "peers";
  for (size_t i = 0; i < peers_.size(); ++i) {
    absl::StrAppend(&others, " ", Reachable(i) ? peers_[i].address : kNoAddress);
  }
  Tell(others);
  return Await([](const Peer& peer) { return peer.ready; }, kPeersStartPatience,
               "the peers are ready");
}

void ExchangeBench::OnLine(size_t index, const std::string& line) {
  Peer& peer = peers_[index];
  absl::string_view rest = line;
  if (absl::ConsumePrefix(&rest, "listening ")) {
    peer.address = std::string(rest);
  } else if (line == "ready") {
    peer.ready = true;
  } else {
    absl::StatusOr<BenchPeerTimes> times = BenchPeerTimes::FromLine(line);
    if (!times.ok()) {
      failed_ = times.status();
    } else {
      peer.times = *std::move(times);
    }
  }
}

void ExchangeBench::OnExit(size_t index, const ExitStatus& exit) {
  if (!failed_.ok()) return;
  failed_ = absl::UnknownError(
      absl::StrCat("peer ", index + 1, " has ended: ", exit.Text(), ": ", peers_[index].complaint));
}

void ExchangeBench::Tell(const std::string& order) {
  const std::string line = order + "\n";
  for (const Peer& peer : peers_) {
    // A line is shorter than a pipe; a peer that is gone is told of by its exit.
    if (write(peer.orders.get(), line.data(), line.size()) < 0) continue;
  }
}

absl::Status ExchangeBench::Await(const std::function<bool(const Peer&)>& holds,
                                  absl::Duration limit, const std::string& what) {
  const bool over = executor_.RunUntil(
      [&] { return !failed_.ok() || std::all_of(peers_.begin(), peers_.end(), holds); }, limit);
  if (!failed_.ok()) return failed_;
  if (over) return absl::OkStatus();
  return absl::DeadlineExceededError(
      absl::StrCat("waited ", absl::FormatDuration(limit), " until ", what));
}

// At the end of the pause the peers wake their connections, as in a run.
absl::Status ExchangeBench::Pause() {
  const auto wait = [this](double seconds) {
    executor_.RunUntil([this] { return !failed_.ok(); }, absl::Seconds(seconds));
  };
  const double awake = std::min(options_.pause_seconds, kAwakeSeconds);
  wait(options_.pause_seconds - awake);
  if (awake > 0) Tell("wake");
  wait(awake);
  return failed_;
}

absl::Status ExchangeBench::Repeat(int repetition) {
  RETURN_IF_ERROR(Pause());
  const auto number = static_cast<uint64_t>(repetition);
  const absl::Time began = executor_.Now();
  const MachineLoad load;
  Tell(absl::StrCat("go ", number));
  RETURN_IF_ERROR(Await([number](const Peer& peer) { return peer.times.repetition == number; },
                        options_.patience, absl::StrCat("repetition ", number, " is over")));
  const double seconds = absl::ToDoubleSeconds(executor_.Now() - began);
  const double busy = load.BusyShare();
  BenchPeerTimes worst;
  double bytes = 0;
  double cpu = 0;
  for (const Peer& peer : peers_) {
    worst.encode_seconds = std::max(worst.encode_seconds, peer.times.encode_seconds);
    worst.exchange_seconds = std::max(worst.exchange_seconds, peer.times.exchange_seconds);
    worst.decode_seconds = std::max(worst.decode_seconds, peer.times.decode_seconds);
    result_.relative_error = std::max(result_.relative_error, peer.times.relative_error);
    bytes += static_cast<double>(peer.times.bytes_sent);
    cpu += peer.times.cpu_seconds;
    identical_ = identical_ && peer.times.digest == peers_.front().times.digest;
  }
  // The first one makes the connections.
  if (repetition == 1) return absl::OkStatus();
  const auto count = static_cast<double>(peers_.size());
  result_.seconds.push_back(seconds);
  encode_.push_back(worst.encode_seconds);
  exchange_.push_back(worst.exchange_seconds);
  decode_.push_back(worst.decode_seconds);
  bytes_.push_back(bytes / count);
  cpu_.push_back(cpu / count);
  busy_.push_back(busy);
  cpu_of_peer_.resize(peers_.size());
  for (size_t i = 0; i < peers_.size(); ++i) cpu_of_peer_[i].push_back(peers_[i].times.cpu_seconds);
  return absl::OkStatus();
}

ExchangeBenchResult ExchangeBench::Result() const {
  ExchangeBenchResult result = result_;
  result.seconds_median = Median(result.seconds);
  result.encode_seconds = Median(encode_);
  result.exchange_seconds = Median(exchange_);
  result.decode_seconds = Median(decode_);
  result.bytes_sent_per_peer = Median(bytes_);
  result.cpu_seconds_per_peer = Median(cpu_);
  result.machine_busy = Median(busy_);
  for (const std::vector<double>& cpu : cpu_of_peer_) result.cpu_seconds.push_back(Median(cpu));
  result.identical = identical_;
  return result;
}

}  // namespace

absl::StatusOr<ExchangeBenchResult> MeasureExchange(const ExchangeBenchOptions& options) {
  RETURN_IF_ERROR(ParseLevels(options.codec, options.upper_codec).status());
  if (!options.hosts.empty() && options.hosts.size() != static_cast<size_t>(options.peers)) {
    return absl::InvalidArgumentError(absl::StrCat(Counted(options.hosts.size(), "host"), " for ",
                                                   Counted(options.peers, "peer")));
  }
  for (const size_t told : {options.reachable.size(), options.names.size()}) {
    CHECK(told == 0 || told == static_cast<size_t>(options.peers));
  }
  // A peer that is gone is told of by its exit.
  signal(SIGPIPE, SIG_IGN);
  ExchangeBench bench(options);
  RETURN_IF_ERROR(bench.Start());
  for (int repetition = 1; repetition <= options.repeats + 1; ++repetition) {
    RETURN_IF_ERROR(bench.Repeat(repetition));
  }
  return bench.Result();
}

}  // namespace atolld
