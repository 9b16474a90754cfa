#include "daemon/fitness/preflight.h"

#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "daemon/env/posix_files.h"
#include "daemon/fitness/folder_fitness.h"
#include "daemon/fitness/kernel_fitness.h"
#include "daemon/identity/certificate.h"
#include "daemon/program/addresses.h"
#include "daemon/program/format.h"
#include "daemon/program/process.h"
#include "daemon/transport/server_probe.h"
#include "daemon/transport/sockets.h"

namespace atolld {
namespace {

using Weight = Finding::Weight;

// Below this, not even a small model's log fits beside its snapshots.
constexpr uint64_t kLeastDisk = uint64_t{64} << 20;
constexpr uint64_t kLittleDisk = uint64_t{4} << 30;
constexpr uint64_t kLittleMemory = uint64_t{1} << 30;
constexpr uint64_t kFewDescriptors = 1024;  // what systems give where nobody has thought about it

// Certificates tolerate an hour; a clock that is off by more than this is set wrong, and may drift
// on.
constexpr absl::Duration kSmallOffset = absl::Minutes(1);

// libtorch is read from a disk that may be cold, and a matrix product is measured.
constexpr int kProbeSeconds = 60;

Finding CheckClock(const PreflightOptions& options) {
  if (options.now >= options.no_earlier_than - kSmallOffset) {
    return {Weight::kGood, "clock: not behind the token's"};
  }
  return {Weight::kFatal,
          absl::StrCat("clock: at least ",
                       FormatSeconds(absl::ToDoubleSeconds(options.no_earlier_than - options.now)),
                       " behind the coordinator's; set it, or no certificate will be valid")};
}

Finding CheckDisk(const std::string& dir) {
  const std::filesystem::path place = ExistingFolder(dir);
  std::error_code error;
  const auto fatal = [&](absl::string_view why) {
    return Finding{Weight::kFatal, absl::StrCat("disk: ", place.string(), why)};
  };
  if (!std::filesystem::is_directory(place, error)) return fatal(" is not a folder");
  if (access(place.c_str(), W_OK | X_OK) != 0) {
    return fatal(absl::StrCat(" cannot be written: ", std::strerror(errno)));
  }
  struct statvfs about = {};
  if (statvfs(place.c_str(), &about) != 0) return fatal(absl::StrCat(": ", std::strerror(errno)));
  if (about.f_files > 0 && about.f_favail == 0) {
    return fatal(" is on a file system that can hold no more files (its inodes are used up)");
  }
  const auto available = static_cast<uint64_t>(about.f_bavail) * about.f_frsize;
  const std::string line =
      absl::StrCat("disk: ", FormatBytes(static_cast<double>(available)), " free in ", dir);
  if (available < kLeastDisk) return {Weight::kFatal, line + ", too little for any run"};
  if (available < kLittleDisk) {
    return {Weight::kDoubtful, line + "; a replica takes 20 bytes a parameter and its log"};
  }
  return {Weight::kGood, line};
}

Finding CheckMemory(const MemoryLimit& limit) {
  const auto bytes = [](uint64_t count) { return FormatBytes(static_cast<double>(count)); };
  const std::string line =
      absl::StrCat("memory: ", bytes(limit.free_bytes), " free of ", bytes(limit.bytes),
                   limit.source.empty() ? "" : ": ", limit.source);
  return {limit.free_bytes < kLittleMemory ? Weight::kDoubtful : Weight::kGood, line};
}

Finding CheckCores(const CoreLimit& limit, uint32_t threads) {
  const std::string line = absl::StrCat("processors: ", Describe(limit));
  if (threads <= limit.threads()) return {Weight::kGood, line};
  return {Weight::kDoubtful, absl::StrCat(line, "; [worker] threads = ", threads,
                                          " is more, and slower than ", limit.threads())};
}

Finding CheckOpenFiles(const ProcessLimits& limits) {
  if (limits.file_bytes != kNoLimit) {
    return {Weight::kDoubtful,
            absl::StrCat("open files: none may be larger than ",
                         FormatBytes(static_cast<double>(limits.file_bytes)),
                         " (ulimit -f); a snapshot is one file of 8 bytes a parameter and more")};
  }
  if (limits.descriptors == kNoLimit) return {Weight::kGood, "open files: any number"};
  const std::string line = absl::StrCat("open files: ", limits.descriptors, " at a time");
  if (limits.descriptors >= kFewDescriptors) return {Weight::kGood, line};
  return {Weight::kDoubtful, line + " (ulimit -Hn); each connection is one"};
}

// Reads the worker's report about itself: {"gflops", "kernel", "threads", "torch", "gpus"}.
Finding CheckTraining(const std::string& worker) {
  const auto without = [](absl::string_view why) {
    return Finding{Weight::kDoubtful,
                   absl::StrCat("training: ", why, "; only a worker of your own can train here")};
  };
  const absl::StatusOr<std::string> answer = RunAndCapture({worker, "probe"}, kProbeSeconds);
  if (!answer.ok()) return without(answer.status().message());
  const nlohmann::json found = nlohmann::json::parse(*answer, nullptr, /*allow_exceptions=*/false);
  try {
    const int gpus = found.at("gpus").get<int>();
    return {Weight::kGood,
            absl::StrCat("training: ",
                         gpus == 0   ? std::string("no GPU")
                         : gpus == 1 ? std::string("1 GPU")
                                     : absl::StrCat(gpus, " GPUs"),
                         "; ", FormatMeasured(found.at("gflops").get<double>(), 0, " GFLOP/s"),
                         " on one thread of ", found.at("threads").get<int>(), " (",
                         found.at("kernel").get<std::string>(), ", libtorch ",
                         found.at("torch").get<std::string>(), ")")};
  } catch (const nlohmann::json::exception& error) {
    return without(absl::StrCat(worker, " probe: ", error.what()));
  }
}

// Returns a text that no other process sends.
absl::StatusOr<std::string> Nonce() {
  ASSIGN_OR_RETURN(const PrivateKey key, PrivateKey::Generate());
  return key.Digest();
}

absl::Status ProbeReach(const PreflightOptions& options) {
  if (options.runs) return ProbeConnect(options.advertise, options.patience).status();
  const std::string listen =
      options.listen.empty() ? ListenAddressFor(options.advertise) : options.listen;
  ASSIGN_OR_RETURN(const std::string nonce, Nonce());
  return ProbeOwnAddress(listen, options.advertise, nonce, options.patience);
}

Finding CheckCoordinator(const PreflightOptions& options) {
  const auto took = ProbeServer({options.coordinator, Role::kCoordinator, "", options.credentials},
                                options.patience);
  if (took.ok()) {
    return {Weight::kGood,
            absl::StrCat("coordinator: ", options.coordinator, " answers in ",
                         FormatMeasured(absl::ToDoubleMilliseconds(*took), 1, " ms"))};
  }
  std::string line =
      absl::StrCat("coordinator: ", options.coordinator, ": ", took.status().message());
  // Another's certificate stays another's. Else it may be on its way up.
  if (absl::IsFailedPrecondition(took.status())) return {Weight::kFatal, line};
  if (ReachOf(options.coordinator) == AddressReach::kThisMachine) {
    absl::StrAppend(&line,
                    "; that is this machine itself: if the run is on another, its [coordinator] "
                    "address (`atoll local --listen`) must be one that other machines reach");
  }
  return {Weight::kDoubtful, line};
}

// Checks, before any connection is tried, if others could dial the address. On loopback it is right
// if the coordinator is there as well; without a named coordinator it may be right.
std::optional<Finding> CheckAdvertised(const PreflightOptions& options) {
  const std::string why = WhyNotForOthers(options.advertise);
  if (why.empty()) return std::nullopt;
  const bool loopback = ReachOf(options.advertise) == AddressReach::kThisMachine;
  const bool alone = loopback && options.coordinator.empty();
  if (loopback && !alone && ReachOf(options.coordinator) == AddressReach::kThisMachine) {
    return std::nullopt;
  }
  return Finding{alone ? Weight::kDoubtful : Weight::kFatal,
                 absl::StrCat("others: ", options.advertise, " ", why,
                              "; give a HOST:PORT that other machines reach, or leave --advertise "
                              "out: then it dials out only, which always works")};
}

Finding CheckReach(const PreflightOptions& options) {
  if (options.advertise.empty()) {
    return {Weight::kGood, "others: cannot dial this machine, which dials out only"};
  }
  if (std::optional<Finding> wrong = CheckAdvertised(options)) return *std::move(wrong);
  const absl::Status reached = ProbeReach(options);
  if (reached.ok()) {
    return {Weight::kGood,
            absl::StrCat("others: ", options.advertise, options.runs ? " answers" : " leads here")};
  }
  // Some routers lead everybody there but the machine itself.
  return {Weight::kDoubtful,
          absl::StrCat("others: may not reach this machine: ", options.advertise, ": ",
                       reached.message(),
                       "; without --advertise it dials out only, which always works")};
}

}  // namespace

std::vector<Finding> CheckLimits(const ProcessLimits& limits, uint32_t threads) {
  return {CheckMemory(limits.memory), CheckCores(limits.cores, threads), CheckOpenFiles(limits)};
}

std::string ListenAddressFor(const std::string& advertise) {
  return absl::StrCat("0.0.0.0", advertise.substr(advertise.rfind(':')));
}

std::vector<Finding> Preflight(const PreflightOptions& options) {
  std::vector<Finding> findings;
  const auto add = [&](Finding finding) {
    if (options.on_finding) options.on_finding(finding);
    findings.push_back(std::move(finding));
  };
  if (options.no_earlier_than != absl::InfinitePast()) add(CheckClock(options));
  add(CheckDisk(options.dir));
  if (findings.back().weight != Weight::kFatal) {
    PosixFiles files;
    for (Finding& one : CheckFolder(files, options.dir, FolderUse::kPeer)) add(std::move(one));
  }
  for (Finding& one : CheckLimits(ReadProcessLimits(), options.threads)) add(std::move(one));
  if (!options.runs) {  // a daemon that runs has all of it
    for (Finding& one : CheckKernel(ThreadsOfPeer(options.threads))) add(std::move(one));
  }
  if (!options.coordinator.empty()) add(CheckCoordinator(options));
  add(CheckReach(options));
  if (!options.worker.empty()) add(CheckTraining(options.worker));
  return findings;
}

std::string NameOf(Finding::Weight weight) {
  switch (weight) {
    case Weight::kGood:
      return "good";
    case Weight::kDoubtful:
      return "doubtful";
    case Weight::kFatal:
      return "fatal";
  }
  return "";
}

Finding CompareClocks(absl::Time now, absl::Time not_before, absl::Duration lead) {
  const absl::Duration off = now - (not_before + lead);
  const absl::Duration size = off < absl::ZeroDuration() ? -off : off;
  const std::string line =
      absl::StrCat("clock: ", FormatSeconds(absl::ToDoubleSeconds(size)),
                   off < absl::ZeroDuration() ? " behind" : " ahead of", " the coordinator's");
  return {size <= kSmallOffset ? Weight::kGood : Weight::kDoubtful, line};
}

}  // namespace atolld
