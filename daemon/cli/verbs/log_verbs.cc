// `atoll log list|verify|replay`.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compression/base/status_macros.h"
#include "compression/base/terminal.h"
#include "daemon/cli/live_view.h"
#include "daemon/cli/verbs/admin_verb.h"
#include "daemon/cli/verbs/verbs.h"
#include "daemon/cli/worker_tool.h"
#include "daemon/env/posix_files.h"
#include "daemon/figures/status_json.h"
#include "daemon/program/format.h"
#include "daemon/program/process.h"
#include "daemon/replica/state/replay.h"
#include "daemon/replica/state/snapshot_build.h"
#include "daemon/replica/state/verify.h"
#include "daemon/transport/coordinator_client.h"
#include "membership/history/lineage.h"

namespace atolld {
namespace {

using Json = nlohmann::ordered_json;

struct ReplayOptions {
  std::string dir;
  std::optional<uint64_t> from;
  std::optional<uint64_t> to;
  bool json = false;
};

struct Range {
  uint64_t from;
  uint64_t to;
};

// Returns the requested range of the covered entries.
absl::StatusOr<Range> RangeOf(const ReplayOptions& options, const VersionRange& covered,
                              const std::string& dir) {
  const Range range{options.from.value_or(std::min(covered.first + 1, covered.last)),
                    options.to.value_or(covered.last)};
  if (range.from > covered.first && range.from <= range.to && range.to <= covered.last) {
    return range;
  }
  if (covered.first == covered.last) {
    return absl::NotFoundError(
        absl::StrCat(dir, ": there is no entry after version ", covered.first, " to replay"));
  }
  return absl::NotFoundError(absl::StrCat(dir, ": entries ", range.from, " to ", range.to,
                                          " cannot be replayed; ", covered.first + 1, " to ",
                                          covered.last, " can"));
}

std::vector<std::string> Contributors(const v1::EntryHeader& header) {
  std::vector<std::string> names;
  for (const v1::Contributor& one : header.contributors()) names.push_back(one.peer());
  return names;
}

std::string Word(const ReplayedEntry& entry) {
  if (!entry.expected.has_value()) return "unsaid";
  return *entry.expected == entry.state_digest ? "confirmed" : "contradicted";
}

Json EntryJson(const ReplayedEntry& entry) {
  return {{"version", entry.header.version()},
          {"state_digest", ToHex(entry.state_digest)},
          {"next_header_says", entry.expected ? Json(ToHex(*entry.expected)) : Json(nullptr)},
          {"chain", Word(entry)},
          {"contributors", Contributors(entry.header)},
          {"payload_bytes", entry.payload_bytes}};
}

std::string EntryText(const ReplayedEntry& entry) {
  return absl::StrCat("version ", entry.header.version(), "  state ",
                      ToHex(entry.state_digest).substr(0, kShortDigest), "  ",
                      PadRight(Word(entry), 12), "  ",
                      FormatBytes(static_cast<double>(entry.payload_bytes)), "  ",
                      absl::StrJoin(Contributors(entry.header), " "));
}

// Replays the range and passes on each of its entries. Fails with DATA_LOSS at the first
// difference.
absl::Status ReplayRange(Files& files, const ReplayOptions& options, ProgressLine& progress,
                         const std::function<void(const ReplayedEntry&)>& tell) {
  ASSIGN_OR_RETURN(const std::string dir, FurthestReplica(files, AbsoluteFolder(options.dir)));
  ASSIGN_OR_RETURN(const VersionRange covered, CoveredVersions(files, dir));
  ASSIGN_OR_RETURN(const Range range, RangeOf(options, covered, dir));
  ASSIGN_OR_RETURN(std::unique_ptr<SnapshotReader> base, FindSnapshot(files, dir, range.from - 1));
  ASSIGN_OR_RETURN(const std::unique_ptr<LogReplay> replay,
                   LogReplay::Open(files, dir, std::move(base)));
  while (replay->version() < range.to) {
    progress.Show(absl::StrCat("replaying entry ", replay->version() + 1, " of ", range.to));
    ASSIGN_OR_RETURN(const ReplayedEntry entry, replay->Next());
    if (entry.header.version() >= range.from) tell(entry);
    if (!entry.expected.has_value() || *entry.expected == entry.state_digest) continue;
    return absl::DataLossError(
        absl::StrCat("version ", entry.header.version(), ": the replayed state has digest ",
                     ToHex(entry.state_digest), ", the header of entry ",
                     entry.header.version() + 1, " says ", ToHex(*entry.expected)));
  }
  return absl::OkStatus();
}

VerbExit Replay(const ReplayOptions& options) {
  PosixFiles files;
  ProgressLine progress;
  Json entries = Json::array();
  const absl::Status status =
      ReplayRange(files, options, progress, [&](const ReplayedEntry& entry) {
        if (options.json) {
          entries.push_back(EntryJson(entry));
          return;
        }
        progress.Clear();
        PrintLine(stdout, EntryText(entry));
      });
  progress.Clear();
  if (options.json) PrintJson(entries);
  std::fflush(stdout);
  RETURN_IF_ERROR(status);
  return kDone;
}

void AddLogReplayVerb(CommandLine& command_line) {
  const auto options = std::make_shared<ReplayOptions>();
  const Verb verb = command_line.AddVerb(
      "log replay", "Replay a log, each state beside what the next header says",
      "atoll log replay --dir build/quickstart/peer-1", [options] { return Replay(*options); });
  verb.Add("--dir", options->dir,
           "A peer's folder, or a local run's: then the peer that is furthest")
      .Folder()
      .Required();
  verb.Add("--from", options->from, "First entry [the oldest that can be replayed]").Positive();
  verb.Add("--to", options->to, "Last entry [the newest]").Positive();
  verb.Flag("--json", options->json, "Print as JSON");
}

// -----------------------------------------------------------------------------------------------

struct Verified {
  std::string dir;
  VerifyReport report;
  v1::Genesis genesis;
  double rounds_per_second = 0;  // that were replayed
};

Json VerifiedJson(const Verified& verified) {
  const VerifyReport& report = verified.report;
  Json json = {{"versions", report.version},
               {"state_digest", ToHex(report.state_digest)},
               {"chain", "ok"},
               {"replayed_from", report.first_version},
               {"sealed", report.sealed},
               {"rounds_per_second", verified.rounds_per_second}};
  const v1::RunSpec& spec = verified.genesis.spec();
  if (spec.has_parent()) json["parent"] = LineageJson(spec.parent());
  return json;
}

absl::StatusOr<Verified> VerifyOne(Files& files, const std::string& folder) {
  const double began = MonotonicSeconds();
  absl::StatusOr<VerifyReport> report = VerifyLog(files, folder);
  if (!report.ok()) return Annotate(report.status(), folder);
  const double seconds = std::max(1e-6, MonotonicSeconds() - began);
  const auto replayed = static_cast<double>(report->version - report->first_version);
  ASSIGN_OR_RETURN(v1::Genesis genesis, ReadGenesis(files, folder));
  return Verified{folder, *std::move(report), std::move(genesis), replayed / seconds};
}

// Returns the furthest replica's result, and each one's. Two replicas of one run must not differ at
// the same version.
absl::StatusOr<Json> VerifyFolder(Files& files, const std::string& dir) {
  ASSIGN_OR_RETURN(const std::vector<std::string> folders, ReplicaFolders(files, dir));
  std::vector<Verified> verified;
  for (const std::string& folder : folders) {
    ASSIGN_OR_RETURN(Verified one, VerifyOne(files, folder));
    verified.push_back(std::move(one));
  }
  const Verified* furthest = &verified.front();
  for (const Verified& one : verified) {
    if (one.report.version > furthest->report.version) furthest = &one;
  }
  for (const Verified& one : verified) {
    if (one.report.version == furthest->report.version &&
        one.report.state_digest != furthest->report.state_digest) {
      return absl::DataLossError(absl::StrCat(one.dir, " and ", furthest->dir,
                                              " hold different states of version ",
                                              one.report.version));
    }
  }
  Json json = VerifiedJson(*furthest);
  if (folders.front() == dir) return json;
  json["peers"] = Json::array();
  for (const Verified& one : verified) {
    Json peer = {{"dir", one.dir}};
    peer.update(VerifiedJson(one));
    json["peers"].push_back(std::move(peer));
  }
  return json;
}

VerbExit VerifyLog(const std::string& dir) {
  PosixFiles files;
  ASSIGN_OR_RETURN(const Json json, VerifyFolder(files, AbsoluteFolder(dir)));
  PrintJson(json);
  return kDone;
}

// Reads from the disk if a folder is given, so that it works when nothing runs any more.
absl::StatusOr<std::vector<v1::EntryHeader>> Headers(const CoordinatorAddress& source) {
  std::vector<v1::EntryHeader> headers;
  if (!source.dir.empty()) {
    PosixFiles files;
    ASSIGN_OR_RETURN(const std::string folder, FurthestReplica(files, AbsoluteFolder(source.dir)));
    ASSIGN_OR_RETURN(const std::vector<LogEntryInfo> entries, ListLog(files, folder));
    for (const LogEntryInfo& entry : entries) headers.push_back(entry.header);
    return headers;
  }
  ASSIGN_OR_RETURN(const CoordinatorAccess access, ResolveCoordinator(source));
  AdminClient client(access);
  while (true) {  // a page at a time
    const uint64_t next = headers.empty() ? 0 : headers.back().version() + 1;
    ASSIGN_OR_RETURN(const v1::ListHeadersResponse page, client.ListHeaders(next, 0));
    if (page.headers().empty()) return headers;
    headers.insert(headers.end(), page.headers().begin(), page.headers().end());
  }
}

// Returns what the headers of a branch follow; empty if it is not a branch, or if its origin is not
// on this disk.
std::string BranchLine(const CoordinatorAddress& source) {
  if (source.dir.empty()) return "";
  PosixFiles files;
  const absl::StatusOr<std::string> folder = FurthestReplica(files, AbsoluteFolder(source.dir));
  if (!folder.ok()) return "";
  const absl::StatusOr<v1::Genesis> genesis = ReadGenesis(files, *folder);
  if (!genesis.ok() || !genesis->spec().has_parent()) return "";
  return absl::StrCat("run ", genesis->spec().run_id(), " is a branch of ",
                      LineageText(genesis->spec().parent()));
}

VerbExit ListLog(const CoordinatorAddress& source, bool json) {
  ASSIGN_OR_RETURN(const std::vector<v1::EntryHeader> headers, Headers(source));
  if (json) {
    Json list = Json::array();
    for (const v1::EntryHeader& header : headers) list.push_back(HeaderJson(header));
    PrintJson(list);
    return kDone;
  }
  if (const std::string branch = BranchLine(source); !branch.empty()) PrintLine(stdout, branch);
  PrintLines(HeadersText(headers));
  return kDone;
}

}  // namespace

void AddLogVerbs(CommandLine& command_line) {
  struct Options {
    CoordinatorAddress source;
    std::string dir;
    bool json = false;
  };
  const auto list = std::make_shared<Options>();
  const Verb list_verb =
      command_line.AddVerb("log list", "List the headers of all committed updates",
                           "atoll log list --dir build/quickstart/peer-1",
                           [list] { return ListLog(list->source, list->json); });
  AddCoordinatorOptions(list_verb, list->source,
                        "A peer's folder or a local run's: read the disk, ask nobody");
  list_verb.Flag("--json", list->json, "Print as JSON");

  const auto verify = std::make_shared<Options>();
  const Verb verify_verb = command_line.AddVerb(
      "log verify", "Replay a log from its oldest snapshot, check every digest",
      "atoll log verify --dir build/quickstart", [verify] { return VerifyLog(verify->dir); });
  verify_verb.Add("--dir", verify->dir, "A peer's folder, or a local run's: then every peer's")
      .Folder()
      .Required();
  verify_verb.Flag("--json", verify->json, "Print as JSON; it always does");

  AddLogReplayVerb(command_line);
}

}  // namespace atolld
