// `atoll-worker data prepare` and `atoll-worker data inspect`.
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "compression/base/status_macros.h"
#include "worker/base/flags.h"
#include "worker/data/prepare.h"
#include "worker/data/token_source.h"
#include "worker/program/commands.h"

namespace atolld {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kMostThreads = 256;

// Anything but "true" and "false" is a slip.
absl::StatusOr<bool> Truth(const Flags& flags, const std::string& name) {
  ASSIGN_OR_RETURN(const std::string text, flags.Text(name, "false"));
  if (text == "true" || text == "false") return text == "true";
  return absl::InvalidArgumentError(
      absl::StrCat("--", name, " is \"", text, "\"; it must be true or false"));
}

void Print(const Json& json) {
  std::cout << json.dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
}

// A bar that is drawn over itself on a terminal; elsewhere a line now and then.
class Progress {
 public:
  void Show(uint64_t done, uint64_t all, uint64_t found) {
    const absl::Time now = absl::Now();
    if (done < all && now < next_) return;
    next_ = now + (terminal_ ? absl::Milliseconds(100) : absl::Seconds(10));
    const double seconds = absl::ToDoubleSeconds(now - began_);
    const double share = static_cast<double>(done) / static_cast<double>(all);
    std::string bar(static_cast<size_t>(30 * share), '#');
    bar.resize(30, '.');
    std::cerr << absl::StrFormat(
        "%s[%s] %3.0f%%  %.1f of %.1f MB, %.1f MB/s%s%s", terminal_ ? "\r" : "", bar, 100 * share,
        static_cast<double>(done) / 1e6, static_cast<double>(all) / 1e6,
        static_cast<double>(done - found) / 1e6 / std::max(seconds, 1e-9),
        found == 0 ? "" : absl::StrFormat(", %.1f MB were done", static_cast<double>(found) / 1e6),
        terminal_ && done < all ? "" : "\n");
    std::cerr << std::flush;
  }

