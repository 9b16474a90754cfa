// `atoll bench codec` and `atoll bench churn`.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "compression/codec_benchmark.h"
#include "compression/wire_codec.h"
#include "daemon/bench/churn_bench.h"
#include "daemon/cli/format.h"
#include "daemon/cli/process.h"
#include "daemon/cli/verbs/bench_result.h"
#include "daemon/cli/verbs/verbs.h"

namespace atolld {
namespace {

struct BenchOptions {
  std::string codec = "int8";
  uint64_t elements = 16 << 20;
  int repeats = 9;
  std::string json;
};

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
  const absl::StatusOr<bool> told = WriteResult(json, options.json);
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

void AddChurnVerb(CommandLine& command_line) {
  const auto options = std::make_shared<ChurnOptions>();
  const Verb verb = command_line.AddVerb(
      "bench churn", "How a run fares when its processes die, freeze, are cut off and come back",
      "atoll bench churn --peers 6 --minutes 5 --seed 1 --json churn.json",
      [options] { return BenchChurn(*options); });
  verb.Add("--peers", options->peers, "How many peers, instead of the config's [6]").Range(3, 64);
  verb.Add("--minutes", options->minutes,
           "Of each of the two runs; a real model's last until they are sealed")
      .Range(0.1, 1440.0);
  verb.Add("--every", options->every_seconds,
           "Seconds; a fault in each such span, or later if its former victim is not back")
      .Range(1.0, 3600.0);
  verb.Add("--seed", options->seed, "Of the faults: what, whom and when");
  verb.Add("--config", options->config_path,
           "The run, a TOML file [as configs/churn.toml: steps that only take time]");
  verb.Add("--data", options->data, "A text file or folder, instead of the config's");
  verb.Add("--dir", options->dir, "A new or empty folder for both runs [a temporary one]");
  verb.Add("--json", options->json, "Write the result there; - for standard output");
}

}  // namespace

void AddBenchVerbs(CommandLine& command_line) {
  const auto options = std::make_shared<BenchOptions>();
  const Verb verb = command_line.AddVerb(
      "bench codec", "How fast and how exact a codec is, beside memcpy, one thread",
      "atoll bench codec --codec int8 --elements 16777216 --json codec.json",
      [options] { return BenchCodec(*options); });
  verb.Add("--codec", options->codec,
           absl::StrCat("As in a config: ", absl::StrJoin(WireCodecNames(), ", ")));
  verb.Add("--elements", options->elements, "How many fp32 values")
      .Range(uint64_t{1}, uint64_t{1} << 32);
  verb.Add("--repeats", options->repeats, "The median of so many is told").Range(1, 1000);
  verb.Add("--json", options->json, "Write the result there; - for standard output");
  AddExchangeVerb(command_line);
  AddChurnVerb(command_line);
}

}  // namespace atolld
