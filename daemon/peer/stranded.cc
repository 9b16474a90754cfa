#include "daemon/peer/stranded.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace atolld {
namespace {

std::string Lacks(uint64_t last, const std::optional<uint64_t>& held) {
  if (!held) return absl::StrCat("holds nothing and lacks the state of version ", last);
  const std::string holds = absl::StrCat("holds version ", *held, " and lacks ");
  if (*held >= last) return absl::StrCat(holds, "the state of the history");  // it has drifted
  if (*held + 1 == last) return absl::StrCat(holds, "entry ", last);
  return absl::StrCat(holds, "entries ", *held + 1, " to ", last);
}

}  // namespace

std::string StrandedLine(const v1::Seal& seal, const std::optional<uint64_t>& held,
                         const v1::Roster& roster, const v1::EntryHeader& newest,
                         const std::string& self, const std::string& why) {
  std::vector<std::string> holders;
  for (const v1::Member& member : roster.members()) {
    if (member.peer() == self || !member.has_state() || member.version() < seal.version()) continue;
    holders.push_back(absl::StrCat(member.peer(), " (", member.state(), ")"));
  }
  if (holders.empty() && newest.version() == seal.version()) {
    for (const v1::Contributor& contributor : newest.contributors()) {
      if (contributor.peer() != self) holders.push_back(contributor.peer());
    }
  }
  return absl::StrCat("run ", seal.run_id(), " is sealed at version ", seal.version(),
                      ", this replica ", Lacks(seal.version(), held), ", and nobody gives it (",
                      why, "). ",
                      holders.empty() ? "Nobody is known to have had it"
                                      : absl::StrCat("It was at ", absl::StrJoin(holders, ", ")),
                      ": start one that has it, then this peer again");
}

}  // namespace atolld
