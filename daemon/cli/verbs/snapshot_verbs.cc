// `atoll snapshot list`, `atoll snapshot verify` and `atoll snapshot save`.
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "compression/base/terminal.h"
#include "daemon/cli/verbs/verbs.h"
#include "daemon/cli/worker_tool.h"
#include "daemon/env/posix_files.h"
#include "daemon/figures/status_json.h"
#include "daemon/program/format.h"
#include "daemon/replica/state/layout.h"
#include "daemon/replica/state/saved_state.h"
#include "daemon/replica/state/verify.h"

namespace atolld {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kLargestTokenizer = uint64_t{1} << 30;

struct SnapshotOptions {
  std::string dir;
  std::string out;
  std::optional<uint64_t> version;
  bool json = false;
};

std::string ChainText(ChainWord chain) {
  switch (chain) {
    case ChainWord::kConfirmed:
      return "confirmed";
    case ChainWord::kContradicted:
      return "contradicted";
    case ChainWord::kUnsaid:
      break;
  }
  return "unsaid";
}

Json FileJson(const SnapshotFile& file) {
  Json json = {{"version", file.version}, {"path", file.path}, {"bytes", file.bytes}};
  if (!file.status.ok()) {
    json["fault"] = std::string(file.status.message());
    return json;
  }
  json["state_digest"] = ToHex(file.state_digest);
  json["chain"] = ChainText(file.chain);
  json["leads_to"] = file.leads_to;
  return json;
}

std::vector<std::string> FilesText(const std::vector<SnapshotFile>& snapshots) {
  std::vector<std::vector<std::string>> rows = {
      {"version", "bytes", "state", "chain", "log leads to", "file"}};
  for (const SnapshotFile& file : snapshots) {
    const bool sound = file.status.ok();
    rows.push_back({absl::StrCat(file.version), WithThousands(file.bytes),
                    sound ? ToHex(file.state_digest).substr(0, kShortDigest) : "cannot be read",
                    sound ? ChainText(file.chain) : "", sound ? absl::StrCat(file.leads_to) : "",
                    file.path});
  }
  return AlignColumns(rows, ">><<><");
}

absl::StatusOr<std::vector<SnapshotFile>> Snapshots(Files& files, const std::string& dir) {
  ASSIGN_OR_RETURN(const std::string folder, FurthestReplica(files, AbsoluteFolder(dir)));
  return ListSnapshotFiles(files, folder);
}

int ListSnapshots(const SnapshotOptions& options) {
  PosixFiles files;
  const absl::StatusOr<std::vector<SnapshotFile>> snapshots = Snapshots(files, options.dir);
  if (!snapshots.ok()) return Report(snapshots.status());
  if (options.json) {
    Json list = Json::array();
    for (const SnapshotFile& file : *snapshots) list.push_back(FileJson(file));
    std::fputs(JsonText(list).c_str(), stdout);
    return kDone;
  }
  for (const std::string& line : FilesText(*snapshots)) PrintLine(stdout, line);
  return kDone;
}

// Audits one version, or all that exist.
absl::StatusOr<std::vector<SnapshotAudit>> Audit(Files& files, const SnapshotOptions& options) {
  ASSIGN_OR_RETURN(const std::string folder, FurthestReplica(files, AbsoluteFolder(options.dir)));
  std::vector<uint64_t> versions;
  if (options.version.has_value()) {
    versions.push_back(*options.version);
  } else {
    ASSIGN_OR_RETURN(const std::vector<SnapshotFile> all, ListSnapshotFiles(files, folder));
    for (const SnapshotFile& file : all) versions.push_back(file.version);
  }
  std::vector<SnapshotAudit> audits;
  for (const uint64_t version : versions) {
    absl::StatusOr<SnapshotAudit> audit = VerifySnapshot(files, folder, version);
    // A running daemon may have dropped one of "all" meanwhile.
    if (absl::IsNotFound(audit.status()) && !options.version.has_value()) continue;
    RETURN_IF_ERROR(audit.status());
    audits.push_back(*std::move(audit));
  }
  return audits;
}

int VerifySnapshots(const SnapshotOptions& options) {
  PosixFiles files;
  const absl::StatusOr<std::vector<SnapshotAudit>> audits = Audit(files, options);
  if (!audits.ok()) return Report(audits.status());
  if (options.json) {
    Json list = Json::array();
    for (const SnapshotAudit& audit : *audits) {
      Json json = FileJson(audit.file);
      json["blocks"] = audit.blocks;
      list.push_back(std::move(json));
    }
    std::fputs(JsonText(list).c_str(), stdout);
    return kDone;
  }
  for (const SnapshotAudit& audit : *audits) {
    std::printf("version %s: %s %s sound; state %s, by the chain %s\n",
                absl::StrCat(audit.file.version).c_str(), WithThousands(audit.blocks).c_str(),
                audit.blocks == 1 ? "block is" : "blocks are",
                ToHex(audit.file.state_digest).substr(0, kShortDigest).c_str(),
                ChainText(audit.file.chain).c_str());
  }
  return kDone;
}

// Before anything is written, says how much it will be and checks whether there is room.
absl::Status CheckRoomFor(const std::string& out, uint64_t bytes) {
  std::error_code error;
  const std::string parent = DirectoryOf(out);
  const std::filesystem::space_info space = std::filesystem::space(parent, error);
  if (error || space.available >= bytes) return absl::OkStatus();  // then the writing tells
  return absl::ResourceExhaustedError(absl::StrCat(out, " needs ", bytes,
                                                   " bytes, and the disk of ", parent, " has ",
                                                   space.available, " free"));
}

// Saves the state and, if the run has one, its tokenizer: everything that generating text needs.
absl::StatusOr<MaterializedSnapshot> SaveTo(Files& files, const std::string& replica,
                                            const std::string& out, uint64_t version) {
  ASSIGN_OR_RETURN(MaterializedSnapshot saved, SaveState(files, replica, out, version));
  const std::string tokenizer = absl::StrCat(replica, "/", kRunTokenizer);
  if (files.Exists(tokenizer)) {
    ASSIGN_OR_RETURN(const std::string text, ReadFile(files, tokenizer, kLargestTokenizer));
    RETURN_IF_ERROR(WriteFileDurably(files, absl::StrCat(out, "/", kRunTokenizer), BytesOf(text)));
  }
  return saved;
}

// Writes beside the folder and then renames, so that the folder exists complete or not at all.
absl::StatusOr<MaterializedSnapshot> SaveFolder(Files& files, const SnapshotOptions& options) {
  ASSIGN_OR_RETURN(const std::string replica, FurthestReplica(files, AbsoluteFolder(options.dir)));
  const std::string out = AbsoluteFolder(options.out);
  if (files.Exists(out)) {
    return absl::AlreadyExistsError(absl::StrCat(out, " is there already; nothing is overwritten"));
  }
  const uint64_t version = *options.version;
  ASSIGN_OR_RETURN(const uint64_t bytes, BytesToSave(files, replica, version));
  RETURN_IF_ERROR(CheckRoomFor(out, bytes));
  const std::string partial = absl::StrCat(out, ".partial");
  std::error_code error;
  std::filesystem::remove_all(partial, error);  // of one that was killed
  absl::StatusOr<MaterializedSnapshot> saved = SaveTo(files, replica, partial, version);
  absl::Status status = saved.status();
  if (status.ok()) status = files.Rename(partial, out);
  if (status.ok()) status = files.SyncDirectory(DirectoryOf(out));
  if (!status.ok()) {
    std::filesystem::remove_all(partial, error);
    return status;
  }
  saved->path = SnapshotPath(out, version);
  return saved;
}

int Save(const SnapshotOptions& options) {
  PosixFiles files;
  const absl::StatusOr<MaterializedSnapshot> saved = SaveFolder(files, options);
  if (!saved.ok()) return Report(saved.status());
  if (options.json) {
    const Json json = {{"version", saved->version},
                       {"dir", AbsoluteFolder(options.out)},
                       {"path", saved->path},
                       {"state_digest", ToHex(saved->state_digest)},
                       {"theta_offset", saved->theta_offset},
                       {"elements", saved->elements}};
    std::fputs(JsonText(json).c_str(), stdout);
    return kDone;
  }
  std::printf("version %s saved to %s; state %s; theta: %s fp32 values from byte %s of %s on\n",
              absl::StrCat(saved->version).c_str(), AbsoluteFolder(options.out).c_str(),
              ToHex(saved->state_digest).substr(0, kShortDigest).c_str(),
              WithThousands(saved->elements).c_str(), absl::StrCat(saved->theta_offset).c_str(),
              saved->path.c_str());
  return kDone;
}

void AddFolderOption(const Verb& verb, SnapshotOptions& options) {
  verb.Add("--dir", options.dir,
           "A peer's folder, or a local run's: then the peer that is furthest")
      .Folder()
      .Required();
  verb.Flag("--json", options.json, "Print as JSON");
}

}  // namespace

