#include "daemon/cli/plan_report.h"

#include <toml++/toml.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/types/span.h"
#include "compression/base/names.h"
#include "compression/base/status_macros.h"
#include "compression/base/words.h"
#include "compression/wire_codec.h"
#include "daemon/cli/mode_report.h"
#include "daemon/env/env.h"
#include "daemon/program/format.h"
#include "membership/history/run_codecs.h"
#include "membership/planning/plan_bounds.h"

namespace atolld {
namespace {

// Far more than a prediction needs; a larger number is an error.
constexpr int64_t kMostPeersOfRegion = 100000;

const std::vector<std::string> kSections = {"lab", "region", "link", "peer", "coordinator"};
const std::vector<std::string> kRegionKeys = {"peers", "rate", "up",    "down",
                                              "rtt",   "loss", "queue", "nat"};
const std::vector<std::string> kNodeKeys = {"rate", "up", "down", "rtt", "loss", "queue", "nat"};
const std::vector<std::string> kLinkKeys = {"rate", "rtt", "loss", "queue"};

// Parses a number and a unit; returns nothing if it is anything else.
std::optional<double> Quantity(absl::string_view text,
                               const std::vector<std::pair<std::string, double>>& units) {
  text = absl::StripAsciiWhitespace(text);
  const size_t end = std::min(text.find_first_not_of("0123456789."), text.size());
  double number = 0;
  if (end == 0 || !absl::ascii_isdigit(text[0]) || !absl::SimpleAtod(text.substr(0, end), &number))
    return std::nullopt;
  const absl::string_view unit = absl::StripLeadingAsciiWhitespace(text.substr(end));
  for (const auto& [name, factor] : units) {
    if (unit == name) return number * factor;
  }
  return std::nullopt;
}

// The values that a table gives for a line; those that it does not give are empty.
struct Values {
  std::optional<int64_t> peers;
  std::optional<double> rate, up, down;
  std::optional<absl::Duration> rtt;
  std::optional<bool> nat;
};

struct Named {
  std::string name;
  const toml::node* node;
};

// Restores the order of the file, which the parsed table has lost.
std::vector<Named> InOrder(const toml::table& table) {
  std::vector<Named> entries;
  for (const auto& [name, node] : table) entries.push_back({std::string(name.str()), &node});
  std::stable_sort(entries.begin(), entries.end(), [](const Named& a, const Named& b) {
    const auto place = [](const Named& entry) {
      return std::pair(entry.node->source().begin.line, entry.node->source().begin.column);
    };
    return place(a) < place(b);
  });
  return entries;
}

class Reader {
 public:
  explicit Reader(std::string path) : path_(std::move(path)) {}

  absl::StatusOr<LinkModel> Read(const std::string& text) {
    toml::table document;
    try {
      document = toml::parse(text, path_);
    } catch (const toml::parse_error& error) {
      std::string reason(error.description());
      std::replace(reason.begin(), reason.end(), '\n', ' ');
      return At(error.source().begin.line, reason);
    }
    for (const Named& section : InOrder(document)) {
      if (std::find(kSections.begin(), kSections.end(), section.name) == kSections.end()) {
        return At(*section.node, absl::StrCat("there is no section '", section.name, "'",
                                              Suggestion(section.name, kSections)));
      }
      if (!section.node->is_table()) {
        return At(*section.node, absl::StrCat("'", section.name, "' must be a section"));
      }
    }
    RETURN_IF_ERROR(ReadLab(document["lab"].as_table()));
    RETURN_IF_ERROR(ReadRegions(document["region"].as_table()));
    RETURN_IF_ERROR(ReadPeers(document["peer"].as_table()));
    RETURN_IF_ERROR(ReadLinks(document["link"].as_table()));
    RETURN_IF_ERROR(ReadCoordinator(document["coordinator"].as_table()));
    const absl::Status connected = model_.Connect();
    if (!connected.ok()) return At(1, connected.message());
    return std::move(model_);
  }

 private:
  absl::Status At(uint32_t line, absl::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat(path_, ":", line, ": ", what));
  }
  absl::Status At(const toml::node& node, absl::string_view what) const {
    return At(node.source().begin.line, what);
  }

  absl::Status ReadLab(const toml::table* lab) const {
    if (lab == nullptr) return absl::OkStatus();
    for (const Named& entry : InOrder(*lab)) {
      if (entry.name == "seed" && entry.node->is_integer()) continue;
      return At(*entry.node, "[lab] holds a seed, a whole number, and nothing else");
    }
    return absl::OkStatus();
  }

