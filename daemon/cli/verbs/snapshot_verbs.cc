// `atoll snapshot list`, `atoll snapshot verify` and `atoll snapshot save`.
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "daemon/cli/output.h"
#include "daemon/cli/verbs/verbs.h"
#include "daemon/cli/worker_tool.h"
#include "daemon/env/posix_files.h"
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

VerbExit ListSnapshots(const SnapshotOptions& options) {
  PosixFiles files;
  ASSIGN_OR_RETURN(const std::string folder, FurthestReplica(files, AbsoluteFolder(options.dir)));
  ASSIGN_OR_RETURN(const std::vector<SnapshotFile> snapshots, ListSnapshotFiles(files, folder));
  Json list = Json::array();
  for (const SnapshotFile& file : snapshots) list.push_back(FileJson(file));
  return PrintAnswer(options.json, list, FilesText(snapshots));
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

VerbExit VerifySnapshots(const SnapshotOptions& options) {
  PosixFiles files;
  ASSIGN_OR_RETURN(const std::vector<SnapshotAudit> audits, Audit(files, options));
  Json list = Json::array();
  std::vector<std::string> lines;
  for (const SnapshotAudit& audit : audits) {
    list.push_back(FileJson(audit.file));
    list.back()["blocks"] = audit.blocks;
    lines.push_back(absl::StrCat("version ", audit.file.version, ": ", WithThousands(audit.blocks),
                                 audit.blocks == 1 ? " block is" : " blocks are", " sound; state ",
                                 ToHex(audit.file.state_digest).substr(0, kShortDigest),
                                 ", by the chain ", ChainText(audit.file.chain)));
  }
  return PrintAnswer(options.json, list, lines);
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

VerbExit Save(const SnapshotOptions& options) {
  PosixFiles files;
  ASSIGN_OR_RETURN(const MaterializedSnapshot saved, SaveFolder(files, options));
  const std::string dir = AbsoluteFolder(options.out);
  const std::string digest = ToHex(saved.state_digest);
  return PrintAnswer(
      options.json,
      {{"version", saved.version},
       {"dir", dir},
       {"path", saved.path},
       {"state_digest", digest},
       {"theta_offset", saved.theta_offset},
       {"elements", saved.elements}},
      {absl::StrCat("version ", saved.version, " saved to ", dir, "; state ",
                    digest.substr(0, kShortDigest), "; theta: ", WithThousands(saved.elements),
                    " fp32 values from byte ", saved.theta_offset, " of ", saved.path, " on")});
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
