#include "daemon/figures/status_json.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/base/casts.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "compression/base/bitmap.h"
#include "compression/base/words.h"
#include "daemon/figures/figures.h"
#include "daemon/program/format.h"
#include "membership/experts/expert_parts.h"
#include "membership/history/header.h"
#include "membership/history/lineage.h"
#include "membership/history/run_codecs.h"
#include "membership/run/ledger.h"
#include "membership/run/losses.h"
#include "membership/run/utilisation.h"

namespace atolld {
namespace {

using Json = nlohmann::ordered_json;

constexpr auto kReplace = Json::error_handler_t::replace;

std::string Hex(const std::string& digest) { return absl::BytesToHexString(digest); }

Json PrivacyJson(const v1::PrivacySpec& privacy) {
  if (privacy.clip_bits() == 0) return nullptr;
  return {{"clip", absl::bit_cast<float>(privacy.clip_bits())},
          {"noise", absl::bit_cast<float>(privacy.noise_bits())},
          {"quantile", absl::bit_cast<float>(privacy.quantile_bits())},
          {"parties", privacy.parties()},
          {"sampling", absl::bit_cast<float>(privacy.sampling_bits())},
          {"delta", privacy.delta()},
          {"epsilon", privacy.epsilon()}};
}

Json ExpertsJson(const v1::ExpertsSpec& experts) {
  if (experts.owners() == 0) return nullptr;
  Json tensors = Json::array();
  for (const std::string& pattern : experts.tensors()) tensors.push_back(pattern);
  return {{"owners", experts.owners()}, {"tensors", std::move(tensors)}};
}

Json ModeJson(const v1::ModeSpec& mode) {
  Json json = {{"kind", mode.kind().empty() ? "sync" : mode.kind()}};
  if (mode.kind() != "streaming") return json;
  json["fragments"] = std::max<uint32_t>(1, mode.fragments());
  json["overlap"] = mode.overlap_steps();
  return json;
}

// Returns "streaming, 4 fragments, overlap 1".
std::string ModeOf(const v1::ModeSpec& mode) {
  if (mode.kind().empty()) return "sync";
  if (mode.kind() != "streaming") return mode.kind();
  const uint32_t fragments = std::max<uint32_t>(1, mode.fragments());
  return absl::StrCat("streaming, ", Counted(fragments, "fragment"), ", overlap ",
                      mode.overlap_steps());
}

Json SpecJson(const v1::RunSpec& spec) {
  const v1::ModelSpec& model = spec.model();
  return {{"seed", spec.seed()},
          {"rounds", spec.rounds()},
          {"model",
           {{"kind", model.kind()},
            {"layers", model.layers()},
            {"heads", model.heads()},
            {"width", model.width()},
            {"context", model.context()},
            {"vocabulary", model.vocabulary()},
            {"lora_rank", model.lora_rank()},
            {"lora_slice", model.lora_slice()}}},
          {"inner",
           {{"optimizer", spec.inner().optimizer()},
            {"steps", spec.inner().steps()},
            {"batch", spec.inner().batch()},
            {"learning_rate", spec.inner().learning_rate()},
            {"weight_decay", spec.inner().weight_decay()}}},
          {"outer",
           {{"rule", spec.outer().rule()},
            {"learning_rate", absl::bit_cast<float>(spec.outer().learning_rate_bits())},
            {"momentum", absl::bit_cast<float>(spec.outer().momentum_bits())}}},
          {"mode", ModeJson(spec.mode())},
          {"privacy", PrivacyJson(spec.privacy())},
          {"experts", ExpertsJson(spec.experts())},
          {"evaluation", {{"every_rounds", spec.evaluation().every_rounds()}}},
          {"codec", CodecText(spec.exchange())},
          {"history_key", Hex(spec.history_key())}};
}

Json SealJson(const v1::Seal& seal) {
  return {{"version", seal.version()},
          {"state_digest", Hex(seal.state_digest())},
          {"header_digest", Hex(seal.header_digest())}};
}

Json LinksJson(const v1::RunStatus& status) {
  Json links = Json::array();
  for (const v1::LinkStatus& link : status.links()) {
    Json json = {{"from", link.from()}, {"to", link.to()}};
    LinkFigures().Put(link, &json);
    links.push_back(std::move(json));
  }
  return links;
}

std::vector<std::string> LinksText(const v1::RunStatus& status) {
  std::vector<std::vector<std::string>> rows = {{"from", "to", "counted on", "carried", "latency"}};
  for (const v1::LinkStatus& link : status.links()) {
    rows.push_back({link.from(), link.to(),
                    LinkFigures().At("/predicted_bytes_per_second").Text(link, "-"),
                    LinkFigures().At("/measured_bytes_per_second").Text(link, "-"),
                    link.seconds() <= 0 ? "-" : absl::StrFormat("%.0f ms", 1e3 * link.seconds())});
  }
  return AlignColumns(rows, "<<>>>");
}

// Returns "20 Mbit/s up, - down", or `unknown` if neither figure is known.
std::string BothWays(const v1::PeerStatus& peer, const char* up, const char* down,
                     const char* unknown) {
  const std::string sent = PeerFigures().At(up).Text(peer, "-");
  const std::string received = PeerFigures().At(down).Text(peer, "-");
  if (sent == "-" && received == "-") return unknown;
  return absl::StrCat(sent, " up, ", received, " down");
}

// Seconds and smaller offsets come from heartbeats that wait for their turn, and have no meaning.
std::string ClockText(const v1::PeerStatus& peer) {
  if (peer.progress().clock_seconds() <= 0) return "not told";
  const double offset = peer.clock_offset_seconds();
  if (std::abs(offset) < 1) return "as the coordinator's";
  return absl::StrCat(FormatSeconds(std::abs(offset)), offset > 0 ? " ahead of" : " behind",
                      " the coordinator's");
}

std::string TimeLeftText(const v1::RunStatus& status) {
  if (status.predicted_end_unix_seconds() <= 0) return "not known";
  const absl::Time end = absl::UnixEpoch() + absl::Seconds(status.predicted_end_unix_seconds());
  return absl::StrCat("in about ",
                      FormatSeconds(status.predicted_end_unix_seconds() - status.unix_seconds()),
                      ", at ", absl::FormatTime("%Y-%m-%d %H:%M UTC", end, absl::UTCTimeZone()));
}

// The utilisation of the newest round, or of a peer's newest update.
std::string UtilisationRow(const v1::Utilisation& utilisation) {
  if (!TrainedShare(utilisation)) return "not known";
  std::string text = absl::StrCat(UtilisationText(utilisation), " of the time trained, ",
                                  FormatSeconds(utilisation.waited_seconds()), " waited");
  if (!HiddenShare(utilisation)) return text;
  absl::StrAppend(&text, "; ", HiddenText(utilisation), " exchanged while training");
  return text;
}

std::string PhaseText(const v1::PeerProgress& progress) {
  if (progress.phase().empty()) return "-";
  if (progress.steps() == 0) return progress.phase();
  return absl::StrCat(progress.phase(), ", step ", progress.step(), " of ", progress.steps());
}

std::string DataRow(const v1::RunStatus& status) {
  if (RunFigures().At("/data/spent").value(status)) return DataText(status.data());
  return status.spec().data().private_() ? "each party's own" : "not known";
}

// Returns "peer", or "peer of 1,000" if it hosts that many parties.
std::string RoleText(const v1::PeerStatus& peer) {
  if (peer.parties() <= 1) return peer.role();
  return absl::StrCat(peer.role(), " of ", WithThousands(peer.parties()));
}

}  // namespace

Json OrNull(const std::optional<double>& value) { return FigureJson(value); }

Json OrNull(const std::optional<int>& value) {
  return value.has_value() ? Json(*value) : Json(nullptr);
}

Json PeerJson(const v1::PeerStatus& peer) {
  const v1::Member& member = peer.member();
  const v1::PeerProgress& progress = peer.progress();
  Json offer = nullptr;
  if (member.has_offer()) {
    offer = {
        {"oldest_entry", member.offer().oldest_entry()},
        {"snapshot_version",
         member.offer().has_snapshot() ? Json(member.offer().snapshot_version()) : Json(nullptr)}};
  }
  Json json = {{"member",
                {{"peer", member.peer()},
                 {"address", member.address()},
                 {"role", peer.role()},
                 {"region", member.region()},
                 {"state", member.state()},
                 {"version", member.version()},
                 {"offer", offer}}},
               {"why", peer.why()},
               {"progress",
                {{"phase", progress.phase()},
                 {"held_back", progress.held_back()},
                 {"still_tensors", progress.still_tensors()}}},
               {"offence", peer.offence()},
               {"state_digest", Hex(peer.state_digest())},
               {"device", peer.device()},
               {"notice", peer.notice()}};
  ToldFigures().Put(peer, &json);
  PeerFigures().Put(peer, &json);
  if (!peer.has_utilisation()) json["utilisation"] = nullptr;
  return json;
}

Json PeersJson(const v1::RunStatus& status) {
  Json peers = Json::array();
  for (const v1::PeerStatus& peer : status.peers()) peers.push_back(PeerJson(peer));
  return peers;
}

// `from` is null for the coordinator's own dial.
Json DoubtsJson(const v1::RunStatus& status) {
  Json doubts = Json::array();
  for (const v1::ReachDoubt& doubt : status.doubts()) {
    doubts.push_back({{"from", doubt.from().empty() ? Json(nullptr) : Json(doubt.from())},
                      {"to", doubt.to()},
                      {"seconds", doubt.seconds()},
                      {"reason", doubt.reason()}});
  }
  return doubts;
}

// One object for each expert; an empty list if the run has no owners.
Json OwnersJson(const v1::RunStatus& status) {
  Json experts = Json::array();
  if (HasSlices(status.spec())) return experts;
  for (const v1::ExpertStatus& expert : status.experts()) {
    Json owners = Json::array();
    for (const std::string& owner : expert.owners()) owners.push_back(owner);
    experts.push_back({{"number", expert.number()}, {"owners", std::move(owners)}});
  }
  return experts;
}

// Returns how many slices of adapters each peer trains, by its name.
std::map<std::string, uint32_t> SlicesByPeer(const v1::RunStatus& status) {
  std::map<std::string, uint32_t> slices;
  for (const v1::ExpertStatus& slice : status.experts()) {
    for (const std::string& peer : slice.owners()) ++slices[peer];
  }
  return slices;
}

// The ranks that each peer trains, from the first on; null if adapters have no slices.
Json RanksJson(const v1::RunStatus& status) {
  if (!HasSlices(status.spec())) return nullptr;
  Json ranks = Json::object();
  for (const auto& [peer, slices] : SlicesByPeer(status)) {
    ranks[peer] = slices * status.spec().model().lora_slice();
  }
  return ranks;
}

Json RoundJson(const v1::RoundRecord& round) {
  Json json = {{"version", round.version()}};
  RoundFigures().Put(round, &json);
  if (!round.has_utilisation()) json["utilisation"] = nullptr;
  json["plan"] = round.plan().empty() ? Json(nullptr) : Json(round.plan());
  return json;
}

Json RunStatusJson(const v1::RunStatus& status) {
  Json json = {{"run_id", status.spec().run_id()},
               {"phase", status.phase()},
               {"reason", status.reason()},
               {"paused", status.paused()},
               {"stopping", status.stopping()},
               {"stopped_because", status.stopped_because()},
               {"mode_because", status.mode_because()},
               {"noise", {{"unknown", status.noise().unknown()}}},
               {"spec", SpecJson(status.spec())},
               {"peers", PeersJson(status)},
               {"links", LinksJson(status)},
               {"doubts", DoubtsJson(status)},
               {"never_come",
                std::vector<std::string>(status.never_come().begin(), status.never_come().end())},
               {"experts", OwnersJson(status)},
               {"lora_ranks", RanksJson(status)}};
  RunFigures().Put(status, &json);
  json["parent"] = status.spec().has_parent() ? LineageJson(status.spec().parent()) : Json(nullptr);
  json["rounds"] = Json::array();
  for (const v1::RoundRecord& round : status.rounds()) json["rounds"].push_back(RoundJson(round));
  json["evaluations"] = Json::array();
  for (const v1::EvaluationRecord& evaluation : status.evaluations()) {
    Json one = {{"version", evaluation.version()}};
    EvaluationFigures().Put(evaluation, &one);
    json["evaluations"].push_back(std::move(one));
  }
  json["loss_unit"] = LossUnit(status.spec());
  json["seal"] = status.has_seal() ? SealJson(status.seal()) : Json(nullptr);
  json["events"] = Json::array();
  for (const std::string& event : status.events()) json["events"].push_back(event);
  return json;
}

Json LineageJson(const v1::Lineage& lineage) {
  Json json = {{"run_id", lineage.run_id()},
               {"version", lineage.version()},
               {"state_digest", Hex(lineage.state_digest())},
               {"header_digest", Hex(lineage.header_digest())},
               {"steps", lineage.steps()},
               {"tokens", lineage.tokens()},
               {"next_sample", lineage.next_sample()},
               {"buffers", lineage.buffers()}};
  json["earlier"] = Json::array();
  for (const v1::Lineage& older : lineage.earlier()) {
    json["earlier"].push_back({{"run_id", older.run_id()},
                               {"version", older.version()},
                               {"state_digest", Hex(older.state_digest())},
                               {"tokens", older.tokens()}});
  }
  return json;
}

namespace {

// Returns the positions of the bits that are set.
Json BitsJson(const std::string& bitmap) {
  Json bits = Json::array();
  for (size_t bit = 0; bit < 8 * bitmap.size(); ++bit) {
    if (BitAt(bitmap, bit)) bits.push_back(bit);
  }
  return bits;
}

// Sets "sets", the contributors of each set by their positions, and "runs", the consecutive chunks
// whose means were taken over one set.
void PutMeans(const v1::MeanRecords& records, Json* json) {
  Json sets = Json::array();
  for (const v1::ContributorSet& set : records.sets()) sets.push_back(BitsJson(set.contributors()));
  Json runs = Json::array();
  for (const v1::ShardRecord& shard : records.shards()) {
    uint32_t first = shard.first_chunk();
    for (const v1::ChunkRun& run : shard.runs()) {
      runs.push_back({{"first_chunk", first}, {"chunks", run.chunks()}, {"set", run.set()}});
      first += run.chunks();
    }
  }
  (*json)["sets"] = std::move(sets);
  (*json)["runs"] = std::move(runs);
}

}  // namespace

Json HeaderJson(const v1::EntryHeader& header) {
  Json contributors = Json::array();
  for (const v1::Contributor& contributor : header.contributors()) {
    contributors.push_back({{"peer", contributor.peer()},
                            {"weight", absl::bit_cast<float>(contributor.weight_bits())},
                            {"steps", contributor.steps()},
                            {"tokens", contributor.tokens()}});
    // The experts that its update covers, as positions among the experts' numbers.
    if (contributor.owned().empty()) continue;
    contributors.back()["owned"] = BitsJson(contributor.owned());
  }
  Json scalars = Json::object();
  for (const v1::Scalar& scalar : header.scalars())
    scalars[scalar.name()] = absl::bit_cast<float>(scalar.bits());
  Json json = {{"run_id", header.run_id()},
               {"version", header.version()},
               {"header_digest", ToHex(HeaderDigest(header))},
               {"payload_digest", Hex(header.payload_digest())},
               {"previous_state_digest", Hex(header.previous_state_digest())},
               {"previous_header_digest", Hex(header.previous_header_digest())},
               {"outer_rule", header.outer_rule()},
               {"scalars", scalars},
               {"codec", header.codec()},
               {"shards", header.records().shards_size()},
               {"contributors", contributors}};
  PutMeans(header.records(), &json);
  return json;
}

std::string UtilisationText(const v1::Utilisation& utilisation) {
  const std::optional<double> share = TrainedShare(utilisation);
  return share ? FormatPercent(*share) : "-";
}

std::string HiddenText(const v1::Utilisation& utilisation) {
  if (!HiddenShare(utilisation)) return "-";
  const auto hidden = static_cast<double>(utilisation.hidden_bytes());
  return absl::StrCat(FormatBytes(hidden), " of ",
                      FormatBytes(hidden + static_cast<double>(utilisation.waited_bytes())));
}

std::string DataText(const v1::DataStatus& data) {
  std::string counts = absl::StrCat("spent ", WithThousands(data.spent()));
  // A folder, whose run has no coordinator, knows nothing of leases.
  if (data.next() > 0 || data.held() > 0 || data.returned() > 0) {
    absl::StrAppend(&counts, "; held ", WithThousands(data.held()), "; returned ",
                    WithThousands(data.returned()));
  }
  const uint64_t pass = data.samples_a_pass();
  if (pass == 0) return counts;
  const double position = static_cast<double>(data.spent() % pass) / static_cast<double>(pass);
  return absl::StrFormat("pass %d, %.1f %% (%s)", data.spent() / pass + 1, position * 100, counts);
}

std::string NoiseVerdict(const v1::NoiseStatus& noise) {
  const bool helps = noise.tokens() >= static_cast<double>(noise.round_tokens());
  return helps ? "more peers still help" : "more peers help less and less";
}

std::optional<double> SpentEpsilon(const v1::RunStatus& status) {
  if (status.version() == 0) return 0;
  if (status.rounds().empty()) return std::nullopt;
  return RoundFigures().At("/epsilon").value(*status.rounds().rbegin());
}

std::string PrivacyText(const v1::PrivacySpec& privacy, std::optional<double> epsilon) {
  if (privacy.clip_bits() == 0) return "";
  std::string text =
      absl::StrCat("epsilon ", epsilon ? absl::StrFormat("%.4g", *epsilon) : "not known",
                   " at delta ", absl::StrFormat("%g", privacy.delta()));
  if (privacy.epsilon() > 0) absl::StrAppendFormat(&text, ", of %g", privacy.epsilon());
  return text;
}

std::string NoiseText(const v1::NoiseStatus& noise) {
  if (noise.tokens() <= 0) {
    return absl::StrCat("unknown: ", noise.unknown().empty() ? "the coordinator does not tell it"
                                                             : noise.unknown());
  }
  return absl::StrCat(AboutTokens(noise.tokens()), " tokens a round; these peers make ",
                      WithThousands(noise.round_tokens()), ": ", NoiseVerdict(noise));
}

std::string DoubtText(const v1::ReachDoubt& doubt) {
  return absl::StrCat(doubt.from().empty() ? "the coordinator" : doubt.from(), " cannot reach ",
                      doubt.to(), " for ", FormatSeconds(doubt.seconds()), Because(doubt.reason()));
}

std::vector<std::string> OwnersText(const v1::RunStatus& status) {
  std::vector<uint32_t> numbers;
  for (const v1::ExpertStatus& expert : status.experts()) numbers.push_back(expert.number());
  const auto none = OwnsNothing(static_cast<uint32_t>(numbers.size()));
  std::map<std::string, std::string> owned;  // bitmaps by peer
  std::map<int, std::string> lacking;        // bitmaps by the number of owners, if it is too small
  for (int i = 0; i < status.experts_size(); ++i) {
    const v1::ExpertStatus& expert = status.experts(i);
    const auto bit = static_cast<size_t>(i);
    for (const std::string& owner : expert.owners()) {
      SetBit(&owned.try_emplace(owner, none).first->second, bit);
    }
    if (static_cast<uint32_t>(expert.owners_size()) >= status.spec().experts().owners()) continue;
    SetBit(&lacking.try_emplace(expert.owners_size(), none).first->second, bit);
  }
  std::vector<std::string> lines;
  for (const auto& [peer, bits] : owned) {
    lines.push_back(absl::StrCat(peer, " owns ", NameOwned(numbers, bits)));
  }
  for (const auto& [owners, bits] : lacking) {
    const std::string names = NameOwned(numbers, bits);
    const bool several = absl::StrContains(names, ',') || absl::StrContains(names, '-');
    const std::string have =
        absl::StrCat(several ? "experts " : "expert ", names, several ? " have " : " has ");
    if (owners == 0) {
      lines.push_back(absl::StrCat(have, "no owner: ", several ? "they do" : "it does",
                                   " not move until there is one"));
      continue;
    }
    lines.push_back(absl::StrCat(have, Counted(owners, "owner"), " of ",
                                 status.spec().experts().owners(), ": ",
                                 several ? "they wait" : "it waits", " for another peer"));
  }
  return lines;
}

// Says which ranks of the adapters each peer trains, and which nobody trains.
std::vector<std::string> RanksText(const v1::RunStatus& status) {
  const v1::ModelSpec& model = status.spec().model();
  std::vector<std::string> lines;
  uint32_t most = 0;
  for (const auto& [peer, slices] : SlicesByPeer(status)) {
    lines.push_back(absl::StrCat(peer, " trains ranks 1-", slices * model.lora_slice()));
    most = std::max(most, slices * model.lora_slice());
  }
  if (most > 0 && most < model.lora_rank()) {
    lines.push_back(absl::StrCat("nobody trains ranks ", most + 1, "-", model.lora_rank(),
                                 ": they do not move until somebody does"));
  }
  return lines;
}

namespace {

// Returns the rows of RunStatusText about its peers: who trains what, who cannot reach whom, and
// who has never come.
std::vector<std::vector<std::string>> PeersRows(const v1::RunStatus& status) {
  std::vector<std::vector<std::string>> rows;
  const bool slices = HasSlices(status.spec());
  const std::vector<std::string> owners = slices ? RanksText(status) : OwnersText(status);
  for (const std::string& line : owners) {
    rows.push_back({&line != &owners.front() ? "" : slices ? "adapters" : "experts", line});
  }
  for (const v1::ReachDoubt& doubt : status.doubts()) {
    rows.push_back({&doubt == &*status.doubts().begin() ? "no way" : "", DoubtText(doubt)});
  }
  for (const std::string& peer : status.never_come()) {
    rows.push_back({&peer == &*status.never_come().begin() ? "not come" : "",
                    absl::StrCat(peer, ": ", kNeverCome)});
  }
  return rows;
}

}  // namespace

std::vector<std::string> RunStatusText(const v1::RunStatus& status) {
  std::vector<std::vector<std::string>> rows = {
      {"run", status.spec().run_id()},
      {"phase", status.reason().empty() ? status.phase()
                                        : absl::StrCat(status.phase(), ": ", status.reason())},
      {"version", absl::StrCat(status.version(), " of ", status.spec().rounds())},
      RunFigures().At("/parameters").Row(status, "not known"),
      RunFigures().At("/tokens").Row(status, "not known"),
      RunFigures().At("/elapsed_seconds").Row(status, "not known"),
      {"mode", absl::StrCat(ModeOf(status.spec().mode()), status.mode_because().empty() ? "" : ": ",
                            status.mode_because())},
      {"data", DataRow(status)},
      {"coordinator epoch",
       status.epoch() == 0
           ? "not known"
           : absl::StrCat(status.epoch(), ", for ", FormatSeconds(status.epoch_seconds()))},
  };
  if (status.spec().has_parent()) {
    const v1::Lineage& parent = status.spec().parent();
    rows.push_back({"branch of", LineageText(parent)});
    for (const v1::Lineage& older : parent.earlier()) {
      rows.push_back({"", absl::StrCat("which was of ", LineageText(older))});
    }
  }
  if (status.stopping()) {
    rows.push_back({"stopping", absl::StrCat("it ends at the newest version",
                                             Because(status.stopped_because()))});
  }
  if (status.rounds_size() > 0) {
    const v1::RoundRecord& last = *status.rounds().rbegin();
    rows.push_back({"training loss", absl::StrCat(FormatMeasured(last.train_loss(), 4),
                                                  " in round ", last.version())});
    rows.push_back({"exchange", absl::StrCat(ExchangeTime(last), last.plan().empty() ? "" : ", ",
                                             last.plan())});
    rows.push_back({"utilisation", UtilisationRow(last.utilisation())});
  }
  if (status.evaluations_size() > 0) {
    const v1::EvaluationRecord& last = *status.evaluations().rbegin();
    const std::optional<double> loss = EvaluatedLoss(last);
    rows.push_back({"validation loss",
                    !loss ? "not known"
                          : absl::StrCat(LossText(*loss, LossUnit(status.spec())), " at version ",
                                         last.version(), OwnLossText(last))});
  }
  rows.push_back({"gradient noise scale", NoiseText(status.noise())});
  const std::string privacy = PrivacyText(status.spec().privacy(), SpentEpsilon(status));
  if (!privacy.empty()) rows.push_back({"privacy", privacy});
  for (std::vector<std::string>& row : PeersRows(status)) rows.push_back(std::move(row));
  if (!status.has_seal()) rows.push_back({"ends", TimeLeftText(status)});
  if (status.has_seal()) {
    rows.push_back({"sealed", Hex(status.seal().state_digest())});
    if (!status.stopped_because().empty()) rows.push_back({"stopped", status.stopped_because()});
  }
  std::vector<std::string> lines = AlignColumns(rows, "<<");
  lines.emplace_back();
  for (std::string& line : PeersText(status)) lines.push_back(std::move(line));
  if (status.links_size() > 0) {
    lines.emplace_back();
    for (std::string& line : LinksText(status)) lines.push_back(std::move(line));
  }
  return lines;
}

std::vector<std::string> RoundsText(const v1::RunStatus& status) {
  std::vector<std::vector<std::string>> rows = {{"round", "training loss", "validation loss",
                                                 "tokens", "peers", "trained", "utilised",
                                                 "exchange"}};
  std::map<uint64_t, double> evaluated;
  for (const v1::EvaluationRecord& evaluation : status.evaluations()) {
    const std::optional<double> loss = EvaluatedLoss(evaluation);
    if (loss) evaluated[evaluation.version()] = *loss;
  }
  for (int i = status.rounds_size() - 1; i >= 0; --i) {
    const v1::RoundRecord& round = status.rounds(i);
    const auto loss = evaluated.find(round.version());
    rows.push_back({absl::StrCat(round.version()), FormatMeasured(round.train_loss(), 4),
                    loss == evaluated.end() ? "" : LossText(loss->second),
                    WithThousands(round.tokens()), absl::StrCat(round.contributors()),
                    FormatMeasured(round.train_seconds(), 1, " s"),
                    UtilisationText(round.utilisation()), ExchangeTime(round)});
  }
  return AlignColumns(rows, ">>>>>>><");
}

std::string ToldText(const v1::PeerStatus& peer, const char* figure) {
  return ToldFigures().At(figure).Text(peer, "-");
}

std::string StepText(const v1::PeerProgress& progress) {
  return progress.steps() == 0 ? "-" : absl::StrCat(progress.step(), "/", progress.steps());
}

std::string PidText(const v1::PeerStatus& peer) {
  return peer.pid() == 0 ? "-" : absl::StrCat(peer.pid());
}

std::string WhyIdle(const v1::PeerStatus& peer) {
  if (!peer.progress().held_back().empty()) return peer.progress().held_back();
  return peer.why().empty() ? peer.offence() : peer.why();
}

std::vector<std::string> PeersText(const v1::RunStatus& status) {
  std::vector<std::vector<std::string>> rows = {{"peer", "role", "state", "phase", "step",
                                                 "tokens/s", "rounds", "sent", "version", "pid",
                                                 "region", "address", "why"}};
  for (const v1::PeerStatus& peer : status.peers()) {
    const v1::PeerProgress& progress = peer.progress();
    rows.push_back({peer.member().peer(), RoleText(peer), peer.member().state(), progress.phase(),
                    StepText(progress), ToldText(peer, "/progress/tokens_per_second"),
                    absl::StrCat(peer.rounds_contributed()),
                    ToldText(peer, "/progress/exchange_bytes_sent"),
                    absl::StrCat(progress.version()), PidText(peer), peer.member().region(),
                    peer.member().address(), WhyIdle(peer)});
  }
  return AlignColumns(rows, "<<<<>>>>>><<<");
}

std::vector<std::string> PeerText(const v1::PeerStatus& peer) {
  const v1::Member& member = peer.member();
  const v1::PeerProgress& progress = peer.progress();
  const v1::Offer& offer = member.offer();
  const auto counted = [&peer](const char* figure) {
    return PeerFigures().At(figure).Row(peer, "not known");
  };
  const auto told = [&peer](const char* figure) { return ToldFigures().At(figure).Row(peer, "-"); };
  std::vector<std::vector<std::string>> rows = {
      {"peer", member.peer()},
      {"role", RoleText(peer)},
      {"state",
       peer.why().empty() ? member.state() : absl::StrCat(member.state(), ": ", peer.why())},
      {"phase", PhaseText(progress)},
      told("/progress/version"),
      counted("/rounds_contributed"),
      counted("/updates_clipped"),
      counted("/updates_refused"),
      {"offence", peer.offence().empty() ? "none" : peer.offence()},
      counted("/tokens"),
      told("/progress/tokens_per_second"),
      told("/progress/exchange_bytes_sent"),
      told("/progress/train_seconds"),
      {"held back", progress.held_back().empty() ? "no" : progress.held_back()},
      {"utilisation", UtilisationRow(peer.utilisation())},
      {"last ready after", FormatMeasured(peer.ready_seconds(), 2, " s")},
      counted("/mean_share"),
      counted("/data_refused"),
      {"state digest",
       peer.state_digest().empty()
           ? "not reported"
           : absl::StrCat(Hex(peer.state_digest()), " of version ", peer.state_version())},
      {"device", peer.device()},
      {"line", BothWays(peer, "/up_bytes_per_second", "/down_bytes_per_second", "not measured")},
      {"its owner's limits",
       BothWays(peer, "/up_cap_bytes_per_second", "/down_cap_bytes_per_second", "none stated")},
      {"clock", ClockText(peer)},
      {"address", member.address().empty() ? "dials out only" : member.address()},
      {"region", member.region().empty() ? "of its own" : member.region()},
      {"process", peer.pid() == 0 ? "-" : absl::StrCat("pid ", peer.pid())},
  };
  if (member.has_offer()) {
    rows.push_back(
        {"offers", absl::StrCat(offer.oldest_entry() == 0
                                    ? "no entries"
                                    : absl::StrCat("entries from ", offer.oldest_entry()),
                                offer.has_snapshot() ? absl::StrCat(", the snapshot of version ",
                                                                    offer.snapshot_version())
                                                     : ", no snapshot")});
  }
  return AlignColumns(rows, "<<");
}

std::vector<std::string> HeadersText(const std::vector<v1::EntryHeader>& headers) {
  std::vector<std::vector<std::string>> rows = {
      {"version", "contributors", "tokens", "codec", "payload", "header"}};
  for (const v1::EntryHeader& header : headers) {
    uint64_t tokens = 0;
    for (const v1::Contributor& contributor : header.contributors()) tokens += contributor.tokens();
    rows.push_back({absl::StrCat(header.version()), absl::StrCat(header.contributors_size()),
                    WithThousands(tokens), header.codec(),
                    Hex(header.payload_digest()).substr(0, 16),
                    ToHex(HeaderDigest(header)).substr(0, 16)});
  }
  return AlignColumns(rows, ">>><<<");
}

std::string PeerFiguresScript() {
  Json listed = Json::array();
  for (const auto& figures : {PeerFigures(), ToldFigures()}) {
    for (const Figure<v1::PeerStatus>& figure : figures) {
      if (figure.json == nullptr || figure.title == nullptr) continue;
      listed.push_back({{"place", figure.json},
                        {"title", figure.title},
                        {"unit", UnitName(figure.unit)},
                        {"help", figure.help}});
    }
  }
  return absl::StrCat("export const peerFigures =\n", JsonLine(listed));
}

std::string JsonText(const Json& json) { return json.dump(2, ' ', true, kReplace) + "\n"; }
std::string JsonLine(const Json& json) { return json.dump(-1, ' ', true, kReplace) + "\n"; }

}  // namespace atolld
