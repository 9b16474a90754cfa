#include "daemon/cli/plan_report.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "compression/level_codecs.h"
#include "daemon/cli/format.h"
#include "daemon/env/env.h"
#include "membership/history/run_codecs.h"

namespace atolld {
namespace {

uint64_t ChunksOf(const PlanQuestion& question) {
  return (question.parameters + question.chunk_elements - 1) / question.chunk_elements;
}

// exchange.chunk_elements' default and its most.
constexpr uint32_t kLeastMessage = 65536;
constexpr uint32_t kLargestMessage = 524288;
constexpr double kMessageSeconds = 0.004;
constexpr uint64_t kMessagesEach = 8;

std::string Rounded(double seconds) {
  return seconds < 100 ? absl::StrFormat("%.2f s", seconds) : FormatSeconds(seconds);
}

std::string Mark(const PlanCandidate& candidate) {
  if (candidate.best && candidate.of_config) return "fastest, config";
  if (candidate.best) return "fastest";
  if (candidate.of_config) return "config";
  return "";
}

std::string PairName(const PlanCandidate& candidate) {
  if (candidate.codec == candidate.upper_codec) return candidate.codec;
  return absl::StrCat(candidate.codec, "/", candidate.upper_codec);
}

bool Aggregated(const PlanQuestion& question) {
  return question.links.contributors() < question.links.peers().size();
}

std::vector<std::string> Notes(const PlanQuestion& question) {
  std::vector<std::string> notes = {
      "fastest: what a codec does to the loss is not counted",
      "weighted: shards by the reducers' rates; a coordinator plans so where that is faster",
      "A/B: updates as A (exchange.codec), means as B (exchange.upper_codec)"};
  const std::vector<std::string> predictable = PredictableCodecs();
  for (const std::string& name : CodecNames()) {
    if (std::find(predictable.begin(), predictable.end(), name) != predictable.end()) continue;
    notes.push_back(absl::StrCat(name, " is left out: how much it sends depends on the values"));
  }
  if (Aggregated(question)) {
    notes.push_back(
        "no peer can be dialled: the coordinator starts an aggregator beside itself, on its own "
        "line, which reduces everything; of its line nothing is measured, so the plan is flat");
  }
  const absl::StatusOr<const Codec*> codec = FindCodec(question.codec);
  const LinkModel& links = question.links;
  const uint32_t message = codec.ok() ? MessageElements(links.SlowestRate(), links.peers().size(),
                                                        question.parameters, **codec)
                                      : 0;
  if (message > std::max(question.chunk_elements, kLeastMessage)) {
    notes.push_back(absl::StrCat("exchange.chunk_elements = ", message,
                                 " would cost less processor time on these lines than ",
                                 question.chunk_elements));
  }
  if (question.train_seconds <= 0) {
    notes.push_back(
        "no utilisation: how long an inner step takes is not known; say it with --step-seconds");
  }
  return notes;
}

// Updates, means.
std::vector<LevelCodecs> PairsFor(const PlanQuestion& question) {
  const std::vector<std::string> names = PredictableCodecs();
  const auto add = [](const std::string& updates, const std::string& means,
                      std::vector<LevelCodecs>* to) {
    const absl::StatusOr<LevelCodecs> codecs = ParseLevels(updates, means);
    if (codecs.ok()) to->push_back(*codecs);
  };
  const auto bytes = [&](const std::string& name) {
    return (*FindCodec(name))->MaxEncodedBytes(question.chunk_elements);
  };
  std::vector<LevelCodecs> all;
  for (const std::string& name : names) add(name, name, &all);
  if (std::find(names.begin(), names.end(), question.codec) == names.end()) return all;
  for (const std::string& name : names) {
    const bool of_config = name == question.upper_codec && name != question.codec;
    if (of_config || bytes(name) < bytes(question.codec)) add(question.codec, name, &all);
  }
  return all;
}

std::string Assumed(const PlanQuestion& question) {
  const ModelAssumptions& assumed = question.assumed;
  return absl::StrFormat(
      "assumed: encode %.3g, decode %.3g GB/s of fp32, hash %.3g GB/s, one thread; %.1f %% of a "
      "line for payload, of a link %.0f %% of that",
      assumed.encode_bytes_per_second / 1e9, assumed.decode_bytes_per_second / 1e9,
      assumed.hash_bytes_per_second / 1e9, 100 * assumed.line_share, 100 * assumed.link_share);
}

}  // namespace

std::vector<std::string> PredictableCodecs() {
  std::vector<std::string> names;
  for (const std::string& name : CodecNames()) {
    if ((*FindCodec(name))->has_fixed_rate()) names.push_back(name);
  }
  return names;
}

uint32_t MessageElements(double slowest_bytes_per_second, size_t peers, uint64_t parameters,
                         const Codec& updates) {
  const double most_bytes = kMessageSeconds * slowest_bytes_per_second;
  const uint64_t most_elements = parameters / (kMessagesEach * peers);
  uint32_t elements = kLeastMessage;
  for (uint32_t more = 2 * elements; more <= kLargestMessage; more *= 2) {
    const auto bytes = static_cast<double>(updates.MaxEncodedBytes(more));
    if (bytes <= most_bytes && more <= most_elements) elements = more;
  }
  return elements;
}

std::vector<PlanCandidate> PlanCandidates(const PlanQuestion& question) {
  std::vector<PlanCandidate> candidates;
  const bool aggregated = Aggregated(question);
  for (const PlanShape shape :
       {PlanShape::kFlat, PlanShape::kWeighted, PlanShape::kRegions, PlanShape::kWeightedRegions}) {
    const ExchangeTraffic traffic =
        TrafficOf(question.links, shape, static_cast<uint32_t>(ChunksOf(question)));
    if (ByRegion(shape) && traffic.relays == 0) continue;  // it would be flat
    if (aggregated && shape != PlanShape::kFlat) continue;
    for (const LevelCodecs& codecs : PairsFor(question)) {
      PlanCandidate candidate;
      candidate.shape = shape;
      candidate.codec = codecs.updates.name();
      candidate.upper_codec = codecs.means.name();
      const EncodedSize size = EncodedSizeOf(question.parameters, question.chunk_elements, codecs);
      candidate.exchange = PredictExchange(question.links, traffic, size, question.assumed);
      candidates.push_back(candidate);
    }
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const PlanCandidate& a, const PlanCandidate& b) {
                     return a.exchange.seconds < b.exchange.seconds;
                   });
  candidates.front().best = true;
  const auto of_config =
      std::find_if(candidates.begin(), candidates.end(), [&](const PlanCandidate& candidate) {
        const bool planned = aggregated || question.plan == "auto" ||
                             ByRegion(candidate.shape) == (question.plan == "regions");
        return planned && candidate.codec == question.codec &&
               candidate.upper_codec == question.upper_codec;
      });
  if (of_config != candidates.end()) of_config->of_config = true;
  return candidates;
}

