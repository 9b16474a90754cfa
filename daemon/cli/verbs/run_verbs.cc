// `atoll run show|watch|pause|resume|stop`: asked of a coordinator.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <memory>

#include "absl/strings/str_cat.h"
#include "daemon/cli/live_view.h"
#include "daemon/cli/process.h"
#include "daemon/cli/run_history.h"
#include "daemon/cli/run_watcher.h"
#include "daemon/cli/signals.h"
#include "daemon/cli/status_json.h"
#include "daemon/cli/verbs/admin_verb.h"
#include "daemon/cli/verbs/verbs.h"
#include "daemon/transport/admin_client.h"

namespace atolld {
namespace {

constexpr absl::Duration kTick = absl::Milliseconds(250);

// A coordinator that is started again, on another machine if need be, is back within this; one that
// is away for longer has perhaps ended with its run, unheard.
constexpr double kLongestAwaySeconds = 120;

int ShowRun(const AdminOptions& options) {
  return AskCoordinator<v1::RunStatus>(
      options, [](AdminClient& client) { return client.ShowRun(); }, RunStatusJson, RunStatusText);
}

// One line about what is so now.
std::vector<std::string> RunOrderText(const v1::RunStatus& status) {
  std::string line = absl::StrCat("run ", status.spec().run_id(), ": ", status.phase());
  if (status.stopping()) absl::StrAppend(&line, ", stopping");
  if (status.paused() && status.phase() != "paused") {
    absl::StrAppend(&line, ", then paused");
  }
  return {absl::StrCat(line, "; newest version ", status.version())};
}

int Order(const AdminOptions& options,
          const std::function<absl::StatusOr<v1::RunStatus>(AdminClient&)>& order) {
  return AskCoordinator<v1::RunStatus>(options, order, RunStatusJson, RunOrderText);
}

int Pause(const AdminOptions& options) {
  return Order(options, [&](AdminClient& client) { return client.PauseRun(options.reason); });
}

int Resume(const AdminOptions& options) {
  return Order(options, [](AdminClient& client) { return client.ResumeRun(); });
}

int Stop(const AdminOptions& options) {
  return Order(options, [&](AdminClient& client) { return client.StopRun(options.reason); });
}

// Until the run is sealed or somebody presses Ctrl-C; a coordinator that is away is waited for, but
// not for ever.
int Watch(const AdminOptions& options) {
  const absl::StatusOr<CoordinatorAccess> access = ResolveCoordinator(options.source);
  if (!access.ok()) return ReportNoAccess(access.status());
  // One question first: a wrong address is an error, not something to wait for.
  const absl::StatusOr<v1::RunStatus> first = AdminClient(*access).ShowRun();
  if (!first.ok()) return Report(first.status(), kFailed);
  SignalWaiter signals;
  Waker waker;
  RunHistory history;
  PlainLines plain;
  RunWatcher watcher(*access, waker);
  double answered = MonotonicSeconds();  // the coordinator, last
  std::unique_ptr<LiveScreen> screen;
  if (!options.json && isatty(STDOUT_FILENO) != 0) screen = std::make_unique<LiveScreen>(stdout);
  while (!history.sealed()) {
    if (signals.Wait(waker, kTick)) return kDone;
    if (!watcher.away()) answered = MonotonicSeconds();
    if (MonotonicSeconds() - answered >= kLongestAwaySeconds) {
      screen.reset();
      const std::string why =
          absl::StrCat("the coordinator at ", access->address, " has not answered for ",
                       kLongestAwaySeconds, " s; the run was not sealed when last heard of");
      return Report(absl::UnavailableError(why), kFailed);
    }
    for (const v1::RunStatus& status : watcher.Take()) {
      history.Take(status, MonotonicSeconds());
      if (options.json) {
        std::fputs(JsonLine(RunStatusJson(status)).c_str(), stdout);
        std::fflush(stdout);
        continue;
      }
      const std::vector<std::string> lines = plain.Tell(history, status);
      if (screen == nullptr) {
        PrintLines(lines);
      } else {
        for (const std::string& event : NotableEvents(status)) screen->PrintAbove(event);
      }
    }
    if (screen != nullptr) {
      screen->Draw(RenderLiveView(history, {}, history.elapsed_seconds(MonotonicSeconds()),
                                  TerminalWidth(stdout)));
    }
  }
  return kDone;
}

}  // namespace

void AddRunVerbs(CommandLine& command_line) {
  AddAdminVerb(command_line, "run show", "How a run stands",
               "atoll run show --coordinator 127.0.0.1:7070 --json", {}, ShowRun);
  AddAdminVerb(command_line, "run watch", "Follow a run until it is sealed",
               "atoll run watch --dir atoll-run-20250131-142501", {}, Watch);
  AddAdminVerb(command_line, "run pause",
               "Finish the exchange under way, then begin no round until `run resume`",
               "atoll run pause --reason 'moving the machines'", {AdminOption::kReason}, Pause);
  AddAdminVerb(command_line, "run resume", "Go on with a paused run",
               "atoll run resume --coordinator 127.0.0.1:7070", {}, Resume);
  AddAdminVerb(command_line, "run stop",
               "End a run at its newest version: it is evaluated and sealed",
               "atoll run stop --reason 'good enough'", {AdminOption::kReason}, Stop);
}

}  // namespace atolld
