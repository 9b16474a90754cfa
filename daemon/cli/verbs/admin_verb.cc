#include "daemon/cli/verbs/admin_verb.h"

#include <filesystem>
#include <memory>

#include "absl/time/clock.h"
#include "compression/base/status_macros.h"
#include "daemon/cli/local_layout.h"
#include "daemon/cli/peer_ledger.h"
#include "daemon/env/posix_files.h"
#include "daemon/identity/credentials.h"

namespace atolld {

void AddCoordinatorOptions(const Verb& verb, CoordinatorAddress& address,
                           const std::string& dir_meaning) {
  const Option option = verb.Add("--coordinator", address.address, "The coordinator's address");
  verb.Add("--dir", address.dir, dir_meaning).Folder().Excludes(option);
  const Option identity =
      verb.Add("--identity", address.identity,
               "The folder of the administrator's credentials: the coordinator makes it, "
               "\"admin\" in its own folder")
          .Folder();
  verb.Flag("--plaintext", address.plaintext, "The coordinator runs without certificates")
      .Excludes(identity);
}

absl::StatusOr<CoordinatorAccess> ResolveCoordinator(const CoordinatorAddress& address) {
  PosixFiles files;
  CoordinatorAccess access{address.address, address.identity};
  if (!address.dir.empty()) {
    ASSIGN_OR_RETURN(const LocalProcess coordinator,
                     FindCoordinator(files, std::filesystem::absolute(address.dir).string()));
    access = AccessOf(files, coordinator);
  } else if (access.identity.empty() && !address.plaintext) {
    return absl::InvalidArgumentError(
        "a coordinator serves administrators alone: name the folder of their credentials "
        "(--identity COORDINATOR_DIR/admin), or a local run's (--dir DIR)");
  }
  if (!access.identity.empty()) {
    const absl::StatusOr<CertificateInfo> info =
        LoadCredentials(files, access.identity, absl::Now());
    RETURN_IF_ERROR(info.status());
  }
  return access;
}

// -----------------------------------------------------------------------------------------------

void AddAdminVerb(CommandLine& command_line, const std::string& path, const std::string& summary,
                  const std::string& example, const std::set<AdminOption>& takes,
                  VerbExit (*action)(const AdminOptions&)) {
  const auto options = std::make_shared<AdminOptions>();
  const Verb verb =
      command_line.AddVerb(path, summary, example, [options, action] { return action(*options); });
  if (takes.count(AdminOption::kPeer) != 0) {
    verb.Add("PEER", options->peer, "The peer's id").Required();
  }
  AddCoordinatorOptions(verb, options->source,
                        "The folder of a local run: its coordinator is asked");
  if (takes.count(AdminOption::kReason) != 0) {
    verb.Add("--reason", options->reason,
             "The reason, for the log and for those who look at the run");
  }
  if (takes.count(AdminOption::kUndo) != 0) {
    verb.Flag("--undo", options->undo, "Let it come back");
  }
  if (takes.count(AdminOption::kRounds) != 0) {
    verb.Add("--from", options->from,
             "List the rounds from this version on, else the newest; 1000 at a time");
    verb.Add("--limit", options->limit, "List this many rounds");
  }
  if (takes.count(AdminOption::kLedger) != 0) {
    verb.Add("--sort", options->sort, "What to sort them by, greatest first").OneOf(LedgerOrders());
    verb.Flag("--all", options->all, "Also list those that contributed and have left");
  }
  if (takes.count(AdminOption::kResults) != 0) {
    verb.Add("--results", options->results,
             "Once it is sealed, leave report.json and metrics.jsonl in this folder [none]")
        .Folder()
        .NotEmpty();
  }
  if (takes.count(AdminOption::kFormat) != 0) {
    verb.Add("--format", options->format, "How they are printed")
        .OneOf({"csv", "jsonl", "prometheus"});
    verb.Add("--from", options->from, "Begin at this version");
    verb.Flag("--json", options->json, "The same as --format jsonl");
    return;
  }
  verb.Flag("--json", options->json, "Print as JSON");
}

}  // namespace atolld
