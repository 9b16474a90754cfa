// `atoll bench codec`, `atoll bench exchange` and `atoll bench churn`.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/types/span.h"
#include "compression/codec_benchmark.h"
#include "compression/wire_codec.h"
#include "daemon/bench/exchange_bench.h"
#include "daemon/bench/exchange_bench_peer.h"
#include "daemon/cli/churn_bench.h"
#include "daemon/cli/format.h"
#include "daemon/cli/verbs.h"
#include "daemon/posix_files.h"
#include "daemon/status_macros.h"

namespace atolld {
namespace {

struct BenchOptions {
  std::string codec = "int8";
  uint64_t elements = 16 << 20;
  int repeats = 9;
  std::string json;
};

double MonotonicSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// True: to standard output, and nothing else belongs there.
absl::StatusOr<bool> WriteJson(const nlohmann::ordered_json& json, const std::string& path) {
  const std::string text = json.dump(2) + "\n";
  if (path == "-") {
    std::fputs(text.c_str(), stdout);
    return true;
  }
  if (path.empty()) return false;
  PosixFiles files;
  RETURN_IF_ERROR(WriteFileDurably(
      files, std::filesystem::absolute(path).string(),
      absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(text.data()), text.size())));
  return false;
}

int BenchCodec(const BenchOptions& options) {
  const absl::StatusOr<WireCodec> codec = ParseCodecName(options.codec);
  if (!codec.ok()) return Report(codec.status(), kWrongCall);
  const absl::StatusOr<CodecBenchmark> result =
      MeasureCodec(*codec, options.elements, options.repeats, MonotonicSeconds);
  if (!result.ok()) return Report(result.status(), kFailed);
  const nlohmann::ordered_json json = {{"codec", result->codec},
                                       {"elements", result->elements},
                                       {"encode_gb_per_s", result->encode_gb_per_s},
                                       {"decode_gb_per_s", result->decode_gb_per_s},
                                       {"memcpy_gb_per_s", result->memcpy_gb_per_s},
                                       {"bytes", result->bytes},
                                       {"relative_error", result->relative_error}};
  const absl::StatusOr<bool> told = WriteJson(json, options.json);
  if (!told.ok()) return Report(told.status(), kFailed);
  if (*told) return kDone;
  const std::vector<std::vector<std::string>> rows = {
      {"codec", result->codec},
      {"values", WithThousands(result->elements)},
      {"encode", absl::StrFormat("%.2f GB/s of fp32", result->encode_gb_per_s)},
      {"decode", absl::StrFormat("%.2f GB/s of fp32", result->decode_gb_per_s)},
      {"memcpy", absl::StrFormat("%.2f GB/s", result->memcpy_gb_per_s)},
      {"bytes",
       absl::StrFormat("%s (%.3f a value)", WithThousands(result->bytes),
                       static_cast<double>(result->bytes) / static_cast<double>(result->elements))},
      {"relative error", absl::StrFormat("%.3g", result->relative_error)}};
  for (const std::string& line : AlignColumns(rows, "<<")) std::printf("%s\n", line.c_str());
  return kDone;
}

struct ExchangeVerbOptions {
  ExchangeBenchOptions bench;
  std::string launcher;
  std::string json;
};

int BenchExchange(ExchangeVerbOptions options) {
  options.bench.launcher = absl::StrSplit(options.launcher, ' ', absl::SkipEmpty());
  const absl::StatusOr<ExchangeBenchResult> result = MeasureExchange(options.bench);
  if (!result.ok()) {
    return Report(result.status(), absl::IsInvalidArgument(result.status()) ? kWrongCall : kFailed);
  }
  const nlohmann::ordered_json json = {{"seconds_median", result->seconds_median},
                                       {"bytes_sent_per_peer", result->bytes_sent_per_peer},
                                       {"cpu_seconds_per_peer", result->cpu_seconds_per_peer},
                                       {"peers", options.bench.peers},
                                       {"elements", options.bench.elements},
                                       {"codec", options.bench.codec},
                                       {"identical", result->identical},
                                       {"relative_error", result->relative_error},
                                       {"encode_seconds", result->encode_seconds},
                                       {"exchange_seconds", result->exchange_seconds},
                                       {"decode_seconds", result->decode_seconds},
                                       {"plaintext", options.bench.plaintext},
                                       {"lanes", options.bench.lanes},
                                       {"chunk_elements", options.bench.chunk_elements},
                                       {"seconds", result->seconds}};
  const absl::StatusOr<bool> told = WriteJson(json, options.json);
  if (!told.ok()) return Report(told.status(), kFailed);
  const int code = result->identical ? kDone : kFailed;
  if (*told) return code;
  const double fp32 = 4.0 * static_cast<double>(options.bench.elements);
  const std::vector<std::vector<std::string>> rows = {
      {"peers", absl::StrCat(options.bench.peers, options.bench.plaintext ? ", plain text" : "")},
      {"values", WithThousands(options.bench.elements)},
      {"seconds",
       absl::StrFormat("%.4f (median of %d; encode %.4f, exchange %.4f, decode %.4f)",
                       result->seconds_median, result->seconds.size(), result->encode_seconds,
                       result->exchange_seconds, result->decode_seconds)},
      {"processor", absl::StrFormat("%.4f s a peer", result->cpu_seconds_per_peer)},
      {"sent", absl::StrFormat("%s a peer (%.3f of the fp32 vector)",
                               FormatBytes(result->bytes_sent_per_peer),
                               result->bytes_sent_per_peer / fp32)},
      {"relative error", absl::StrFormat("%.3g", result->relative_error)},
      {"means", result->identical ? "the same bits everywhere" : "PEERS DIFFER"}};
  for (const std::string& line : AlignColumns(rows, "<<")) std::printf("%s\n", line.c_str());
  return code;
}

void AddExchangeVerb(CommandLine& command_line) {
  const auto options = std::make_shared<ExchangeVerbOptions>();
  ExchangeBenchOptions& bench = options->bench;
  CLI::App* verb = command_line.AddVerb(
      "bench exchange", "How long peers take from their values to the mean of all of them",
      "atoll bench exchange --peers 4 --elements 16777216 --plaintext --json exchange.json",
      [options] { return BenchExchange(*options); });
  verb->add_option("--peers", bench.peers, "Processes on this machine")->check(CLI::Range(2, 64));
  verb->add_option("--elements", bench.elements, "How many fp32 values each has")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 32));
  verb->add_option("--codec", bench.codec, "As in a config: int8, fp32, int8+zstd");
  verb->add_option("--chunk-elements", bench.chunk_elements, "Values in one message")
      ->check(CLI::Range(1u, 1u << 20));
  verb->add_option("--lanes", bench.lanes, "Connections between two peers")
      ->check(CLI::Range(1, 64));
  verb->add_option("--threads", bench.threads, "Of each peer's pool")->check(CLI::Range(1, 64));
  verb->add_option("--repeats", bench.repeats, "The median of so many is told")
      ->check(CLI::Range(1, 1000));
  verb->add_flag("--plaintext", bench.plaintext, "Without TLS, to see what it costs");
  verb->add_option("--hosts", bench.hosts, "The IP address of each peer [127.0.0.1]");
  verb->add_option("--launcher", options->launcher,
                   "Before each peer's command, {peer} is its number: \"ip netns exec lab{peer}\"");
  verb->add_option("--json", options->json, "Write the result there; - for standard output");
}

