// `atoll verify`: checks a published run, in a folder or under a URL.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compression/base/bytes.h"
#include "compression/base/status_macros.h"
#include "compression/base/words.h"
#include "daemon/cli/live_view.h"
#include "daemon/cli/output.h"
#include "daemon/cli/receipt_file.h"
#include "daemon/cli/verbs/verbs.h"
#include "daemon/cli/worker_tool.h"
#include "daemon/env/posix_files.h"
#include "daemon/env/scratch_folder.h"
#include "daemon/program/format.h"
#include "daemon/program/process.h"
#include "daemon/publication/site_check.h"
#include "daemon/publication/site_index.h"
#include "daemon/replica/state/layout.h"
#include "membership/history/checkpoint.h"
#include "membership/history/header.h"
#include "membership/history/lineage.h"
#include "membership/history/receipt.h"

namespace atolld {
namespace {

using Json = nlohmann::ordered_json;

struct VerifyOptions {
  std::string site;
  std::optional<uint64_t> from;
  std::optional<uint64_t> to;
  std::string key;
  bool json = false;
};

bool IsUrl(const std::string& site) {
  return absl::StartsWith(site, "http://") || absl::StartsWith(site, "https://");
}

absl::StatusOr<std::unique_ptr<Site>> OpenSite(Files& files, const std::string& name) {
  if (IsUrl(name)) {
    HttpClient::Options options;
    options.now = [] { return absl::UnixEpoch() + absl::Seconds(MonotonicSeconds()); };
    options.user_agent = absl::StrCat("atoll/", ATOLL_VERSION);
    return OpenWebSite(name, options);
  }
  const std::string folder = AbsoluteFolder(name);
  if (files.Exists(absl::StrCat(folder, "/", kSiteIndex))) return OpenFolderSite(files, folder);
  const bool run = ReplicaFolders(files, folder).ok();
  return absl::NotFoundError(
      absl::StrCat(folder, ": there is no ", kSiteIndex, ", so this is no published run",
                   run ? absl::StrCat("; it is a run's own folder, which `atoll log verify --dir ",
                                      name, "` checks")
                       : ""));
}

// How fast each part of the check went.
class Speeds {
 public:
  void Note(absl::string_view doing, uint64_t done) {
    const double now = MonotonicSeconds();
    Span& span = spans_[std::string(doing)];
    if (span.began == 0) span = {now, now, done, done};
    span.last = now;
    span.to = done;
  }
  // Returns pieces a second; 0 if nothing was measured.
  double Of(const std::string& doing) const {
    const auto found = spans_.find(doing);
    if (found == spans_.end() || found->second.last <= found->second.began) return 0;
    const Span& span = found->second;
    return static_cast<double>(span.to - span.from) / (span.last - span.began);
  }