  absl::Status ReadValue(const Named& entry, Values* values) const {
    const toml::node& node = *entry.node;
    const std::string text = node.is_string() ? node.as_string()->get() : std::string();
    if (entry.name == "peers") {
      values->peers = node.is_integer() ? node.as_integer()->get() : int64_t{-1};
      if (*values->peers >= 0 && *values->peers <= kMostPeersOfRegion) return absl::OkStatus();
      return At(node, absl::StrCat("peers must be a whole number from 0 to ", kMostPeersOfRegion));
    }
    if (entry.name == "rate" || entry.name == "up" || entry.name == "down") {
      const absl::StatusOr<double> rate = ParseRate(text);
      if (!rate.ok()) return At(node, absl::StrCat(entry.name, ": ", rate.status().message()));
      (entry.name == "rate" ? values->rate
       : entry.name == "up" ? values->up
                            : values->down) = *rate;
    } else if (entry.name == "rtt" || entry.name == "queue") {
      const absl::StatusOr<absl::Duration> time = ParseDelay(text);
      if (!time.ok()) return At(node, absl::StrCat(entry.name, ": ", time.status().message()));
      if (entry.name == "rtt") values->rtt = *time;
    } else if (entry.name == "nat") {
      if (!node.is_boolean()) return At(node, "nat must be true or false");
      values->nat = node.as_boolean()->get();
    } else {  // loss
      const std::optional<double> loss =
          node.is_number() ? node.value<double>() : std::optional<double>();
      if (!loss || !(*loss >= 0 && *loss < 1)) {
        return At(node, "loss must be a share, 0.01 for one packet in a hundred");
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Values> ReadTable(const std::string& where, const toml::node& node,
                                   const std::vector<std::string>& keys) const {
    const toml::table* table = node.as_table();
    if (table == nullptr) return At(node, absl::StrCat("write it as a section, [", where, "]"));
    Values values;
    for (const Named& entry : InOrder(*table)) {
      if (where == "coordinator" && entry.name == "region") continue;
      if (std::find(keys.begin(), keys.end(), entry.name) == keys.end()) {
        return At(*entry.node, absl::StrCat("there is no '", entry.name, "' in [", where, "]",
                                            Suggestion(entry.name, keys)));
      }
      RETURN_IF_ERROR(ReadValue(entry, &values));
    }
    return values;
  }

  // A node's own line, by what its region says (`base`) and what is said of it alone.
  absl::StatusOr<PeerLink> MakeNode(const std::string& name, const toml::node& place, size_t region,
                                    const Values& base, const Values& own) const {
    std::optional<double> up = base.up ? base.up : base.rate;
    std::optional<double> down = base.down ? base.down : base.rate;
    if (own.rate) up = down = own.rate;  // nearer than the region's own up and down
    if (own.up) up = own.up;
    if (own.down) down = own.down;
    if (!up || !down) {
      return At(place,
                absl::StrCat(name, " needs a rate (or up and down), of its own or of region ",
                             model_.regions()[region]));
    }
    // A region's rtt is that between two of its peers, so each has half of it to the middle and
    // back; a node's own rtt is that to such a peer.
    const absl::Duration half = base.rtt.value_or(absl::ZeroDuration()) / 2;
    const absl::Duration to_middle = own.rtt ? *own.rtt - half : half;
    if (to_middle < absl::ZeroDuration()) {
      return At(place, absl::StrCat(name, ": rtt is shorter than that of the other side alone"));
    }
    const bool nat = own.nat ? *own.nat : base.nat.value_or(false);
    return PeerLink{name, region, *up, *down, to_middle / 2, !nat};
  }

  absl::Status ReadRegions(const toml::table* regions) {
    if (regions == nullptr || regions->empty()) {
      return At(1, "there is no region: write [region.NAME]");
    }
    for (const Named& entry : InOrder(*regions)) {
      const std::string where = absl::StrCat("region.", entry.name);
      const bool good = !entry.name.empty() && absl::ascii_islower(entry.name[0]) &&
                        std::all_of(entry.name.begin(), entry.name.end(), [](char c) {
                          return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '_';
                        });
      if (!good) {
        return At(*entry.node, absl::StrCat(where, ": a name is lower-case letters, digits and _"));
      }
      ASSIGN_OR_RETURN(const Values values, ReadTable(where, *entry.node, kRegionKeys));
      region_numbers_[entry.name] = model_.AddRegion(entry.name);
      regions_.push_back({entry.node, values});
    }
    return absl::OkStatus();
  }

  absl::Status ReadPeers(const toml::table* peers) {
    std::map<std::string, std::pair<const toml::node*, Values>> own;
    if (peers != nullptr) {
      for (const Named& entry : InOrder(*peers)) {
        ASSIGN_OR_RETURN(const Values values,
                         ReadTable(absl::StrCat("peer.", entry.name), *entry.node, kNodeKeys));
        own[entry.name] = {entry.node, values};
      }
    }
    for (size_t region = 0; region < regions_.size(); ++region) {
      for (int64_t i = 1; i <= regions_[region].second.peers.value_or(0); ++i) {
        const std::string name = absl::StrCat(model_.regions()[region], "-", i);
        const auto found = own.find(name);
        const bool has = found != own.end();
        const toml::node& place = has ? *found->second.first : *regions_[region].first;
        ASSIGN_OR_RETURN(PeerLink peer, MakeNode(name, place, region, regions_[region].second,
                                                 has ? found->second.second : Values()));
        model_.AddPeer(std::move(peer));
        if (has) own.erase(found);
      }
    }
    if (own.empty()) return absl::OkStatus();
    std::vector<std::string> names;
    for (const PeerLink& peer : model_.peers()) names.push_back(peer.name);
    const std::string near = NearestName(own.begin()->first, names);
    return At(*own.begin()->second.first,
              absl::StrCat("there is no peer '", own.begin()->first, "'",
                           near.empty() ? "" : absl::StrCat("; did you mean '", near, "'?")));
  }

  absl::StatusOr<size_t> RegionOf(const toml::node& place, const std::string& name) const {
    const auto found = region_numbers_.find(name);
    if (found != region_numbers_.end()) return found->second;
    return At(place,
              absl::StrCat("there is no region '", name, "'", Suggestion(name, model_.regions())));
  }

  absl::Status ReadLinks(const toml::table* links) {
    if (links == nullptr) return absl::OkStatus();
    std::map<std::pair<size_t, size_t>, bool> known;
    for (const Named& entry : InOrder(*links)) {
      const std::string where = absl::StrCat("link.", entry.name);
      ASSIGN_OR_RETURN(const Values values, ReadTable(where, *entry.node, kLinkKeys));
      const std::vector<std::string> ends = absl::StrSplit(entry.name, '-');
      if (ends.size() != 2 || ends[0] == ends[1]) {
        return At(*entry.node,
                  absl::StrCat(where, ": a link is named by two regions, like [link.eu-us]"));
      }
      ASSIGN_OR_RETURN(const size_t a, RegionOf(*entry.node, ends[0]));
      ASSIGN_OR_RETURN(const size_t b, RegionOf(*entry.node, ends[1]));
      if (!values.rate) return At(*entry.node, absl::StrCat(where, ": needs a rate"));
      if (!known.emplace(std::minmax(a, b), true).second) {
        return At(*entry.node, absl::StrCat(where, ": there is another between these two"));
      }
      model_.AddLink(a, b, *values.rate, values.rtt.value_or(absl::ZeroDuration()));
    }
    return absl::OkStatus();
  }

  absl::Status ReadCoordinator(const toml::table* table) {
    size_t region = 0;
    Values own;
    if (table != nullptr) {
      if (const toml::node* home = table->get("region")) {
        if (!home->is_string()) return At(*home, "region must be a region's name");
        ASSIGN_OR_RETURN(region, RegionOf(*home, home->as_string()->get()));
      }
      ASSIGN_OR_RETURN(own, ReadTable("coordinator", *table, kNodeKeys));
      if (own.nat.value_or(false)) return At(*table, "coordinator.nat: nobody could reach it");
    }
    const toml::node& place =
        table != nullptr ? static_cast<const toml::node&>(*table) : *regions_[region].first;
    ASSIGN_OR_RETURN(PeerLink node,
                     MakeNode("coordinator", place, region, regions_[region].second, own));
    node.reachable = true;
    model_.SetCoordinator(std::move(node));
    return absl::OkStatus();
  }

  const std::string path_;
  LinkModel model_;
  std::vector<std::pair<const toml::node*, Values>> regions_;
  std::map<std::string, size_t> region_numbers_;
};

}  // namespace

absl::StatusOr<absl::Duration> ParseDelay(absl::string_view text) {
  const std::optional<double> seconds = Quantity(text, {{"us", 1e-6}, {"ms", 1e-3}, {"s", 1}});
  if (seconds) return absl::Seconds(*seconds);
  return absl::InvalidArgumentError(
      absl::StrCat("'", text, "' is not a time: write a number and one of us, ms, s"));
}

absl::StatusOr<LinkModel> LoadTopology(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  std::error_code error;
  if (!stream || std::filesystem::is_directory(path, error)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": cannot be read"));
  }
  const std::string text((std::istreambuf_iterator<char>(stream)),
                         std::istreambuf_iterator<char>());
  return Reader(path).Read(text);
}

// -----------------------------------------------------------------------------------------------

namespace {

uint64_t ChunksOf(const PlanQuestion& question) {
  return (question.parameters + question.chunk_elements - 1) / question.chunk_elements;
}

// The default and the maximum of exchange.chunk_elements.
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
  std::string name = candidate.codec;
  if (!candidate.slow_codec.empty()) absl::StrAppend(&name, "|", candidate.slow_codec);
  if (candidate.codec != candidate.upper_codec) absl::StrAppend(&name, "/", candidate.upper_codec);
  return name;
}

bool Aggregated(const PlanQuestion& question) {
  return question.links.contributors() < question.links.peers().size();
}

PlanBounds BoundsFor(const PlanQuestion& question, const EncodedSize& size) {
  // The coordinator's own line alone carries what an aggregator reduces.
  const bool relays = question.plan != "flat" && !Aggregated(question);
  return BoundsOf(question.links.contributors(), std::max(size.update_bytes, size.mean_bytes),
                  relays, question.assumed);
}

// Notes which peers send in the codec of slow lines, if the config has one; otherwise nothing.
std::vector<std::string> SlowNotes(const PlanQuestion& question) {
  constexpr size_t kMostNames = 3;
  if (question.slow_codec.empty()) return {};
  std::vector<std::string> names;
  for (const PeerLink& peer : question.links.peers()) {
    if (peer.slow) names.push_back(peer.name);
  }
  const std::string who = names.empty()               ? "no peer"
                          : names.size() > kMostNames ? absl::StrCat(names.size(), " peers")
                                                      : absl::StrJoin(names, ", ");
  const bool one = names.size() <= 1;
  return {absl::StrCat(
      "slow lines: ", who, one ? " sends" : " send", " updates as ", question.slow_codec,
      " (exchange.slow_codec)",
      (*FindCodec(question.slow_codec))->has_fixed_rate() ? "" : ", counted at its longest")};
}

// Notes how streams limit the plans of the config's codec; nothing if they do not.
std::vector<std::string> StreamNotes(const PlanQuestion& question) {
  const absl::StatusOr<LevelCodecs> codecs =
      LevelsWith(question.codec, question.upper_codec, question.slow_codec);
  if (!codecs.ok() || Aggregated(question)) return {};
  const PlanBounds bounds =
      BoundsFor(question, EncodedSizeOf(question.parameters, question.chunk_elements, *codecs));
  const size_t peers = question.links.contributors();
  std::vector<std::string> notes;
  if (bounds.reducers < peers) {
    notes.push_back(absl::StrCat(
        "at most ", bounds.reducers, " of ", peers, " peers reduce: a stream is worth its cost if ",
        "it carries ",
        FormatBytes(question.assumed.stream_seconds * question.assumed.wire_bytes_per_second)));
  }
  if (bounds.grouping.any()) {
    notes.push_back(absl::StrCat("two levels: ", bounds.grouping.members,
                                 " peers at most average first, by ",
                                 Counted(bounds.grouping.relays, "relay"), " of theirs"));
  }
  return notes;
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
        "line, which reduces everything; nothing is known of its line, so the plan is flat");
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
  for (std::string& note : SlowNotes(question)) notes.push_back(std::move(note));
  for (std::string& note : StreamNotes(question)) notes.push_back(std::move(note));
  if (question.train_seconds <= 0) {
    notes.push_back(
        "no utilisation: how long an inner step takes is not known; say it with --step-seconds");
  }
  return notes;
}

