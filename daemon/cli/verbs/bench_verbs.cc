// `atoll bench codec|exchange|churn`: the performance of parts of Atoll on this machine.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/types/span.h"
#include "compression/base/process_limits.h"
#include "compression/base/status_macros.h"
#include "compression/base/words.h"
#include "compression/codec_benchmark.h"
#include "compression/wire_codec.h"
#include "daemon/bench/churn_bench.h"
#include "daemon/bench/exchange_bench.h"
#include "daemon/bench/exchange_bench_peer.h"
#include "daemon/bench/exchange_lab.h"
#include "daemon/cli/lab.h"
#include "daemon/cli/output.h"
#include "daemon/cli/plan_report.h"
#include "daemon/cli/verbs/verbs.h"
#include "daemon/figures/status_json.h"
#include "daemon/program/format.h"
#include "daemon/program/process.h"

namespace atolld {
namespace {

// A repetition may take this many times the bound before the peers are given up.
constexpr double kPatience = 10;

struct ExchangeVerbOptions {
  ExchangeBenchOptions bench;
  std::string launcher;
  std::string topology;
  uint32_t chunk_elements = 0;  // 0: what suits the lines
  std::string json;
};

// All measured values, and what they are compared with.
struct Exchanged {
  const ExchangeVerbOptions& options;
  LevelCodecs codecs;
  ExchangeBenchResult result;
  std::optional<ExchangeExpectation> expected;  // with a topology

