#include "daemon/cli/receipt_file.h"

#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "compression/base/bytes.h"
#include "compression/base/status_macros.h"
#include "daemon/program/format.h"
#include "membership/history/signing_key.h"

namespace atolld {
namespace {

using Json = nlohmann::ordered_json;

bool IsHexadecimal(const std::string& text) {
  return text.size() % 2 == 0 &&
         text.find_first_not_of("0123456789abcdefABCDEF") == std::string::npos;
}

// Takes the fields out of an object one by one, and remembers the first that is wrong.
class ReceiptFields {
 public:
  explicit ReceiptFields(const Json& json) : json_(json) {}

  std::string Text(const char* name) {
    const Json* const value = Take(name);
    if (value == nullptr) return "";
    if (!value->is_string()) return Wrong(name, "a text"), "";
    return value->get<std::string>();
  }
  std::string Hex(const char* name) {
    const std::string text = Text(name);
    if (status_.ok() && !IsHexadecimal(text)) return Wrong(name, "hexadecimal"), "";
    return BytesOfHex(text);
  }
  uint64_t Whole(const char* name) {
    const Json* const value = Take(name);
    if (value == nullptr) return 0;
    if (!value->is_number_unsigned()) return Wrong(name, "a whole number"), 0;
    return value->get<uint64_t>();
  }
  double Real(const char* name) {
    const Json* const value = Take(name);
    if (value == nullptr) return 0;
    if (!value->is_number()) return Wrong(name, "a number"), 0;
    return value->get<double>();
  }

  // OK: all were there, as they should be, and nothing else.
  absl::Status End() {
    for (const auto& [name, value] : json_.items()) {
      if (status_.ok() && taken_.count(name) == 0) {
        status_ = absl::InvalidArgumentError(
            absl::StrCat("not a receipt: it has the unknown key \"", name, "\""));
      }
    }
    return status_;
  }

 private:
  const Json* Take(const char* name) {
    taken_.insert(name);
    const auto found = json_.find(name);
    if (found != json_.end()) return &*found;
    if (status_.ok()) {
      status_ =
          absl::InvalidArgumentError(absl::StrCat("not a receipt: \"", name, "\" is missing"));
    }
    return nullptr;
  }
  void Wrong(const char* name, const char* wanted) {
    if (!status_.ok()) return;
    status_ =
        absl::InvalidArgumentError(absl::StrCat("not a receipt: \"", name, "\" is not ", wanted));
  }

  const Json& json_;
  std::set<std::string> taken_;
  absl::Status status_;
};

}  // namespace

nlohmann::ordered_json ReceiptJson(const v1::Receipt& receipt) {
  const v1::Account& account = receipt.account();
  return {{"run_id", receipt.run_id()},
          {"peer", account.peer()},
          {"rounds", account.rounds()},
          {"tokens", account.tokens()},
          {"steps", account.steps()},
          {"first_version", account.first_version()},
          {"last_version", account.last_version()},
          {"share", account.share()},
          {"version", receipt.version()},
          {"header_digest", absl::BytesToHexString(receipt.header_digest())},
          {"issued_unix_seconds", receipt.issued_unix_seconds()},
          {"history_key", absl::BytesToHexString(receipt.history_key())},
          {"signature", absl::BytesToHexString(receipt.signature())}};
}

std::vector<std::string> ReceiptText(const v1::Receipt& receipt) {
  const v1::Account& account = receipt.account();
  return AlignColumns(
      {{"run", receipt.run_id()},
       {"peer", account.peer()},
       {"rounds", absl::StrCat(account.rounds(), ", from version ", account.first_version(), " to ",
                               account.last_version())},
       {"tokens", WithThousands(account.tokens())},
       {"inner steps", WithThousands(account.steps())},
       {"share of the means", absl::StrFormat("%.2f %%", 100 * account.share())},
       {"counted up to", absl::StrCat("version ", receipt.version(), ", header ",
                                      absl::BytesToHexString(receipt.header_digest()))},
       {"issued", absl::FormatTime("%Y-%m-%d %H:%M:%S UTC",
                                   absl::FromUnixSeconds(receipt.issued_unix_seconds()),
                                   absl::UTCTimeZone())},
       {"signed by key", absl::BytesToHexString(receipt.history_key())}},
      "<<");
}

absl::StatusOr<v1::Receipt> ParseReceipt(const std::string& text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    return absl::InvalidArgumentError("not a receipt: it is not a JSON object");
  }
  ReceiptFields fields(json);
  v1::Receipt receipt;
  receipt.set_run_id(fields.Text("run_id"));
  v1::Account& account = *receipt.mutable_account();
  account.set_peer(fields.Text("peer"));
  account.set_rounds(fields.Whole("rounds"));
  account.set_tokens(fields.Whole("tokens"));
  account.set_steps(fields.Whole("steps"));
  account.set_first_version(fields.Whole("first_version"));
  account.set_last_version(fields.Whole("last_version"));
  account.set_share(fields.Real("share"));
  receipt.set_version(fields.Whole("version"));
  receipt.set_header_digest(fields.Hex("header_digest"));
  receipt.set_issued_unix_seconds(static_cast<int64_t>(fields.Whole("issued_unix_seconds")));
  receipt.set_history_key(fields.Hex("history_key"));
  receipt.set_signature(fields.Hex("signature"));
  RETURN_IF_ERROR(fields.End());
  return receipt;
}

bool IsHistoryKey(const std::string& text) {
  return text.size() == 2 * kPublicKeyBytes && IsHexadecimal(text);
}

}  // namespace atolld