// What MeasureExchange starts; for nobody to type.
void AddExchangePeerVerb(CommandLine& command_line) {
  const auto options = std::make_shared<BenchPeerOptions>();
  CLI::App* verb =
      command_line.AddVerb("bench exchange-peer", "One peer of bench exchange",
                           "atoll bench exchange", [options] { return RunBenchPeer(*options); });
  verb->group("");
  verb->add_option("--orders", options->orders)->required();
  verb->add_option("--index", options->index)->required();
  verb->add_option("--host", options->host);
  verb->add_option("--elements", options->elements)->required();
  verb->add_option("--codec", options->codec)->required();
  verb->add_option("--chunk-elements", options->chunk_elements);
  verb->add_option("--lanes", options->lanes);
  verb->add_option("--threads", options->threads);
  verb->add_option("--certificates", options->certificates);
}

void AddChurnVerb(CommandLine& command_line) {
  const auto options = std::make_shared<ChurnOptions>();
  CLI::App* verb = command_line.AddVerb(
      "bench churn", "How a run fares when its processes die, freeze, are cut off and come back",
      "atoll bench churn --peers 6 --minutes 5 --seed 1 --json churn.json",
      [options] { return BenchChurn(*options); });
  verb->add_option("--peers", options->peers, "How many peers, instead of the config's [6]")
      ->check(CLI::Range(3, 64));
  verb->add_option("--minutes", options->minutes,
                   "Of each of the two runs; a real model's last until they are sealed")
      ->check(CLI::Range(0.1, 1440.0));
  verb->add_option("--every", options->every_seconds,
                   "Seconds; a fault in each such span, or later if its former victim is not back")
      ->check(CLI::Range(1.0, 3600.0));
  verb->add_option("--seed", options->seed, "Of the faults: what, whom and when");
  verb->add_option("--config", options->config_path,
                   "The run, a TOML file [as configs/churn.toml: steps that only take time]");
  verb->add_option("--data", options->data, "A text file or folder, instead of the config's");
  verb->add_option("--dir", options->dir, "A new or empty folder for both runs [a temporary one]");
  verb->add_option("--json", options->json, "Write the result there; - for standard output");
}

}  // namespace

void AddBenchVerbs(CommandLine& command_line) {
  const auto options = std::make_shared<BenchOptions>();
  CLI::App* verb = command_line.AddVerb(
      "bench codec", "How fast and how exact a codec is, beside memcpy, one thread",
      "atoll bench codec --codec int8 --elements 16777216 --json codec.json",
      [options] { return BenchCodec(*options); });
  verb->add_option("--codec", options->codec,
                   absl::StrCat("As in a config: ", absl::StrJoin(WireCodecNames(), ", ")));
  verb->add_option("--elements", options->elements, "How many fp32 values")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 32));
  verb->add_option("--repeats", options->repeats, "The median of so many is told")
      ->check(CLI::Range(1, 1000));
  verb->add_option("--json", options->json, "Write the result there; - for standard output");
  AddExchangeVerb(command_line);
  AddExchangePeerVerb(command_line);
  AddChurnVerb(command_line);
}

}  // namespace atolld