 private:
  const bool terminal_ = ::isatty(STDERR_FILENO) != 0;
  const absl::Time began_ = absl::Now();
  absl::Time next_ = began_;
};

absl::Status RunPrepare(const std::vector<std::string>& arguments) {
  ASSIGN_OR_RETURN(const Flags flags,
                   Flags::Parse(arguments, {"input", "output", "tokenizer", "field",
                                            "validation-fraction", "threads", "json"}));
  PrepareOptions options;
  ASSIGN_OR_RETURN(options.input, flags.Text("input"));
  ASSIGN_OR_RETURN(options.output, flags.Text("output"));
  ASSIGN_OR_RETURN(options.tokenizer, flags.Text("tokenizer", "bytes"));
  ASSIGN_OR_RETURN(options.field, flags.Text("field", ""));
  ASSIGN_OR_RETURN(options.validation_fraction,
                   flags.Number("validation-fraction", options.validation_fraction));
  ASSIGN_OR_RETURN(const uint64_t threads, flags.Count("threads", 1));
  ASSIGN_OR_RETURN(const bool json, Truth(flags, "json"));
  if (threads == 0 || threads > kMostThreads) {
    return absl::InvalidArgumentError(
        absl::StrCat("--threads is ", threads, "; it must be 1 to ", kMostThreads));
  }
  options.threads = static_cast<uint32_t>(threads);
  Progress progress;
  options.progress = [&](uint64_t done, uint64_t all, uint64_t found) {
    progress.Show(done, all, found);
  };
  const absl::Time began = absl::Now();
  ASSIGN_OR_RETURN(const PreparedInfo info, PrepareData(options));
  const double seconds = absl::ToDoubleSeconds(absl::Now() - began);
  if (json) {
    Json out = Json::parse(FormatPreparedInfo(info));
    out["seconds"] = seconds;
    Print(out);
    return absl::OkStatus();
  }
  std::cout << absl::StrFormat(
      "%s: %d training and %d validation tokens of %d bytes each, vocabulary %d (%s), "
      "%.2f bytes of text a token, %.1f MB/s\n",
      options.output, info.train_tokens, info.validation_tokens, info.width, info.vocabulary,
      info.tokenizer,
      static_cast<double>(info.source_bytes) /
          static_cast<double>(info.train_tokens + info.validation_tokens),
      static_cast<double>(info.source_bytes) / 1e6 / std::max(seconds, 1e-9));
  return absl::OkStatus();
}

// What a sound source is.
Json Describe(const std::string& path, const TokenSource& source, uint64_t count) {
  const Tokenizer* tokenizer = source.tokenizer();
  const uint64_t largest = std::max(source.train().Largest(), source.validation().Largest());
  std::vector<int64_t> first(std::min(count, source.train().size()));
  source.train().Read(0, absl::MakeSpan(first));
  std::string text;
  if (tokenizer != nullptr) {
    text = tokenizer->Decode(std::vector<uint32_t>(first.begin(), first.end())).value_or("");
  }
  return Json{
      {"path", path},
      {"kind", source.kind()},
      {"train_tokens", source.train().size()},
      {"validation_tokens", source.validation().size()},
      {"width", source.train().width()},
      {"vocabulary", tokenizer == nullptr ? largest + 1 : tokenizer->vocabulary()},
      {"largest_token", largest},
      {"tokenizer", tokenizer == nullptr ? "not known" : tokenizer->kind()},
      {"tokenizer_digest", tokenizer == nullptr ? "" : absl::BytesToHexString(tokenizer->digest())},
      {"digest", absl::BytesToHexString(source.digest())},
      {"first_tokens", first},
      {"first_text", text},
      {"errors", Json::array()}};
}

absl::Status RunInspect(const std::vector<std::string>& arguments) {
  ASSIGN_OR_RETURN(const Flags flags,
                   Flags::Parse(arguments, {"path", "kind", "tokenizer", "field",
                                            "validation-fraction", "tokens", "json"}));
  TokenSource::Options options;
  ASSIGN_OR_RETURN(const std::string path, flags.Text("path"));
  ASSIGN_OR_RETURN(options.kind, flags.Text("kind", options.kind));
  ASSIGN_OR_RETURN(options.tokenizer, flags.Text("tokenizer", options.tokenizer));
  ASSIGN_OR_RETURN(options.field, flags.Text("field", ""));
  ASSIGN_OR_RETURN(options.validation_fraction,
                   flags.Number("validation-fraction", options.validation_fraction));
  ASSIGN_OR_RETURN(const uint64_t count, flags.Count("tokens", 32));
  ASSIGN_OR_RETURN(const bool json, Truth(flags, "json"));
  options.vocabulary = std::numeric_limits<uint32_t>::max();
  const auto source = TokenSource::Open(path, options);
  if (!source.ok()) {
    const std::string error(source.status().message());
    if (json) Print({{"path", path}, {"errors", Json::array({error})}});
    return absl::DataLossError(error);
  }
  const Json described = Describe(path, **source, count);
  if (json) {
    Print(described);
    return absl::OkStatus();
  }
  for (const auto& [key, value] : described.items()) {
    if (key == "errors") continue;
    std::cout << absl::StrFormat("%-18s", key)
              << value.dump(-1, ' ', false, Json::error_handler_t::replace) << "\n";
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RunData(const std::vector<std::string>& arguments) {
  const std::string verb = arguments.empty() ? "" : arguments[0];
  const std::vector<std::string> rest(arguments.begin() + (arguments.empty() ? 0 : 1),
                                      arguments.end());
  if (verb == "prepare") return RunPrepare(rest);
  if (verb == "inspect") return RunInspect(rest);
  return absl::InvalidArgumentError(absl::StrCat("data \"", verb, "\" is not known; did you mean ",
                                                 NearestName(verb, {"prepare", "inspect"}), "?"));
}

}  // namespace atolld
