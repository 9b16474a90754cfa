// `atoll identity issue`: credentials for a process, signed on the coordinator's machine.
//
// For machines that are all their operator's: who has the coordinator's folder needs no tokens.
#include <filesystem>
#include <memory>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "compression/base/names.h"
#include "compression/base/status_macros.h"
#include "daemon/cli/verbs/verbs.h"
#include "daemon/env/posix_files.h"
#include "daemon/identity/cluster.h"
#include "daemon/identity/credentials.h"

namespace atolld {
namespace {

struct IdentityOptions {
  std::string dir;
  std::string id;
  std::string role = "peer";
  std::string run;
  std::string out;
};

std::string Absolute(const std::string& path) { return std::filesystem::absolute(path).string(); }

absl::Status Issue(const IdentityOptions& options) {
  if (!IsValidId(options.id)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--id '", options.id, "': an id has ", kIdGrammar));
  }
  if (!options.run.empty() && !IsValidId(options.run)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--run '", options.run, "': a run's id has ", kIdGrammar));
  }
  const absl::StatusOr<Role> role = ParseRole(options.role);
  if (!role.ok() || *role == Role::kJoin || *role == Role::kCoordinator) {
    return absl::InvalidArgumentError(
        absl::StrCat("--role '", options.role, "': it is peer, aggregator or admin"));
  }
  PosixFiles files;
  std::random_device device;
  const auto random = [&device] { return uint64_t{device()} << 32 | device(); };
  const absl::Time now = absl::Now();
  ASSIGN_OR_RETURN(const std::unique_ptr<Authority> authority,
                   OpenCluster(files, Absolute(options.dir), options.run, now, random));
  return EnsureCredentials(files, *authority, Absolute(options.out), *role, options.id, now);
}

int IssueIdentity(const IdentityOptions& options) {
  const absl::Status status = Issue(options);
  if (!status.ok()) return Report(status, absl::IsInvalidArgument(status) ? kWrongCall : kFailed);
  std::printf("%s\n", Absolute(options.out).c_str());
  return kDone;
}

}  // namespace

void AddIdentityVerbs(CommandLine& command_line) {
  const auto options = std::make_shared<IdentityOptions>();
  const Verb verb = command_line.AddVerb(
      "identity issue",
      "Credentials for a process of your own, signed with the authority in the coordinator's "
      "folder (made there if it has none); those that are there and valid stay",
      "atoll identity issue --dir coordinator --id peer-1 --out peer-1/identity",
      [options] { return IssueIdentity(*options); });
  verb.Add("--dir", options->dir, "The coordinator's folder").Required();
  verb.Add("--id", options->id, "The process's [peer] id").Required();
  verb.Add("--role", options->role, "peer, aggregator or admin");
  verb.Add("--run", options->run, "The name of an authority that has to be made");
  verb.Add("--out", options->out, "Where to put them: identity in the process's [peer] dir")
      .Required();
}

}  // namespace atolld
