// `atoll run show`, `atoll run watch` and `atoll peer list`: asked of a coordinator.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <memory>

#include "absl/strings/str_cat.h"
#include "daemon/cli/coordinator_address.h"
#include "daemon/cli/live_view.h"
#include "daemon/cli/run_history.h"
#include "daemon/cli/run_watcher.h"
#include "daemon/cli/signals.h"
#include "daemon/cli/status_json.h"
#include "daemon/cli/verbs.h"
#include "daemon/transport/admin_client.h"

namespace atolld {
namespace {

constexpr absl::Duration kTick = absl::Milliseconds(250);

struct RunOptions {
  CoordinatorAddress source;
  bool json = false;
};

double MonotonicSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void PrintLines(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

absl::StatusOr<v1::RunStatus> Ask(const CoordinatorAddress& source) {
  const absl::StatusOr<std::string> address = ResolveCoordinator(source);
  if (!address.ok()) return address.status();
  AdminClient client(*address);
  return client.ShowRun();
}

int Show(const RunOptions& options, bool peers_alone) {
  const absl::StatusOr<v1::RunStatus> status = Ask(options.source);
  if (!status.ok()) return Report(status.status(), kFailed);
  if (options.json) {
    std::fputs(JsonText(peers_alone ? PeersJson(*status) : RunStatusJson(*status)).c_str(), stdout);
  } else {
    PrintLines(peers_alone ? PeersText(*status) : RunStatusText(*status));
  }
  return kDone;
}

// Until the run is sealed or somebody presses Ctrl-C; a coordinator that is away is waited for.
int Watch(const RunOptions& options) {
  const absl::StatusOr<std::string> address = ResolveCoordinator(options.source);
  if (!address.ok()) return Report(address.status(), kFailed);
  // One question first: a wrong address is an error, not something to wait for.
  const absl::StatusOr<v1::RunStatus> first = Ask(options.source);
  if (!first.ok()) return Report(first.status(), kFailed);
  SignalWaiter signals;
  Waker waker;
  RunHistory history;
  PlainLines plain;
  RunWatcher watcher(*address, waker);
  std::unique_ptr<LiveScreen> screen;
  if (!options.json && isatty(STDOUT_FILENO) != 0) screen = std::make_unique<LiveScreen>(stdout);
  while (!history.sealed()) {
    if (signals.Wait(waker, kTick)) return kDone;
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
  constexpr char kDirMeaning[] = "The folder of a local run: its coordinator is asked";
  const auto add = [&](const std::string& path, const std::string& summary,
                       const std::string& example, int (*action)(const RunOptions&)) {
    const auto options = std::make_shared<RunOptions>();
    CLI::App* verb = command_line.AddVerb(path, summary, example,
                                          [options, action] { return action(*options); });
    AddCoordinatorOptions(*verb, options->source, kDirMeaning);
    verb->add_flag("--json", options->json, "Print as JSON");
  };
  add("run show", "How a run stands", "atoll run show --coordinator 127.0.0.1:7070 --json",
      [](const RunOptions& options) { return Show(options, false); });
  add("run watch", "Follow a run until it is sealed",
      "atoll run watch --dir atoll-run-20250131-142501", Watch);
  add("peer list", "The peers of a run", "atoll peer list --coordinator 127.0.0.1:7070",
      [](const RunOptions& options) { return Show(options, true); });
}

}  // namespace atolld
