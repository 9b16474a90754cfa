// `atoll peer receipt`: asks a coordinator for a receipt, or checks one without a coordinator.
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compression/base/bytes.h"
#include "compression/base/status_macros.h"
#include "daemon/cli/receipt_file.h"
#include "daemon/cli/verbs/admin_verb.h"
#include "daemon/cli/verbs/verbs.h"
#include "daemon/cli/worker_tool.h"
#include "daemon/env/posix_files.h"
#include "daemon/figures/status_json.h"
#include "daemon/replica/state/layout.h"
#include "daemon/replica/state/record.h"
#include "membership/history/receipt.h"

namespace atolld {
namespace {

struct ReceiptOptions {
  AdminOptions admin;
  std::string out;
  std::string verify;
  std::string key;
};

VerbExit GetReceipt(const ReceiptOptions& options) {
  ASSIGN_OR_RETURN(const CoordinatorAccess access, ResolveCoordinator(options.admin.source));
  AdminClient client(access);
  ASSIGN_OR_RETURN(const v1::Receipt receipt, client.IssueReceipt(options.admin.peer));
  const nlohmann::ordered_json json = ReceiptJson(receipt);
  if (!options.out.empty()) RETURN_IF_ERROR(WriteText(AbsoluteFolder(options.out), JsonText(json)));
  return PrintAnswer(options.out.empty() || options.admin.json, json, ReceiptText(receipt));
}

struct ReceiptVerdict {
  v1::Receipt receipt;
  std::string whose;  // the key, in words
  bool known = false;
};

// Returns the run's history key from a replica in the folder.
absl::StatusOr<std::string> KeyOfFolder(Files& files, const std::string& dir,
                                        const v1::Receipt& receipt) {
  ASSIGN_OR_RETURN(const std::string replica, FurthestReplica(files, AbsoluteFolder(dir)));
  v1::Genesis genesis;
  RETURN_IF_ERROR(ReadMessageFile(files, GenesisPath(replica), &genesis));
  const v1::RunSpec& spec = genesis.spec();
  if (spec.run_id() != receipt.run_id()) {
    return absl::FailedPreconditionError(absl::StrCat("the receipt is of run ", receipt.run_id(),
                                                      ", and ", replica, " holds run ",
                                                      spec.run_id()));
  }
  if (!spec.history_key().empty()) return spec.history_key();
  return absl::FailedPreconditionError(
      absl::StrCat("the history of run ", spec.run_id(), " in ", replica,
                   " is unsigned, so no receipt of it can be right"));
}

absl::StatusOr<ReceiptVerdict> CheckReceiptFile(const ReceiptOptions& options) {
  PosixFiles files;
  ReceiptVerdict checked;
  ASSIGN_OR_RETURN(const std::string text,
                   ReadFile(files, AbsoluteFolder(options.verify), kLargestReceipt));
  absl::StatusOr<v1::Receipt> parsed = ParseReceipt(text);
  if (!parsed.ok()) return Annotate(parsed.status(), options.verify);
  checked.receipt = *std::move(parsed);
  std::string key;
  if (!options.key.empty()) {
    key = BytesOfHex(options.key);
    checked.whose = "the key that --key gives";
  } else if (!options.admin.source.dir.empty()) {
    ASSIGN_OR_RETURN(key, KeyOfFolder(files, options.admin.source.dir, checked.receipt));
    checked.whose = absl::StrCat("the history key of run ", checked.receipt.run_id(), ", as ",
                                 options.admin.source.dir, " has it");
  } else {
    checked.whose =
        "the key that it names itself: whether that is the run's, --dir DIR or --key HEX tells";
  }
  checked.known = !key.empty();
  const absl::Status right = CheckReceipt(checked.receipt, key);
  if (!right.ok()) return Annotate(right, options.verify);
  return checked;
}

VerbExit VerifyReceipt(const ReceiptOptions& options) {
  ASSIGN_OR_RETURN(const ReceiptVerdict checked, CheckReceiptFile(options));
  std::vector<std::string> lines = ReceiptText(checked.receipt);
  lines.push_back(absl::StrCat("the signature is good, by ", checked.whose));
  return PrintAnswer(options.admin.json,
                     {{"signature", "good"},
                      {"key_is_known", checked.known},
                      {"signed_by", checked.whose},
                      {"receipt", ReceiptJson(checked.receipt)}},
                     lines);
}

VerbExit GetOrVerify(const ReceiptOptions& options) {
  const bool verifies = !options.verify.empty();
  std::string wrong;
  if (verifies == !options.admin.peer.empty()) {
    wrong = "name a PEER, or a file with --verify";
  } else if (!verifies && !options.key.empty()) {
    wrong = "--key goes with --verify";
  } else if (verifies && !options.out.empty()) {
    wrong = "--out goes with a PEER";
  } else if (!options.key.empty() && !IsHistoryKey(options.key)) {
    wrong = "--key takes 64 hexadecimal digits, as a receipt's history_key has them";
  }
  if (!wrong.empty()) return absl::InvalidArgumentError(wrong);
  return verifies ? VerifyReceipt(options) : GetReceipt(options);
}

}  // namespace

void AddReceiptVerb(CommandLine& command_line) {
  const auto options = std::make_shared<ReceiptOptions>();
  const Verb verb = command_line.AddVerb(
      "peer receipt",
      "Get, or check, a signed receipt for what a peer gave\n"
      "The coordinator signs it with the run's history key. Anybody can check it, without the "
      "coordinator: against a replica of the run (--dir), or the run's key (--key).",
      "atoll peer receipt peer-1 --dir build/quickstart --out peer-1.receipt",
      [options] { return GetOrVerify(*options); });
  verb.Add("PEER", options->admin.peer, "The peer's id");
  AddCoordinatorOptions(verb, options->admin.source,
                        "The folder of a local run: its coordinator is asked; with --verify, that "
                        "of a replica");
  verb.Add("--out", options->out, "Write it here, and print what it says").File();
  verb.Add("--verify", options->verify, "Check this receipt").File();
  verb.Add("--key", options->key, "The run's history key, hexadecimal");
  verb.Flag("--json", options->admin.json, "Print as JSON");
}

}  // namespace atolld
