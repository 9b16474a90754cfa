// The commands that work on data alone: `atoll-worker data prepare` and `data inspect`.
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "compression/base/names.h"
#include "compression/base/status_macros.h"
#include "compression/base/terminal.h"
#include "compression/base/words.h"
#include "worker/base/flags.h"
#include "worker/data/prepare.h"
#include "worker/data/token_source.h"
#include "worker/data/tokenizer.h"
#include "worker/data/tokenizer_file.h"
#include "worker/program/commands.h"

namespace atolld {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kMostThreads = 256;

void Print(const Json& json) {
  std::cout << json.dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
}

// A bar that is redrawn in place on a terminal; otherwise an occasional line.
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
  const bool terminal_ = TerminalFor(::isatty(STDERR_FILENO) != 0).redraws;
  const absl::Time began_ = absl::Now();
  absl::Time next_ = began_;
};

absl::StatusOr<bool> SkipsBadLines(const Flags& flags) {
  ASSIGN_OR_RETURN(const std::string text, flags.Text("on-bad-line", "stop"));
  if (text == "stop" || text == "skip") return text == "skip";
  return absl::InvalidArgumentError(
      absl::StrCat("--on-bad-line is \"", text, "\"; it must be stop or skip"));
}

absl::StatusOr<PrepareOptions> PrepareOptionsOf(const Flags& flags) {
  PrepareOptions options;
  ASSIGN_OR_RETURN(options.input, flags.Text("input"));
  ASSIGN_OR_RETURN(options.output, flags.Text("output"));
  ASSIGN_OR_RETURN(options.kind, flags.Text("kind", options.kind));
  if (options.kind != "text" && options.kind != "plain" && options.kind != "jsonl") {
    return absl::InvalidArgumentError(
        absl::StrCat("--kind is \"", options.kind, "\"; it must be text, plain or jsonl"));
  }
  ASSIGN_OR_RETURN(options.tokenizer, flags.Text("tokenizer", "bytes"));
  ASSIGN_OR_RETURN(options.field, flags.Text("field", ""));
  ASSIGN_OR_RETURN(options.end_of_text, flags.Text("end-of-text", ""));
  ASSIGN_OR_RETURN(options.skip_bad_lines, SkipsBadLines(flags));
  ASSIGN_OR_RETURN(options.validation_fraction,
                   flags.Number("validation-fraction", options.validation_fraction));
  ASSIGN_OR_RETURN(const uint64_t threads, flags.Count("threads", 1));
  if (threads == 0 || threads > kMostThreads) {
    return absl::InvalidArgumentError(
        absl::StrCat("--threads is ", threads, "; it must be 1 to ", kMostThreads));
  }
  options.threads = static_cast<uint32_t>(threads);
  return options;
}

absl::Status RunPrepare(const std::vector<std::string>& arguments) {
  ASSIGN_OR_RETURN(
      const Flags flags,
      Flags::Parse(arguments, {"input", "output", "kind", "tokenizer", "field", "end-of-text",
                               "on-bad-line", "validation-fraction", "threads", "json"}));
  ASSIGN_OR_RETURN(PrepareOptions options, PrepareOptionsOf(flags));
  ASSIGN_OR_RETURN(const bool json, flags.Truth("json"));
  Progress progress;
  options.progress = [&](uint64_t done, uint64_t all, uint64_t found) {
    progress.Show(done, all, found);
  };
  const absl::Time began = absl::Now();
  ASSIGN_OR_RETURN(const Prepared prepared, PrepareData(options));
  const PreparedInfo& info = prepared.info;
  const double seconds = absl::ToDoubleSeconds(absl::Now() - began);
  if (json) {
    Json out = Json::parse(FormatPreparedInfo(info));
    out["seconds"] = seconds;
    out["notes"] = prepared.notes;
    Print(out);
    return absl::OkStatus();
  }
  std::cout << absl::StrFormat(
      "%s: %d training and %s of %s each, vocabulary %d (%s), "
      "%.2f bytes of text a token, %.1f MB/s\n",
      options.output, info.train_tokens, Counted(info.validation_tokens, "validation token"),
      Counted(info.width, "byte"), info.vocabulary, info.tokenizer,
      static_cast<double>(info.source_bytes) /
          static_cast<double>(info.train_tokens + info.validation_tokens),
      static_cast<double>(info.source_bytes) / 1e6 / std::max(seconds, 1e-9));
  for (const std::string& note : prepared.notes) std::cout << Printable(note) << "\n";
  return absl::OkStatus();
}