 private:
  struct Span {
    double began = 0, last = 0;
    uint64_t from = 0, to = 0;
  };
  std::map<std::string, Span> spans_;
};

absl::StatusOr<std::vector<v1::Receipt>> ParseReceipts(const std::string& text,
                                                       const std::string& history_key) {
  ASSIGN_OR_RETURN(const nlohmann::json list, ParseShallowJson(text, /*depth=*/2));
  if (!list.is_array()) return absl::DataLossError("it is not a list of receipts");
  std::vector<v1::Receipt> receipts;
  for (const nlohmann::json& one : list) {
    const std::string own = one.is_object() ? one.dump() : "";
    if (own.size() > kLargestReceipt) {
      return absl::DataLossError(absl::StrCat("receipt ", receipts.size(), ": it is too long"));
    }
    absl::StatusOr<v1::Receipt> receipt = ParseReceipt(own);
    absl::Status status = receipt.status();
    if (status.ok()) status = CheckReceipt(*receipt, history_key);
    if (status.ok() && history_key.empty()) {
      status = absl::DataLossError("the history is unsigned, so no receipt of it can be right");
    }
    if (!status.ok()) {
      return absl::DataLossError(absl::StrCat("receipt ", receipts.size(), ": ", status.message()));
    }
    receipts.push_back(*std::move(receipt));
  }
  return receipts;
}

// Compares a receipt with what the headers up to its version add up to.
absl::Status Recount(const v1::Receipt& receipt, const HistorySummary& summary) {
  const v1::Account& said = receipt.account();
  ContributorSum sum;
  const auto found = summary.contributors().find(said.peer());
  if (found != summary.contributors().end()) sum = found->second;
  const v1::Account counted = AccountOf(sum, static_cast<double>(summary.headers()));
  // The shares were added in the same order; a last digit may have been lost on the way.
  const bool equal = said.rounds() == counted.rounds() && said.tokens() == counted.tokens() &&
                     said.steps() == counted.steps() &&
                     said.first_version() == counted.first_version() &&
                     said.last_version() == counted.last_version() &&
                     std::abs(said.share() - counted.share()) < 1e-9;
  if (equal) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("the receipt of ", said.peer(), " says ", said.rounds(),
                                          " rounds and ", said.tokens(), " tokens, the headers ",
                                          counted.rounds(), " and ", counted.tokens()));
}

// Checks the signatures, that each receipt is of this history and, if the site has all headers, the
// figures.
absl::StatusOr<uint64_t> CheckReceiptList(const std::string& text, const std::string& history_key,
                                          const CheckOrder::HeaderOf& header_of) {
  ASSIGN_OR_RETURN(std::vector<v1::Receipt> receipts, ParseReceipts(text, history_key));
  std::stable_sort(
      receipts.begin(), receipts.end(),
      [](const v1::Receipt& a, const v1::Receipt& b) { return a.version() < b.version(); });
  const bool all = header_of(1).ok();
  HistorySummary summary;
  for (const v1::Receipt& receipt : receipts) {
    const absl::StatusOr<v1::EntryHeader> own = header_of(receipt.version());
    if (!own.ok()) continue;
    if (ToBytes(HeaderDigest(*own)) != receipt.header_digest()) {
      return absl::DataLossError(
          absl::StrCat("the receipt of ", receipt.account().peer(), " is of another history"));
    }
    while (all && summary.version() < receipt.version()) {
      ASSIGN_OR_RETURN(const v1::EntryHeader next, header_of(summary.version() + 1));
      summary.Add(next, ToBytes(HeaderDigest(next)));
    }
    if (all) RETURN_IF_ERROR(Recount(receipt, summary));
  }
  return receipts.size();
}

// What no check of these files can tell.
std::vector<std::string> Unknown(const CheckedSite& checked) {
  const SiteIndex& index = checked.index;
  std::vector<std::string> lines = {
      "what the updates were: each mean is of updates that nobody has kept, so this check cannot "
      "say whether they were averaged rightly, or were made from the data that peers name",
      "who the peers are: their names, steps and tokens are what they and the coordinator told",
      "losses, their times, the epsilon that was spent and the coordinator's epoch, in story.json "
      "and on the page: not checked, they are the coordinator's word"};
  if (index.history_key.empty()) {
    lines.insert(lines.begin(),
                 "who wrote this history: it is unsigned, so anybody can have made these files");
  } else {
    lines.insert(lines.begin(),
                 "whose the history key is, and whether it has signed another history too: compare "
                 "the key and the digests with what the run's people say elsewhere");
  }
  if (index.first_header > 1) {
    lines.push_back(absl::StrCat("the entries before ", index.first_header,
                                 ": the site does not have their headers"));
  }
  if (index.state_version.value_or(0) > 0) {
    lines.push_back(absl::StrCat("how the state of version ", *index.state_version,
                                 " came about: the site does not have the payloads before it"));
  }
  if (!checked.page_compared) {
    lines.push_back(absl::StrCat(
        "what index.html shows: ", index.software.empty() ? "another release" : index.software,
        " has written it, and this is another release; story.json, from "
        "which it is made, agrees with the headers"));
  }
  if (!index.state_version) lines.push_back("the states: the site has the signed history alone");
  if (checked.last_unsaid) {
    lines.push_back(absl::StrCat("whether the state of version ", index.version,
                                 " is the run's: it was derived, and nobody has signed its digest "
                                 "yet"));
  }
  return lines;
}

std::string SpeedText(double per_second) {
  return per_second > 0 ? absl::StrCat(", ", FormatRate(per_second), " a second") : "";
}

std::string VersionsText(uint64_t first, uint64_t last) {
  return first == last ? absl::StrCat("version ", first)
                       : absl::StrCat("versions ", first, " to ", last);
}

std::vector<std::string> CheckedText(const CheckedSite& checked, const Speeds& speeds,
                                     double seconds) {
  const SiteIndex& index = checked.index;
  const bool keyed = !index.history_key.empty();
  std::vector<std::string> lines = {
      absl::StrCat("run ", index.run_id, index.name.empty() ? "" : ": ", index.name),
      absl::StrCat("  history key  ",
                   keyed ? absl::BytesToHexString(index.history_key) : "none, it is unsigned"),
      absl::StrCat("  genesis      ", ToHex(index.genesis_digest)),
      absl::StrCat("  files        ", checked.files, " of ", index.files.size(),
                   " have the SHA-256 that run.json says; ",
                   FormatBytes(static_cast<double>(checked.bytes)), " read in ",
                   FormatSeconds(seconds)),
      absl::StrCat("  headers      ", checked.headers, " of ", index.headers(), ": chain, ",
                   keyed ? "signatures, " : "", "weights and scalars",
                   SpeedText(speeds.Of(kCheckingHeaders)))};
  if (checked.genesis.spec().has_parent()) {
    lines.push_back(absl::StrCat("  branch of    ", LineageText(checked.genesis.spec().parent())));
  }
  if (index.state_version) {
    lines.push_back(absl::StrCat("  payloads     ", checked.payloads, " of ", index.payloads(),
                                 ": digests, and each replayed",
                                 SpeedText(speeds.Of(kCheckingStates))));
  }
  if (checked.receipts > 0) {
    lines.push_back(absl::StrCat("  receipts     ", checked.receipts, ": signatures"));
  }
  lines.push_back(index.sealed
                      ? absl::StrCat("  seal         of version ", index.version)
                      : "  seal         none: the run had not ended when this was published");
  const bool any = checked.states > 0;
  lines.push_back(
      absl::StrCat("verified: ", checked.states, " of ", Counted(checked.all_states, "state"),
                   any ? absl::StrCat(" (", VersionsText(checked.first, checked.last), ")") : "",
                   any && checked.state_digest && !checked.last_unsaid
                       ? absl::StrCat("; the last has digest ", ToHex(*checked.state_digest))
                       : ""));
  lines.push_back("These files cannot tell:");
  for (const std::string& line : Unknown(checked)) lines.push_back(absl::StrCat("  - ", line));
  return lines;
}

Json CheckedJson(const CheckedSite& checked, const Speeds& speeds, double seconds) {
  const SiteIndex& index = checked.index;
  const bool keyed = !index.history_key.empty();
  const bool any = checked.states > 0;
  return {
      {"run_id", index.run_id},
      {"name", index.name},
      {"history_key", keyed ? Json(absl::BytesToHexString(index.history_key)) : Json(nullptr)},
      {"genesis_digest", ToHex(index.genesis_digest)},
      {"version", index.version},
      {"sealed", index.sealed},
      {"files", checked.files},
      {"headers", checked.headers},
      {"payloads", checked.payloads},
      {"receipts", checked.receipts},
      {"states", checked.states},
      {"all_states", checked.all_states},
      {"first", any ? Json(checked.first) : Json(nullptr)},
      {"last", any ? Json(checked.last) : Json(nullptr)},
      {"state_digest", checked.state_digest ? Json(ToHex(*checked.state_digest)) : Json(nullptr)},
      {"last_state_unsigned", checked.last_unsaid},
      {"bytes", checked.bytes},
      {"seconds", seconds},
      {"headers_per_second", speeds.Of(kCheckingHeaders)},
      {"states_per_second", speeds.Of(kCheckingStates)},
      {"unknown", Unknown(checked)}};
}

VerbExit VerifySite(const VerifyOptions& options) {
  if (!options.key.empty() && !IsHistoryKey(options.key)) {
    return absl::InvalidArgumentError("--key takes 64 hexadecimal digits");
  }
  PosixFiles files;
  const double began = MonotonicSeconds();
  ASSIGN_OR_RETURN(const std::unique_ptr<Site> site, OpenSite(files, options.site));
  const char* const top = std::getenv("TMPDIR");
  const std::string prefix =
      absl::StrCat(top == nullptr || *top == '\0' ? "/tmp" : top, "/atoll-verify");
  ASSIGN_OR_RETURN(const std::unique_ptr<ScratchFolder> scratch, ScratchFolder::Make(prefix));
  CheckOrder order;
  order.from = options.from;
  order.to = options.to;
  order.history_key = BytesOfHex(options.key);
  order.software = absl::StrCat("atoll ", ATOLL_VERSION);
  order.scratch = scratch->path();
  ProgressLine progress;
  Speeds speeds;
  order.on_progress = [&](const CheckProgress& at) {
    speeds.Note(at.doing, at.done);
    const double speed = speeds.Of(std::string(at.doing));
    progress.Show(absl::StrCat(
        "checking ", at.doing, ": ", WithThousands(at.done), " of ", WithThousands(at.all),
        speed > 0 ? absl::StrCat(", ", FormatRate(speed), " a second") : ""));
  };
  order.check_receipts = CheckReceiptList;
  const absl::StatusOr<CheckedSite> checked = CheckSite(files, *site, order);
  progress.Clear();
  RETURN_IF_ERROR(checked.status());
  const double seconds = MonotonicSeconds() - began;
  return PrintAnswer(options.json, CheckedJson(*checked, speeds, seconds),
                     CheckedText(*checked, speeds, seconds));
}

}  // namespace

void AddVerifyVerb(CommandLine& command_line) {
  const auto options = std::make_shared<VerifyOptions>();
  const Verb verb = command_line.AddVerb(
      "verify",
      "Check a published run: derive its states anew\n"
      "It needs nothing but the files that `atoll run publish` has written. Exit code 1: a check "
      "has failed, and the line names the entry and the file.",
      "atoll verify build/site", [options] { return VerifySite(*options); });
  verb.Add("SITE", options->site, "The folder of a published run, or its URL").Path().Required();
  verb.Add("--from", options->from,
           "First version of interest [the oldest that can be derived]; those before it are "
           "derived too");
  verb.Add("--to", options->to, "Last version to derive [the newest]");
  verb.Add("--key", options->key, "The run's history key, hexadecimal, if you know it");
  verb.Flag("--json", options->json, "Print as JSON");
}

}  // namespace atolld
