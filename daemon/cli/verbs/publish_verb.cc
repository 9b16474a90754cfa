// `atoll run publish`: writes a run as a folder of static files.
#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "compression/base/terminal.h"
#include "daemon/cli/live_view.h"
#include "daemon/cli/local_layout.h"
#include "daemon/cli/output.h"
#include "daemon/cli/receipt_file.h"
#include "daemon/cli/run_metrics.h"
#include "daemon/cli/verbs/admin_verb.h"
#include "daemon/cli/verbs/verbs.h"
#include "daemon/cli/worker_tool.h"
#include "daemon/env/posix_files.h"
#include "daemon/figures/figures.h"
#include "daemon/program/format.h"
#include "daemon/publication/publication_rules.h"
#include "daemon/publication/site_writer.h"
#include "daemon/replica/state/replay.h"
#include "membership/history/receipt.h"

namespace atolld {
namespace {

using Json = nlohmann::ordered_json;

// A coordinator that runs on this machine answers at once.
constexpr absl::Duration kCoordinatorPatience = absl::Seconds(5);

struct PublishOptions {
  std::string dir;
  std::string out;
  std::string name;
  std::string receipts;
  bool no_parameters = false;
  bool yes = false;
  bool json = false;
};

CoordinatorWord FiguresOf(const std::vector<Json>& rows) {
  CoordinatorWord told;
  for (const Json& row : rows) {
    const auto known = [&row](const char* column) -> std::optional<double> {
      const auto found = row.find(column);
      return found == row.end() ? std::nullopt : FigureOf(*found);
    };
    ToldLoss loss;
    loss.version = row.at("version").get<uint64_t>();
    loss.elapsed_seconds = known("time/elapsed_seconds").value_or(0);
    loss.train = known("train/loss");
    loss.validation = known("validation/loss");
    told.losses.push_back(loss);
    told.epsilon = std::max(told.epsilon, known("privacy/epsilon").value_or(0));
  }
  return told;
}

// Asks the coordinator of a local run for all rounds.
absl::StatusOr<CoordinatorWord> AskCoordinatorOf(Files& files, const std::string& dir) {
  ASSIGN_OR_RETURN(const LocalProcess coordinator, FindCoordinator(files, dir));
  AdminClient client(AccessOf(files, coordinator), kCoordinatorPatience);
  std::vector<v1::RunStatus> pages;
  for (uint64_t next = 1;;) {
    ASSIGN_OR_RETURN(pages.emplace_back(), client.ShowRun(next, 0));
    const v1::RunStatus& page = pages.back();
    if (page.rounds().empty() || page.rounds().rbegin()->version() >= page.version()) break;
    next = page.rounds().rbegin()->version() + 1;
  }
  CoordinatorWord told = FiguresOf(RunMetrics(pages));
  told.epoch = pages.back().epoch();
  return told;
}

// Returns what only the coordinator knew: from itself, if it runs, or from the figures that it left
// in a local run's folder. A peer's folder has none.
CoordinatorWord WordOf(Files& files, const std::string& dir, const std::string& replica) {
  if (dir == replica) return {};
  absl::StatusOr<CoordinatorWord> told = AskCoordinatorOf(files, dir);
  if (told.ok()) return *std::move(told);
  const absl::StatusOr<std::vector<Json>> left = ReadMetrics(files, dir);
  return left.ok() ? FiguresOf(*left) : CoordinatorWord{};
}

// Returns the text of receipts.json; empty without a folder of receipts.
absl::StatusOr<std::string> ReceiptsIn(Files& files, const std::string& folder,
                                       const v1::RunSpec& spec) {
  if (folder.empty()) return "";
  ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(AbsoluteFolder(folder)));
  Json list = Json::array();
  for (const std::string& name : names) {
    const std::string path = absl::StrCat(AbsoluteFolder(folder), "/", name);
    ASSIGN_OR_RETURN(const std::string text, ReadFile(files, path, kLargestReceipt));
    const absl::StatusOr<v1::Receipt> receipt = ParseReceipt(text);
    if (!receipt.ok()) return Annotate(receipt.status(), path);
    if (receipt->run_id() != spec.run_id()) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": it is a receipt of run ",
                                                     receipt->run_id(), ", and this is run ",
                                                     spec.run_id()));
    }
    RETURN_IF_ERROR(Annotate(CheckReceipt(*receipt, spec.history_key()), path));
    list.push_back(ReceiptJson(*receipt));
  }
  return absl::StrCat(list.dump(2), "\n");
}

std::string EntriesText(uint64_t first, uint64_t last) {
  if (first > last) return "none";
  return first == last ? absl::StrCat("of entry ", first)
                       : absl::StrCat("of entries ", first, " to ", last);
}