// Returns a note if the text is too short for the sequences of many models; empty otherwise.
std::string NoteOfLength(const TokenSource& source) {
  constexpr uint64_t kUsualContext = 1024;
  const uint64_t train = source.train().size(), validation = source.validation().size();
  const uint64_t least = validation == 0 ? train : std::min(train, validation);
  if (least > kUsualContext) return "";
  const std::string splits =
      absl::StrCat(train, " training and ", validation, " validation tokens");
  if (least < 2) return absl::StrCat(splits, ": too few for any sequence");
  return absl::StrCat(splits, ": a sequence is [model] context tokens and the one after them, so ",
                      "context can be at most ", least - 1);
}

// Describes a source without faults.
Json DescribeSource(const std::string& path, const TokenSource& source, uint64_t count) {
  const Tokenizer* tokenizer = source.tokenizer();
  const uint64_t largest = std::max(source.train().Largest(), source.validation().Largest());
  std::vector<int64_t> first(std::min(count, source.train().size()));
  source.train().Read(0, absl::MakeSpan(first));
  std::string text;
  if (tokenizer != nullptr) {
    text = tokenizer->Decode(std::vector<uint32_t>(first.begin(), first.end())).value_or("");
  }
  std::vector<std::string> notes = source.notes();
  if (const std::string note = NoteOfLength(source); !note.empty()) notes.push_back(note);
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
      {"notes", notes},
      {"errors", Json::array()}};
}

// Checks that the models of --initial and --base have the data's tokenizer.
absl::Status CheckModels(const Flags& flags, const TokenSource& source) {
  for (const char* key : {"initial", "base"}) {
    ASSIGN_OR_RETURN(const std::string file, flags.Text(key, ""));
    RETURN_IF_ERROR(CheckTokenizerBeside(key, file, source.tokenizer()));
  }
  return absl::OkStatus();
}

absl::Status RunInspect(const std::vector<std::string>& arguments) {
  ASSIGN_OR_RETURN(
      const Flags flags,
      Flags::Parse(arguments,
                   {"path", "kind", "tokenizer", "field", "end-of-text", "on-bad-line", "width",
                    "template", "validation-fraction", "tokens", "initial", "base", "json"}));
  TokenSource::Options options;
  ASSIGN_OR_RETURN(const std::string path, flags.Text("path"));
  ASSIGN_OR_RETURN(options.kind, flags.Text("kind", options.kind));
  ASSIGN_OR_RETURN(options.tokenizer, flags.Text("tokenizer", options.tokenizer));
  ASSIGN_OR_RETURN(options.field, flags.Text("field", ""));
  ASSIGN_OR_RETURN(options.end_of_text, flags.Text("end-of-text", ""));
  ASSIGN_OR_RETURN(options.skip_bad_lines, SkipsBadLines(flags));
  ASSIGN_OR_RETURN(const uint64_t width, flags.Count("width", 0));
  if (width > 64 || (width & (width - 1)) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--width is ", width, "; it must be 1, 2, 4 or 8 bytes, 16, 32 or 64 bits, or 0"));
  }
  options.width = static_cast<uint32_t>(width > 8 ? width / 8 : width);
  ASSIGN_OR_RETURN(options.chat.template_name, flags.Text("template", ""));
  if (!options.chat.template_name.empty() && options.kind == "text") options.kind = "chat";
  ASSIGN_OR_RETURN(options.validation_fraction,
                   flags.Number("validation-fraction", options.validation_fraction));
  ASSIGN_OR_RETURN(const uint64_t count, flags.Count("tokens", 32));
  ASSIGN_OR_RETURN(const bool json, flags.Truth("json"));
  options.vocabulary = TokenSource::kAnyVocabulary;
  const auto source = TokenSource::Open(path, options);
  const absl::Status status = source.ok() ? CheckModels(flags, **source) : source.status();
  if (!status.ok()) {
    const std::string error(status.message());
    if (json) Print({{"path", path}, {"errors", Json::array({error})}});
    return status;
  }
  const Json described = DescribeSource(path, **source, count);
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