nlohmann::ordered_json PlanJson(const PlanQuestion& question,
                                const std::vector<PlanCandidate>& candidates) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  const bool known = question.train_seconds > 0;
  for (const PlanCandidate& candidate : candidates) {
    const ExchangePrediction& exchange = candidate.exchange;
    nlohmann::ordered_json by_link = nlohmann::ordered_json::object();
    for (size_t i = 0; i < exchange.link_bytes.size(); ++i) {
      by_link[question.links.links()[i].name] = exchange.link_bytes[i];
    }
    nlohmann::ordered_json one = {{"plan", PlanShapeName(candidate.shape)},
                                  {"codec", candidate.codec},
                                  {"upper_codec", candidate.upper_codec},
                                  {"fastest", candidate.best},
                                  {"of_config", candidate.of_config},
                                  {"exchange_seconds", exchange.seconds},
                                  {"round_seconds", nullptr},
                                  {"compute_utilization", nullptr},
                                  {"bytes_sent_per_peer", exchange.mean_bytes_sent},
                                  {"most_bytes_sent_by_a_peer", exchange.most_bytes_sent},
                                  {"bytes_between_regions", exchange.bytes_between_regions},
                                  {"bytes_by_link", by_link},
                                  {"limited_by", exchange.bottleneck}};
    if (known) {
      one["round_seconds"] = question.train_seconds + exchange.seconds;
      one["compute_utilization"] = ComputeUtilisation(question.train_seconds, exchange.seconds);
    }
    one["terms"] = {{"lines_seconds", exchange.lines_seconds},
                    {"stages_seconds", exchange.stages_seconds},
                    {"streams_seconds", exchange.streams_seconds},
                    {"processor_seconds", exchange.processor_seconds},
                    {"round_trips_seconds", exchange.round_trips_seconds},
                    {"before_and_after_seconds", exchange.before_and_after_seconds}};
    list.push_back(one);
  }
  nlohmann::ordered_json json = {
      {"network", question.network},        {"peers", question.links.contributors()},
      {"aggregator", Aggregated(question)}, {"regions", question.links.regions().size()},
      {"parameters", question.parameters},  {"train_seconds", nullptr}};
  if (known) json["train_seconds"] = question.train_seconds;
  json["assumed"] = {{"encode_bytes_per_second", question.assumed.encode_bytes_per_second},
                     {"decode_bytes_per_second", question.assumed.decode_bytes_per_second},
                     {"hash_bytes_per_second", question.assumed.hash_bytes_per_second},
                     {"line_share", question.assumed.line_share},
                     {"link_share", question.assumed.link_share},
                     {"first_window_bytes", question.assumed.first_window_bytes}};
  json["notes"] = Notes(question);
  json["candidates"] = list;
  return json;
}

