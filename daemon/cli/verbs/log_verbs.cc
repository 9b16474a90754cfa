// `atoll log list` and `atoll log verify`; `atoll log replay` is in log_replay_verb.cc.
#include <cstdio>
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "daemon/cli/coordinator_address.h"
#include "daemon/cli/status_json.h"
#include "daemon/cli/verbs/admin_verb.h"
#include "daemon/cli/verbs/verbs.h"
#include "daemon/cli/worker_tool.h"
#include "daemon/env/posix_files.h"
#include "daemon/replica/state/verify.h"
#include "daemon/transport/admin_client.h"

namespace atolld {
namespace {

using Json = nlohmann::ordered_json;

struct Verified {
  std::string dir;
  VerifyReport report;
};

Json VerifiedJson(const VerifyReport& report) {
  return {{"versions", report.version},
          {"state_digest", ToHex(report.state_digest)},
          {"chain", "ok"},
          {"replayed_from", report.first_version},
          {"sealed", report.sealed}};
}

// The furthest replica's result, and each one's. Two replicas of one run may not differ at the same
// version.
absl::StatusOr<Json> VerifyFolder(Files& files, const std::string& dir) {
  ASSIGN_OR_RETURN(const std::vector<std::string> folders, ReplicaFolders(files, dir));
  std::vector<Verified> verified;
  for (const std::string& folder : folders) {
    absl::StatusOr<VerifyReport> report = VerifyLog(files, folder);
    if (!report.ok()) return Annotate(report.status(), folder);
    verified.push_back({folder, *std::move(report)});
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
  Json json = VerifiedJson(furthest->report);
  if (folders.front() == dir) return json;
  json["peers"] = Json::array();
  for (const Verified& one : verified) {
    Json peer = {{"dir", one.dir}};
    peer.update(VerifiedJson(one.report));
    json["peers"].push_back(std::move(peer));
  }
  return json;
}

int VerifyLog(const std::string& dir) {
  PosixFiles files;
  const absl::StatusOr<Json> json = VerifyFolder(files, AbsoluteFolder(dir));
  if (!json.ok()) return Report(json.status(), kFailed);
  std::fputs(JsonText(*json).c_str(), stdout);
  return kDone;
}

// From the disk where a folder is given, so that it works when nothing runs any more.
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

int ListLog(const CoordinatorAddress& source, bool json) {
  const absl::StatusOr<std::vector<v1::EntryHeader>> headers = Headers(source);
  if (!headers.ok()) return ReportNoAccess(headers.status());
  if (json) {
    Json list = Json::array();
    for (const v1::EntryHeader& header : *headers) list.push_back(HeaderJson(header));
    std::fputs(JsonText(list).c_str(), stdout);
    return kDone;
  }
  for (const std::string& line : HeadersText(*headers)) std::printf("%s\n", line.c_str());
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
      command_line.AddVerb("log list", "The headers of all committed updates",
                           "atoll log list --dir atoll-run-20250131-142501/peer-1",
                           [list] { return ListLog(list->source, list->json); });
  AddCoordinatorOptions(list_verb, list->source,
                        "A peer's folder or a local run's: read the disk, ask nobody");
  list_verb.Flag("--json", list->json, "Print as JSON");

  const auto verify = std::make_shared<Options>();
  const Verb verify_verb = command_line.AddVerb(
      "log verify", "Replay a log from its oldest snapshot and check every digest",
      "atoll log verify --dir atoll-run-20250131-142501",
      [verify] { return VerifyLog(verify->dir); });
  verify_verb.Add("--dir", verify->dir, "A peer's folder, or a local run's: then every peer's")
      .Required();
  verify_verb.Flag("--json", verify->json, "Print as JSON; it always does");

  AddLogReplayVerb(command_line);
}

}  // namespace atolld
