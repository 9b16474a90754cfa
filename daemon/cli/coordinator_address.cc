#include "daemon/cli/coordinator_address.h"

#include <filesystem>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/cli/local_layout.h"
#include "daemon/posix_files.h"
#include "daemon/status_macros.h"

namespace atolld {

void AddCoordinatorOptions(CLI::App& verb, CoordinatorAddress& address,
                           const std::string& dir_meaning) {
  CLI::Option* option =
      verb.add_option("--coordinator", address.address, "The coordinator's address");
  verb.add_option("--dir", address.dir, dir_meaning)->excludes(option);
}

absl::StatusOr<std::string> ResolveCoordinator(const CoordinatorAddress& address) {
  if (address.dir.empty()) return address.address;
  PosixFiles files;
  ASSIGN_OR_RETURN(const std::vector<LocalProcess> processes,
                   ReadPeersFile(files, std::filesystem::absolute(address.dir).string()));
  for (const LocalProcess& process : processes) {
    if (process.role == "coordinator") return process.address;
  }
  return absl::DataLossError(absl::StrCat(address.dir, "/", kPeersFile, " names no coordinator"));
}

}  // namespace atolld