// Returns pairs of codecs for updates and means; the config's codec of updates comes with its codec
// for slow lines.
std::vector<LevelCodecs> PairsFor(const PlanQuestion& question) {
  const std::vector<std::string> names = PredictableCodecs();
  const auto add = [&](const std::string& updates, const std::string& means,
                       std::vector<LevelCodecs>* to) {
    const std::string slow = updates == question.codec ? question.slow_codec : "";
    const absl::StatusOr<LevelCodecs> codecs = LevelsWith(updates, means, slow);
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

ModesAsked ModesOf(const PlanQuestion& question) {
  ModesAsked asked;
  asked.question.links = question.links;
  asked.question.plan = question.plan == "flat"      ? PlanKind::kFlat
                        : question.plan == "regions" ? PlanKind::kRegions
                                                     : PlanKind::kAuto;
  asked.question.parameters = question.parameters;
  asked.question.chunk_elements = question.chunk_elements;
  asked.question.steps = question.steps;
  asked.question.step_seconds = question.train_seconds / question.steps;
  asked.question.assumed = question.assumed;
  asked.codec = question.codec;
  asked.upper_codec = question.upper_codec;
  asked.slow_codec = question.slow_codec;
  asked.mode = question.mode;
  asked.utilisation = question.utilisation;
  return asked;
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
    if (aggregated && shape != PlanShape::kFlat) continue;
    for (const LevelCodecs& codecs : PairsFor(question)) {
      PlanCandidate candidate;
      candidate.shape = shape;
      candidate.codec = codecs.slow != nullptr ? question.codec : codecs.updates.name();
      candidate.slow_codec = codecs.slow != nullptr ? question.slow_codec : "";
      candidate.upper_codec = codecs.means.name();
      const EncodedSize size = EncodedSizeOf(question.parameters, question.chunk_elements, codecs);
      const PlanBounds bounds = BoundsFor(question, size);
      const ExchangeTraffic traffic =
          TrafficOf(question.links, shape, static_cast<uint32_t>(ChunksOf(question)),
                    RatesFor(question.links, shape, bounds), bounds.grouping);
      // It would be flat, or of the same groups.
      if (ByRegion(shape) && (traffic.relays == 0 || bounds.grouping.any())) continue;
      candidate.reducers = traffic.reducers;
      candidate.group = bounds.grouping.members;
      candidate.most_streams = *std::max_element(traffic.ends.begin(), traffic.ends.end());
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
        const bool planned = aggregated || question.plan == "auto" || candidate.group > 0 ||
                             ByRegion(candidate.shape) == (question.plan == "regions");
        return planned && candidate.codec == question.codec &&
               candidate.upper_codec == question.upper_codec;
      });
  if (of_config != candidates.end()) of_config->of_config = true;
  return candidates;
}

nlohmann::ordered_json OuterAdviceJson(const std::vector<OuterAdvice>& all) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const OuterAdvice& advice : all) {
    nlohmann::ordered_json changes = nlohmann::ordered_json::array();
    for (const OuterAdvice::Change& change : advice.changes) {
      changes.push_back({{"key", change.key}, {"value", change.value}});
    }
    list.push_back({{"what", advice.what}, {"changes", changes}});
  }
  return list;
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
                                  {"slow_codec", candidate.slow_codec},
                                  {"upper_codec", candidate.upper_codec},
                                  {"fastest", candidate.best},
                                  {"of_config", candidate.of_config},
                                  {"reducers", candidate.reducers},
                                  {"peers_of_a_group", candidate.group},
                                  {"most_streams_of_a_peer", candidate.most_streams},
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
                     {"first_window_bytes", question.assumed.first_window_bytes},
                     {"stream_seconds", question.assumed.stream_seconds},
                     {"wire_bytes_per_second", question.assumed.wire_bytes_per_second}};
  json["modes"] = ModesJson(ModesOf(question));
  json["notes"] = Notes(question);
  json["advice"] = OuterAdviceJson(AdviseOuterStep(question.outer));
  json["candidates"] = list;
  return json;
}

std::vector<std::string> PlanText(const PlanQuestion& question,
                                  const std::vector<PlanCandidate>& candidates) {
  const bool known = question.train_seconds > 0;
  std::vector<std::string> lines = {absl::StrCat(
      WithThousands(question.parameters), " ", Noun(question.parameters, "parameter"), ", ",
      WithThousands(question.links.contributors()), " ",
      Noun(question.links.contributors(), "peer"), ": ", question.network,
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
  for (std::string& line : ModesText(ModesOf(question))) lines.push_back(std::move(line));
  for (const OuterAdvice& advice : AdviseOuterStep(question.outer)) {
    lines.push_back(absl::StrCat("warning: ", DescribeOuterAdvice(advice)));
  }
  for (const std::string& note : Notes(question)) lines.push_back(note);
  lines.push_back(Assumed(question));
  return lines;
}

}  // namespace atolld