std::vector<std::string> PlanText(const PlanQuestion& question,
                                  const std::vector<PlanCandidate>& candidates) {
  const bool known = question.train_seconds > 0;
  std::vector<std::string> lines = {absl::StrCat(
      WithThousands(question.parameters), " parameters, ",
      WithThousands(question.links.contributors()), " peers: ", question.network,
      known ? absl::StrCat("; training ", Rounded(question.train_seconds), " a round") : "")};
  lines.push_back("");
  std::vector<std::vector<std::string>> rows = {{"plan", "codec", "round", "exchange",
                                                 "utilisation", "sent a peer", "between regions",
                                                 "limited by", ""}};
  for (const PlanCandidate& candidate : candidates) {
    const ExchangePrediction& exchange = candidate.exchange;
    rows.push_back(
        {std::string(PlanShapeName(candidate.shape)), PairName(candidate),
         known ? Rounded(question.train_seconds + exchange.seconds) : "-",
         Rounded(exchange.seconds),
         known ? absl::StrFormat("%.1f %%",
                                 100 * ComputeUtilisation(question.train_seconds, exchange.seconds))
               : "-",
         FormatBytes(exchange.mean_bytes_sent), FormatBytes(exchange.bytes_between_regions),
         exchange.bottleneck, Mark(candidate)});
  }
  for (const std::string& line : AlignColumns(rows, "<<>>>>><<")) lines.push_back(line);
  lines.push_back("");

  // By link: the fastest and the config's own.
  rows = {{"over the link"}};
  std::vector<const PlanCandidate*> shown;
  for (const PlanCandidate& candidate : candidates) {
    if (!candidate.best && !candidate.of_config) continue;
    shown.push_back(&candidate);
    rows[0].push_back(absl::StrCat(PlanShapeName(candidate.shape), " ", PairName(candidate)));
  }
  for (size_t i = 0; i < question.links.links().size(); ++i) {
    rows.push_back({question.links.links()[i].name});
    for (const PlanCandidate* candidate : shown) {
      rows.back().push_back(FormatBytes(candidate->exchange.link_bytes[i]));
    }
  }
  if (rows.size() > 1) {
    for (const std::string& line : AlignColumns(rows, "<" + std::string(shown.size(), '>'))) {
      lines.push_back(line);
    }
    lines.push_back("");
  }
  for (const std::string& note : Notes(question)) lines.push_back(note);
  lines.push_back(Assumed(question));
  return lines;
}

}  // namespace atolld
