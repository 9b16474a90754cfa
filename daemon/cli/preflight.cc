#include "daemon/cli/preflight.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>
#include <thread>

#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "daemon/cli/format.h"
#include "daemon/cli/process.h"
#include "daemon/identity/certificate.h"
#include "daemon/transport/sockets.h"

namespace atolld {
namespace {

using Weight = Finding::Weight;

// Below this not even a small model's log fits beside its snapshots.
constexpr uint64_t kLeastDisk = uint64_t{64} << 20;
constexpr uint64_t kLittleDisk = uint64_t{4} << 30;
constexpr uint64_t kLittleMemory = uint64_t{1} << 30;

// Certificates bear an hour; what is off by more than this is set wrong, and may drift on.
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
  std::filesystem::path place = dir;
  std::error_code error;
  while (!std::filesystem::exists(place, error) && place.has_relative_path()) {
    place = place.parent_path();
  }
  const std::filesystem::space_info space = std::filesystem::space(place, error);
  if (error) return {Weight::kFatal, absl::StrCat("disk: ", dir, ": ", error.message())};
  const std::string line =
      absl::StrCat("disk: ", FormatBytes(static_cast<double>(space.available)), " free in ", dir);
  if (space.available < kLeastDisk) return {Weight::kFatal, line + ", too little for any run"};
  if (space.available < kLittleDisk) {
    return {Weight::kDoubtful, line + "; a replica takes 20 bytes a parameter and its log"};
  }
  return {Weight::kGood, line};
}

// Lines of "MemAvailable:  1234 kB".
Finding CheckMemory() {
  std::ifstream about("/proc/meminfo");
  std::string name, unit;
  uint64_t value = 0, available = 0;
  while (about >> name >> value) {
    if (name == "MemAvailable:") available = value << 10;
    std::getline(about, unit);
  }
  const std::string line = absl::StrCat("memory: ", FormatBytes(static_cast<double>(available)),
                                        " free; processors: ", std::thread::hardware_concurrency());
  return {available < kLittleMemory ? Weight::kDoubtful : Weight::kGood, line};
}

// What the worker says of itself: {"gflops", "kernel", "threads", "torch", "gpus"}.
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

// What nobody else says.
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
  const auto took = ProbeConnect(options.coordinator, options.patience);
  if (took.ok()) {
    return {Weight::kGood,
            absl::StrCat("coordinator: ", options.coordinator, " answers in ",
                         FormatMeasured(absl::ToDoubleMilliseconds(*took), 1, " ms"))};
  }
  // It may be on its way up.
  return {Weight::kDoubtful, absl::StrCat("coordinator: ", took.status().message())};
}

Finding CheckReach(const PreflightOptions& options) {
  if (options.advertise.empty()) {
    return {Weight::kGood, "others: cannot dial this machine, which dials out only"};
  }
  const absl::Status reached = ProbeReach(options);
  if (reached.ok()) {
    return {Weight::kGood,
            absl::StrCat("others: ", options.advertise, options.runs ? " answers" : " leads here")};
  }
  // Some routers lead everybody there but the machine itself.
  return {Weight::kDoubtful,
          absl::StrCat("others: may not reach this machine: ", reached.message(),
                       "; without --advertise it dials out only, which always works")};
}

}  // namespace

std::string ListenAddressFor(const std::string& advertise) {
  return absl::StrCat("0.0.0.0", advertise.substr(advertise.rfind(':')));
}

std::vector<Finding> Preflight(const PreflightOptions& options) {
  std::vector<Finding> findings;
  if (options.no_earlier_than != absl::InfinitePast()) findings.push_back(CheckClock(options));
  findings.push_back(CheckDisk(options.dir));
  findings.push_back(CheckMemory());
  if (!options.worker.empty()) findings.push_back(CheckTraining(options.worker));
  if (!options.coordinator.empty()) findings.push_back(CheckCoordinator(options));
  findings.push_back(CheckReach(options));
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