void AddSnapshotVerbs(CommandLine& command_line) {
  const auto list = std::make_shared<SnapshotOptions>();
  AddFolderOption(command_line.AddVerb("snapshot list", "List the snapshots of a replica",
                                       "atoll snapshot list --dir build/quickstart/peer-1",
                                       [list] { return ListSnapshots(*list); }),
                  *list);

  const auto verify = std::make_shared<SnapshotOptions>();
  const Verb verify_verb = command_line.AddVerb(
      "snapshot verify", "Check every block of the snapshots, and states by the log",
      "atoll snapshot verify --dir build/quickstart/peer-1",
      [verify] { return VerifySnapshots(*verify); });
  AddFolderOption(verify_verb, *verify);
  verify_verb.Add("--version", verify->version, "Of this version alone");

  const auto save = std::make_shared<SnapshotOptions>();
  const Verb save_verb = command_line.AddVerb(
      "snapshot save",
      "Write the state of a version to a folder\n"
      "Of any version that snapshots and log cover. generate, eval, export and log verify take the "
      "folder as --dir.",
      "atoll snapshot save --dir build/quickstart/peer-1 --version 30 --out state-of-30",
      [save] { return Save(*save); });
  AddFolderOption(save_verb, *save);
  save_verb.Add("--version", save->version, "Which one").Required();
  save_verb.Add("--out", save->out, "A folder that does not exist yet").Folder().Required();
}

}  // namespace atolld
