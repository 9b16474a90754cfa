#include "daemon/cli/verbs/admin_verb.h"

#include <cstdio>
#include <memory>

#include "absl/strings/match.h"

namespace atolld {

void AddAdminVerb(CommandLine& command_line, const std::string& path, const std::string& summary,
                  const std::string& example, const std::set<AdminOption>& takes,
                  int (*action)(const AdminOptions&)) {
  const auto options = std::make_shared<AdminOptions>();
  const Verb verb =
      command_line.AddVerb(path, summary, example, [options, action] { return action(*options); });
  if (takes.count(AdminOption::kPeer) != 0) {
    verb.Add("PEER", options->peer, "The peer's id").Required();
  }
  AddCoordinatorOptions(verb, options->source,
                        "The folder of a local run: its coordinator is asked");
  if (takes.count(AdminOption::kReason) != 0) {
    verb.Add("--reason", options->reason, "Why, for the log and whoever looks");
  }
  if (takes.count(AdminOption::kUndo) != 0) {
    verb.Flag("--undo", options->undo, "Let it come back");
  }
  verb.Flag("--json", options->json, "Print as JSON");
}

void PrintLines(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) {
    std::printf("%s%s", line.c_str(), absl::EndsWith(line, "\n") ? "" : "\n");
  }
  std::fflush(stdout);
}

int ReportNoAccess(const absl::Status& status) {
  return Report(status, absl::IsInvalidArgument(status) ? kWrongCall : kFailed);
}

int ReportRefusal(const absl::Status& status) {
  const bool wrong = absl::IsNotFound(status) || absl::IsInvalidArgument(status);
  return Report(status, wrong ? kWrongCall : kFailed);
}

}  // namespace atolld