std::vector<std::string> PlanText(const SitePlan& plan, const PublishOrder& order,
                                  const std::vector<std::string>& notes) {
  std::vector<std::vector<std::string>> rows;
  const auto row = [&rows](const std::string& what, uint64_t bytes, const std::string& is) {
    rows.push_back({what, FormatBytes(static_cast<double>(bytes)), is});
  };
  row("headers", plan.header_bytes, EntriesText(plan.first_header, plan.version));
  if (order.parameters) {
    row("state", plan.state_bytes, absl::StrCat("of version ", plan.base));
    row("payloads", plan.payload_bytes, EntriesText(plan.base + 1, plan.version));
  }
  row("in all, about", plan.bytes(), absl::StrCat("in ", order.out));
  std::vector<std::string> lines = {
      absl::StrCat("run ", plan.genesis.spec().run_id(), ", from ", order.replica)};
  for (std::string& line : AlignColumns(std::move(rows), "<><")) {
    lines.push_back(absl::StrCat("  ", line));
  }
  if (order.parameters && plan.base > 0) {
    lines.push_back(absl::StrCat(
        "the oldest snapshot here is of version ", plan.base,
        ": nobody can derive the states before it from this site; [peer] keep_snapshots and "
        "snapshot_every say how far a peer's log reaches back"));
  }
  for (const std::string& note : notes) lines.push_back(absl::StrCat("note: ", note));
  return lines;
}

Json PublishedJson(const SiteIndex& index, const PublishOrder& order,
                   const std::vector<std::string>& notes) {
  Json json = SiteIndexJson(index);
  json["out"] = order.out;
  json["from"] = order.replica;
  json["notes"] = notes;
  return json;
}

absl::Status Allowed(const PublicationRules& rules, bool yes) {
  RETURN_IF_ERROR(rules.refusal);
  if (rules.consent.empty() || yes) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      rules.consent, ": --yes publishes it, --no-parameters leaves means and states out"));
}

VerbExit Publish(const PublishOptions& options) {
  PosixFiles files;
  RETURN_IF_ERROR(Annotate(CheckSiteName(options.name), "--name"));
  PublishOrder order;
  const std::string dir = AbsoluteFolder(options.dir);
  ASSIGN_OR_RETURN(order.replica, FurthestReplica(files, dir));
  order.out = AbsoluteFolder(options.out);
  order.name = options.name;
  order.software = absl::StrCat("atoll ", ATOLL_VERSION);
  order.parameters = !options.no_parameters;
  RETURN_IF_ERROR(CheckFreePlace(files, order.out));
  ASSIGN_OR_RETURN(const SitePlan plan, PlanSite(files, order));
  PublicationRules rules = RulesOf(plan, order.parameters);
  if (!options.json) PrintLines(PlanText(plan, order, rules.notes));
  std::fflush(stdout);
  RETURN_IF_ERROR(Allowed(rules, options.yes));
  RETURN_IF_ERROR(CheckRoomFor(order.out, plan.bytes()));
  ASSIGN_OR_RETURN(order.receipts, ReceiptsIn(files, options.receipts, plan.genesis.spec()));
  order.told = WordOf(files, dir, order.replica);
  // A running peer may have committed an entry since, and another party's update with it.
  order.allow = [&](const SitePlan& written) {
    rules = RulesOf(written, order.parameters);
    return Allowed(rules, options.yes);
  };
  ProgressLine progress;
  ASSIGN_OR_RETURN(const SiteIndex index, WriteSite(files, order, [&](uint64_t done, uint64_t all) {
                     progress.Show(absl::StrCat("writing ", FormatBytes(static_cast<double>(done)),
                                                " of ", FormatBytes(static_cast<double>(all))));
                   }));
  progress.Clear();
  return PrintAnswer(
      options.json, PublishedJson(index, order, rules.notes),
      {absl::StrCat("wrote ", index.files.size() + 1, " files, ",
                    FormatBytes(static_cast<double>(index.bytes())), ", to ", order.out),
       absl::StrCat("check it: ", ShellCommand({"atoll", "verify", order.out}))});
}

}  // namespace

void AddPublishVerb(CommandLine& command_line) {
  const auto options = std::make_shared<PublishOptions>();
  const Verb verb = command_line.AddVerb(
      "run publish",
      "Write a run as static files that anybody can verify\n"
      "Any web server can serve the folder. It has a page that tells of the run, and everything "
      "that `atoll verify` needs to derive the run's states anew.",
      "atoll run publish --dir build/quickstart --out build/site --name 'The quickstart'",
      [options] { return Publish(*options); });
  verb.Add("--dir", options->dir,
           "A peer's folder, or a local run's: then the peer that is furthest")
      .Folder()
      .Required();
  verb.Add("--out", options->out, "The folder to write: a new or an empty one").Folder().Required();
  verb.Add("--name", options->name, "What people call the run");
  verb.Add("--receipts", options->receipts, "A folder of peers' receipts, to publish them too")
      .Folder();
  verb.Flag("--no-parameters", options->no_parameters,
            "Leave states and payloads out: only the signed history is published");
  verb.Flag("--yes", options->yes,
            "Publish what tells of private data: means without noise, or a branch's states");
  verb.Flag("--json", options->json, "Print as JSON");
}

}  // namespace atolld