  double Ratio(double seconds) const { return seconds / expected->bound_seconds; }
  double CpuSeconds() const {
    return result.cpu_seconds_per_peer * static_cast<double>(options.bench.peers);
  }
};

nlohmann::ordered_json ExchangeJson(const Exchanged& done) {
  const ExchangeBenchOptions& bench = done.options.bench;
  const ExchangeBenchResult& result = done.result;
  nlohmann::ordered_json json = {{"seconds_median", result.seconds_median},
                                 {"bytes_sent_per_peer", result.bytes_sent_per_peer},
                                 {"cpu_seconds_per_peer", result.cpu_seconds_per_peer},
                                 {"peers", bench.peers},
                                 {"elements", bench.elements},
                                 {"codec", bench.codec},
                                 {"upper_codec", done.codecs.means.name()},
                                 {"identical", result.identical},
                                 {"relative_error", result.relative_error},
                                 {"encode_seconds", result.encode_seconds},
                                 {"exchange_seconds", result.exchange_seconds},
                                 {"decode_seconds", result.decode_seconds},
                                 {"plaintext", bench.plaintext},
                                 {"lanes", bench.lanes},
                                 {"pause_seconds", bench.pause_seconds},
                                 {"chunk_elements", bench.chunk_elements},
                                 {"cpu_seconds", result.cpu_seconds},
                                 {"machine_busy", result.machine_busy},
                                 {"seconds", result.seconds}};
  if (!done.options.topology.empty()) {
    json["topology"] = done.options.topology;
    json["names"] = bench.names;
  }
  if (done.expected.has_value()) {
    json["bound_seconds"] = done.expected->bound_seconds;
    json["ratio"] = done.Ratio(result.seconds_median);
    json["busiest_line"] = done.expected->line;
    json["predicted_seconds"] = done.expected->predicted.seconds;
    json["predicted_bytes_sent_per_peer"] = done.expected->predicted.mean_bytes_sent;
  }
  return json;
}

// Rows of two columns.
using Rows = std::vector<std::vector<std::string>>;

void AddExpectationRows(const Exchanged& done, Rows* rows) {
  const ExchangeBenchResult& result = done.result;
  std::string each;
  for (const double seconds : result.seconds) absl::StrAppendFormat(&each, " %.3f", seconds);
  rows->push_back({"each", each.substr(each.empty() ? 0 : 1)});
  if (!done.expected.has_value()) {
    rows->push_back({"bound", "not known: how much the codec sends depends on the values"});
    return;
  }
  const ExchangeExpectation& expected = *done.expected;
  rows->push_back(
      {"bound", absl::StrFormat("%.3f s: %s is busy for %.3f s, and two round trips of "
                                "%s",
                                expected.bound_seconds, expected.line, expected.line_seconds,
                                absl::FormatDuration(expected.rtt))});
  rows->push_back({"median / bound", absl::StrFormat("%.3f", done.Ratio(result.seconds_median))});
  rows->push_back(
      {"atoll plan", absl::StrFormat("%.3f s, limited by %s, %s sent a peer",
                                     expected.predicted.seconds, expected.predicted.bottleneck,
                                     FormatBytes(expected.predicted.mean_bytes_sent))});
}

void AddMachineRows(const Exchanged& done, Rows* rows) {
  const ExchangeBenchResult& result = done.result;
  const unsigned cores = ReadProcessLimits().cores.threads();
  std::string each;
  for (size_t i = 0; i < result.cpu_seconds.size(); ++i) {
    absl::StrAppendFormat(&each, "%s%s %.3f", i == 0 ? "" : ", ", done.options.bench.names[i],
                          result.cpu_seconds[i]);
  }
  rows->push_back({"seconds of each", each});
  rows->push_back(
      {"this machine",
       absl::StrFormat("%.0f %% busy, %.0f %% of %d cores with these peers",
                       100 * result.machine_busy,
                       100 * done.CpuSeconds() / result.seconds_median / cores, cores)});
}

void Print(const Exchanged& done) {
  const ExchangeBenchOptions& bench = done.options.bench;
  const ExchangeBenchResult& result = done.result;
  const bool lab = !done.options.topology.empty();
  Rows rows = {
      {"peers",
       absl::StrCat(bench.peers, lab ? absl::StrCat(", ", done.options.topology) : "",
                    bench.plaintext ? ", plain text" : "",
                    bench.lanes > 1 ? absl::StrCat(", ", Counted(bench.lanes, "lane")) : "")},
      {"values", absl::StrCat(WithThousands(bench.elements), ", ", done.codecs.name(), ", ",
                              WithThousands(bench.chunk_elements), " a message")},
      {"seconds",
       absl::StrFormat("%.4f (median of %d; encode %.4f, exchange %.4f, decode %.4f)",
                       result.seconds_median, result.seconds.size(), result.encode_seconds,
                       result.exchange_seconds, result.decode_seconds)}};
  if (lab) AddExpectationRows(done, &rows);
  const double fp32 = 4.0 * static_cast<double>(bench.elements);
  rows.push_back({"sent", absl::StrFormat("%s a peer (%.3f of the fp32 vector)",
                                          FormatBytes(result.bytes_sent_per_peer),
                                          result.bytes_sent_per_peer / fp32)});
  rows.push_back({"processor", absl::StrFormat("%.4f s a peer", result.cpu_seconds_per_peer)});
  if (lab) AddMachineRows(done, &rows);
  rows.push_back({"relative error", absl::StrFormat("%.3g", result.relative_error)});
  rows.push_back({"means", result.identical ? "the same bits everywhere" : "PEERS DIFFER"});
  PrintLines(AlignColumns(rows, "<<"));
}

void ChooseMessage(double slowest_bytes_per_second, const LevelCodecs& codecs,
                   ExchangeVerbOptions* options) {
  ExchangeBenchOptions& bench = options->bench;
  bench.chunk_elements =
      options->chunk_elements != 0
          ? options->chunk_elements
          : MessageElements(slowest_bytes_per_second, static_cast<size_t>(bench.peers),
                            bench.elements, *codecs.updates.codec);
}

// Reads from the topology the peers and the time that they should need.
absl::StatusOr<std::optional<ExchangeExpectation>> TakeTopology(const LevelCodecs& codecs,
                                                                ExchangeVerbOptions* options) {
  ASSIGN_OR_RETURN(const LinkModel links, LoadTopology(options->topology));
  const std::vector<PeerLink>& peers = links.peers();
  const bool reachable =
      std::any_of(peers.begin(), peers.end(), [](const PeerLink& peer) { return peer.reachable; });
  if (peers.size() < 2 || !reachable) {
    return absl::InvalidArgumentError(absl::StrCat(
        options->topology, ":1: an exchange takes two peers, and one that can be dialled"));
  }
  RETURN_IF_ERROR(InLab() ? PlaceOnNodes(links, &options->bench)
                          : EnterLab({options->topology, "", false}));
  ChooseMessage(links.SlowestRate(), codecs, options);
  std::optional<ExchangeExpectation> expected =
      Expect(links, codecs, options->bench.elements, options->bench.chunk_elements);
  if (expected.has_value()) {
    options->bench.patience =
        std::max(options->bench.patience, absl::Seconds(kPatience * expected->bound_seconds));
  }
  return expected;
}

VerbExit BenchExchange(ExchangeVerbOptions options) {
  options.bench.launcher = absl::StrSplit(options.launcher, ' ', absl::SkipEmpty());
  ASSIGN_OR_RETURN(const LevelCodecs codecs,
                   ParseLevels(options.bench.codec, options.bench.upper_codec));
  Exchanged done{options, codecs, {}, std::nullopt};
  if (!options.topology.empty()) {
    ASSIGN_OR_RETURN(done.expected, TakeTopology(codecs, &options));
  } else {
    ChooseMessage(std::numeric_limits<double>::infinity(), codecs, &options);
  }
  ASSIGN_OR_RETURN(done.result, MeasureExchange(options.bench));
  ASSIGN_OR_RETURN(const bool told, WriteResult(options.json, JsonText(ExchangeJson(done))));
  if (!told) Print(done);
  return done.result.identical ? kDone : kFailed;
}

// The verb that MeasureExchange starts; it is not meant for users.
void AddExchangePeerVerb(CommandLine& command_line) {
  const auto options = std::make_shared<BenchPeerOptions>();
  const Verb verb =
      command_line.AddVerb("bench exchange-peer", "One peer of bench exchange",
                           "atoll bench exchange", [options] { return RunBenchPeer(*options); });
  verb.Hide();
  verb.Add("--orders", options->orders).Required();
  verb.Add("--index", options->index).Required();
  verb.Add("--host", options->host);
  verb.Add("--elements", options->elements).Required();
  verb.Add("--codec", options->codec).Required();
  verb.Add("--upper-codec", options->upper_codec);
  verb.Add("--chunk-elements", options->chunk_elements);
  verb.Add("--lanes", options->lanes);
  verb.Add("--threads", options->threads);
  verb.Add("--certificates", options->certificates);
}

void AddExchangeVerb(CommandLine& command_line) {
  const auto options = std::make_shared<ExchangeVerbOptions>();
  ExchangeBenchOptions& bench = options->bench;
  const Verb verb = command_line.AddVerb(
      "bench exchange", "Measure how long peers take from values to their mean",
      "atoll bench exchange --peers 4 --elements 16777216 --plaintext --json exchange.json",
      [options] { return BenchExchange(*options); });
  const Option peers = verb.Add("--peers", bench.peers, "Processes on this machine").Range(2, 64);
  verb.Add("--elements", bench.elements, "How many fp32 values each has")
      .Range(uint64_t{1}, uint64_t{1} << 32);
  verb.Add("--codec", bench.codec, "Codec of updates, as in a config: int8, fp32, int8+zstd");
  verb.Add("--upper-codec", bench.upper_codec, "Codec of means, as in a config [the same]");
  verb.Add("--chunk-elements", options->chunk_elements,
           "Values in one message; 0: 65536 to 524288, as the slowest line suggests")
      .Range(0u, 1u << 20);
  verb.Add("--lanes", bench.lanes, "Connections between two peers").Range(1, 64);
  verb.Add("--threads", bench.threads,
           "Threads of each peer's pool; 0: its share of the processors")
      .Range(0, 64);
  verb.Add("--repeats", bench.repeats, "How many; their median is printed").Range(1, 1000);
  verb.Add("--pause", bench.pause_seconds,
           "Seconds of silence before each repetition, as while a run trains")
      .Range(0.0, 3600.0);
  verb.Flag("--plaintext", bench.plaintext, "Without TLS, to see what it costs");
  const Option hosts = verb.Add("--hosts", bench.hosts, "The IP address of each peer [127.0.0.1]");
  const Option launcher =
      verb.Add("--launcher", options->launcher,
               "Before each peer's command, {peer} is its number: \"ip netns exec lab{peer}\"");
  verb.Add("--topology", options->topology,
           "Over the lines of this TOML file (tests/wan/README.md), in the lab; needs root")
      .File()
      .Excludes(peers)
      .Excludes(hosts)
      .Excludes(launcher);
  verb.Add("--json", options->json, "Write the result there; - for standard output").File();
  AddExchangePeerVerb(command_line);
}

}  // namespace

// -----------------------------------------------------------------------------------------------

namespace {

struct BenchOptions {
  std::string codec = "int8";
  uint64_t elements = 16 << 20;
  int repeats = 9;
  std::string json;
};

VerbExit BenchCodec(const BenchOptions& options) {
  ASSIGN_OR_RETURN(const WireCodec codec, ParseCodecName(options.codec));
  ASSIGN_OR_RETURN(const CodecBenchmark result,
                   MeasureCodec(codec, options.elements, options.repeats, MonotonicSeconds));
  const nlohmann::ordered_json json = {{"codec", result.codec},
                                       {"elements", result.elements},
                                       {"encode_gb_per_s", result.encode_gb_per_s},
                                       {"decode_gb_per_s", result.decode_gb_per_s},
                                       {"memcpy_gb_per_s", result.memcpy_gb_per_s},
                                       {"bytes", result.bytes},
                                       {"relative_error", result.relative_error}};
  ASSIGN_OR_RETURN(const bool told, WriteResult(options.json, JsonText(json)));
  if (told) return kDone;
  const std::vector<std::vector<std::string>> rows = {
      {"codec", result.codec},
      {"values", WithThousands(result.elements)},
      {"encode", absl::StrFormat("%.2f GB/s of fp32", result.encode_gb_per_s)},
      {"decode", absl::StrFormat("%.2f GB/s of fp32", result.decode_gb_per_s)},
      {"memcpy", absl::StrFormat("%.2f GB/s", result.memcpy_gb_per_s)},
      {"bytes",
       absl::StrFormat("%s (%.3f a value)", WithThousands(result.bytes),
                       static_cast<double>(result.bytes) / static_cast<double>(result.elements))},
      {"relative error", absl::StrFormat("%.3g", result.relative_error)}};
  PrintLines(AlignColumns(rows, "<<"));
  return kDone;
}

void AddChurnVerb(CommandLine& command_line) {
  const auto options = std::make_shared<ChurnOptions>();
  const Verb verb =
      command_line.AddVerb("bench churn",
                           "See how a run fares when its processes die and come back\n"
                           "They also freeze and are cut off.",
                           "atoll bench churn --peers 6 --minutes 5 --seed 1 --json churn.json",
                           [options] { return BenchChurn(*options); });
  verb.Add("--peers", options->peers, "How many peers, instead of the config's [6]").Range(3, 64);
  verb.Add("--minutes", options->minutes,
           "Length of each of the two runs; a real model's last until they are sealed")
      .Range(0.1, 1440.0);
  verb.Add("--every", options->every_seconds,
           "Seconds between faults; more if the former victim is not back")
      .Range(1.0, 3600.0);
  verb.Add("--seed", options->seed, "Seed of the faults: what happens to which process, and when");
  verb.Add("--config", options->config_path,
           "The run, a TOML file [as configs/churn.toml: steps that only take time]")
      .File();
  verb.Add("--data", options->data, "A text file or folder, instead of the config's").Path();
  verb.Add("--dir", options->dir, "A new or empty folder for both runs [a temporary one]").Folder();
  verb.Add("--json", options->json, "Write the result there; - for standard output").File();
}

}  // namespace

void AddBenchVerbs(CommandLine& command_line) {
  const auto options = std::make_shared<BenchOptions>();
  const Verb verb =
      command_line.AddVerb("bench codec", "Measure how fast and how exact a codec is, one thread",
                           "atoll bench codec --codec int8 --elements 16777216 --json codec.json",
                           [options] { return BenchCodec(*options); });
  verb.Add("--codec", options->codec,
           absl::StrCat("As in a config: ", absl::StrJoin(WireCodecNames(), ", ")));
  verb.Add("--elements", options->elements, "How many fp32 values")
      .Range(uint64_t{1}, uint64_t{1} << 32);
  verb.Add("--repeats", options->repeats, "How many; their median is printed").Range(1, 1000);
  verb.Add("--json", options->json, "Write the result there; - for standard output").File();
  AddExchangeVerb(command_line);
  AddChurnVerb(command_line);
}

}  // namespace atolld
