#include "daemon/cli/status_json.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/base/casts.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "compression/base/words.h"
#include "daemon/cli/format.h"
#include "membership/history/header.h"
#include "membership/history/lineage.h"
#include "membership/history/run_codecs.h"
#include "membership/run/ending.h"
#include "membership/run/ledger.h"
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

Json ModeJson(const v1::ModeSpec& mode) {
  Json json = {{"kind", mode.kind().empty() ? "sync" : mode.kind()}};
  if (mode.kind() != "streaming") return json;
  json["fragments"] = std::max<uint32_t>(1, mode.fragments());
  json["overlap"] = mode.overlap_steps();
  return json;
}

// "streaming, 4 fragments, overlap 1"
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
            {"vocabulary", model.vocabulary()}}},
          {"inner",
           {{"optimizer", spec.inner().optimizer()},
            {"steps", spec.inner().steps()},
            {"batch", spec.inner().batch()}}},
          {"outer",
           {{"rule", spec.outer().rule()},
            {"learning_rate", absl::bit_cast<float>(spec.outer().learning_rate_bits())},
            {"momentum", absl::bit_cast<float>(spec.outer().momentum_bits())}}},
          {"mode", ModeJson(spec.mode())},
          {"privacy", PrivacyJson(spec.privacy())},
          {"codec", CodecText(spec.exchange())}};
}

Json DataJson(const v1::DataStatus& data) {
  return {{"samples_a_pass", data.samples_a_pass()},
          {"spent", data.spent()},
          {"held", data.held()},
          {"returned", data.returned()},
          {"next", data.next()}};
}

// 0: an adopted round, of which only the entry's header is known.
Json OrNull(double measured) { return measured == 0 ? Json(nullptr) : Json(measured); }

Json OrNull(uint64_t measured) { return measured == 0 ? Json(nullptr) : Json(measured); }

Json UtilisationJson(bool known, const v1::Utilisation& utilisation) {
  if (!known) return nullptr;
  return {{"compute_utilization", atolld::OrNull(TrainedShare(utilisation))},
          {"train_seconds", utilisation.train_seconds()},
          {"waited_seconds", utilisation.waited_seconds()},
          {"hidden_bytes", utilisation.hidden_bytes()},
          {"waited_bytes", utilisation.waited_bytes()}};
}

Json NoiseJson(const v1::NoiseStatus& noise) {
  return {{"tokens", OrNull(noise.tokens())},
          {"rounds", noise.rounds()},
          {"round_tokens", noise.round_tokens()},
          {"unknown", noise.unknown()}};
}

Json SealJson(const v1::Seal& seal) {
  return {{"version", seal.version()},
          {"state_digest", Hex(seal.state_digest())},
          {"header_digest", Hex(seal.header_digest())}};
}

Json LinksJson(const v1::RunStatus& status) {
  Json links = Json::array();
  for (const v1::LinkStatus& link : status.links()) {
    links.push_back({{"from", link.from()},
                     {"to", link.to()},
                     {"predicted_bytes_per_second", OrNull(link.predicted_bytes_per_second())},
                     {"measured_bytes_per_second", OrNull(link.measured_bytes_per_second())},
                     {"seconds", OrNull(link.seconds())}});
  }
  return links;
}

std::vector<std::string> LinksText(const v1::RunStatus& status) {
  std::vector<std::vector<std::string>> rows = {{"from", "to", "counted on", "carried", "latency"}};
  for (const v1::LinkStatus& link : status.links()) {
    rows.push_back({link.from(), link.to(), FormatBitRate(link.predicted_bytes_per_second()),
                    FormatBitRate(link.measured_bytes_per_second()),
                    link.seconds() <= 0 ? "-" : absl::StrFormat("%.0f ms", 1e3 * link.seconds())});
  }
  return AlignColumns(rows, "<<>>>");
}

std::string CapsText(const v1::PeerStatus& peer) {
  if (peer.up_cap_bytes_per_second() <= 0 && peer.down_cap_bytes_per_second() <= 0) {
    return "none stated";
  }
  return absl::StrCat(FormatBitRate(peer.up_cap_bytes_per_second()), " up, ",
                      FormatBitRate(peer.down_cap_bytes_per_second()), " down");
}

// Seconds and less come from heartbeats that wait for their turn, and mean nothing.
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

// Payload, in bits as lines are sold.
std::string LineText(const v1::PeerStatus& peer) {
  if (peer.up_bytes_per_second() <= 0 && peer.down_bytes_per_second() <= 0) return "not measured";
  return absl::StrFormat("%.3g Mbit/s up, %.3g Mbit/s down", 8e-6 * peer.up_bytes_per_second(),
                         8e-6 * peer.down_bytes_per_second());
}

// Of the newest round, or of a peer's newest update.
std::string UtilisationRow(const v1::Utilisation& utilisation) {
  if (!TrainedShare(utilisation)) return "not known";
  std::string text = absl::StrCat(UtilisationText(utilisation), " of the time trained, ",
                                  FormatSeconds(utilisation.waited_seconds()), " waited");
  if (!HiddenShare(utilisation)) return text;
  absl::StrAppend(&text, "; ", HiddenText(utilisation), " exchanged while training");
  return text;
}

// "peer", or "peer of 1,000" that hosts so many parties.
std::string RoleText(const v1::PeerStatus& peer) {
  if (peer.parties() <= 1) return peer.role();
  return absl::StrCat(peer.role(), " of ", WithThousands(peer.parties()));
}

}  // namespace

Json OrNull(const std::optional<double>& value) {
  return value.has_value() ? Json(*value) : Json(nullptr);
}

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
  return {{"member",
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
            {"version", progress.version()},
            {"step", progress.step()},
            {"steps", progress.steps()},
            {"loss", progress.loss()},
            {"tokens_per_second", progress.tokens_per_second()},
            {"exchange_bytes_sent", progress.exchange_bytes_sent()},
            {"train_seconds", progress.train_seconds()},
            {"resident_bytes", progress.resident_bytes()},
            {"held_back", progress.held_back()},
            {"exchange_bytes_received", progress.exchange_bytes_received()},
            {"disk_free_bytes", OrNull(progress.disk_free_bytes())},
            {"memory_available_bytes", OrNull(progress.memory_available_bytes())}}},
          {"pid", peer.pid()},
          {"rounds_contributed", peer.rounds_contributed()},
          {"tokens", peer.tokens()},
          {"updates_refused", peer.updates_refused()},
          {"updates_clipped", peer.updates_clipped()},
          {"offence", peer.offence()},
          {"state_digest", Hex(peer.state_digest())},
          {"state_version", peer.state_version()},
          {"device", peer.device()},
          {"parties", std::max<uint32_t>(1, peer.parties())},
          {"up_bytes_per_second", OrNull(peer.up_bytes_per_second())},
          {"down_bytes_per_second", OrNull(peer.down_bytes_per_second())},
          {"up_cap_bytes_per_second", OrNull(peer.up_cap_bytes_per_second())},
          {"down_cap_bytes_per_second", OrNull(peer.down_cap_bytes_per_second())},
          {"mean_share", peer.mean_share()},
          {"ready_seconds", OrNull(peer.ready_seconds())},
          {"utilisation", UtilisationJson(peer.has_utilisation(), peer.utilisation())},
          {"worker_failures", peer.worker_failures()},
          {"data_refused", peer.data_refused()},
          {"clock_offset_seconds",
           progress.clock_seconds() > 0 ? Json(peer.clock_offset_seconds()) : Json(nullptr)},
          {"notice", peer.notice()}};
}

Json PeersJson(const v1::RunStatus& status) {
  Json peers = Json::array();
  for (const v1::PeerStatus& peer : status.peers()) peers.push_back(PeerJson(peer));
  return peers;
}

Json RunStatusJson(const v1::RunStatus& status) {
  Json json = {{"run_id", status.spec().run_id()},
               {"epoch", status.epoch()},
               {"epoch_seconds", status.epoch_seconds()},
               {"version", status.version()},
               {"phase", status.phase()},
               {"reason", status.reason()},
               {"paused", status.paused()},
               {"stopping", status.stopping()},
               {"stopped_because", status.stopped_because()},
               {"mode_because", status.mode_because()},
               {"parameters", status.parameters()},
               {"elapsed_seconds", status.elapsed_seconds()},
               {"tokens", status.tokens()},
               {"data", DataJson(status.data())},
               {"noise", NoiseJson(status.noise())},
               {"spec", SpecJson(status.spec())},
               {"peers", PeersJson(status)},
               {"links", LinksJson(status)},
               {"unix_seconds", OrNull(status.unix_seconds())},
               {"predicted_end_unix_seconds", OrNull(status.predicted_end_unix_seconds())}};
  json["parent"] = status.spec().has_parent() ? LineageJson(status.spec().parent()) : Json(nullptr);
  json["rounds_recorded"] = status.rounds_recorded();
  json["rounds"] = Json::array();
  for (const v1::RoundRecord& round : status.rounds()) {
    json["rounds"].push_back({{"version", round.version()},
                              {"train_loss", OrNull(round.train_loss())},
                              {"tokens", round.tokens()},
                              {"contributors", round.contributors()},
                              {"elapsed_seconds", round.elapsed_seconds()},
                              {"train_seconds", OrNull(round.train_seconds())},
                              {"exchange_seconds", OrNull(round.exchange_seconds())},
                              {"predicted_seconds", OrNull(round.predicted_seconds())},
                              {"audit_seconds", round.audit_seconds()},
                              {"plan", round.plan()},
                              {"revisions", round.revisions()},
                              {"squared_gradient", OrNull(round.squared_gradient())},
                              {"gradient_noise", OrNull(round.gradient_noise())},
                              {"noise_scale", OrNull(round.noise_scale())},
                              {"epsilon", OrNull(round.epsilon())},
                              {"clip", OrNull(round.clip())}});
    json["rounds"].back()["utilisation"] =
        UtilisationJson(round.has_utilisation(), round.utilisation());
    if (round.parties() > 0) json["rounds"].back()["parties"] = round.parties();
  }
  json["evaluations"] = Json::array();
  for (const v1::EvaluationRecord& evaluation : status.evaluations()) {
    json["evaluations"].push_back({{"version", evaluation.version()},
                                   {"loss", evaluation.loss()},
                                   {"tokens", evaluation.tokens()},
                                   {"elapsed_seconds", evaluation.elapsed_seconds()}});
    if (evaluation.own_parties() == 0) continue;
    Json& figures = json["evaluations"].back();
    figures["own_parties"] = evaluation.own_parties();
    figures["own_mean"] = evaluation.own_mean();
    figures["own_tenth"] = evaluation.own_tenth();
    figures["own_ninetieth"] = evaluation.own_ninetieth();
  }
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

Json HeaderJson(const v1::EntryHeader& header) {
  Json contributors = Json::array();
  for (const v1::Contributor& contributor : header.contributors()) {
    contributors.push_back({{"peer", contributor.peer()},
                            {"weight", absl::bit_cast<float>(contributor.weight_bits())},
                            {"steps", contributor.steps()},
                            {"tokens", contributor.tokens()}});
  }
  Json scalars = Json::object();
  for (const v1::Scalar& scalar : header.scalars())
    scalars[scalar.name()] = absl::bit_cast<float>(scalar.bits());
  return {{"run_id", header.run_id()},
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
}

std::string UtilisationText(const v1::Utilisation& utilisation) {
  const std::optional<double> share = TrainedShare(utilisation);
  return share ? absl::StrFormat("%.1f %%", 100 * *share) : "-";
}

std::string HiddenText(const v1::Utilisation& utilisation) {
  if (!HiddenShare(utilisation)) return "-";
  const auto hidden = static_cast<double>(utilisation.hidden_bytes());
  return absl::StrCat(FormatBytes(hidden), " of ",
                      FormatBytes(hidden + static_cast<double>(utilisation.waited_bytes())));
}

std::string DataText(const v1::DataStatus& data) {
  const std::string counts =
      absl::StrCat("spent ", WithThousands(data.spent()), "; held ", WithThousands(data.held()),
                   "; returned ", WithThousands(data.returned()));
  const uint64_t pass = data.samples_a_pass();
  if (pass == 0) return counts;
  const double position = static_cast<double>(data.spent() % pass) / static_cast<double>(pass);
  return absl::StrFormat("pass %d, %.1f %% (%s)", data.spent() / pass + 1, position * 100, counts);
}

std::string NoiseVerdict(const v1::NoiseStatus& noise) {
  const bool helps = noise.tokens() >= static_cast<double>(noise.round_tokens());
  return helps ? "more peers still help" : "more peers help less and less";
}

std::string PrivacyText(const v1::PrivacySpec& privacy, double epsilon) {
  if (privacy.clip_bits() == 0) return "";
  std::string text = absl::StrFormat("epsilon %.4g at delta %g", epsilon, privacy.delta());
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

std::vector<std::string> RunStatusText(const v1::RunStatus& status) {
  std::vector<std::vector<std::string>> rows = {
      {"run", status.spec().run_id()},
      {"phase", status.reason().empty() ? status.phase()
                                        : absl::StrCat(status.phase(), ": ", status.reason())},
      {"version", absl::StrCat(status.version(), " of ", status.spec().rounds())},
      {"parameters", WithThousands(status.parameters())},
      {"tokens", WithThousands(status.tokens())},
      {"elapsed", FormatSeconds(status.elapsed_seconds())},
      {"mode", absl::StrCat(ModeOf(status.spec().mode()), status.mode_because().empty() ? "" : ": ",
                            status.mode_because())},
      {"data", DataText(status.data())},
      {"coordinator epoch",
       absl::StrCat(status.epoch(), ", for ", FormatSeconds(status.epoch_seconds()))},
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
    rows.push_back({"validation loss", absl::StrFormat("%.4f at version %d%s", last.loss(),
                                                       last.version(), OwnLossText(last))});
  }
  rows.push_back({"gradient noise scale", NoiseText(status.noise())});
  const double spent = status.rounds().empty() ? 0 : status.rounds().rbegin()->epsilon();
  const std::string privacy = PrivacyText(status.spec().privacy(), spent);
  if (!privacy.empty()) rows.push_back({"privacy", privacy});
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
  for (const v1::EvaluationRecord& evaluation : status.evaluations())
    evaluated[evaluation.version()] = evaluation.loss();
  for (int i = status.rounds_size() - 1; i >= 0; --i) {
    const v1::RoundRecord& round = status.rounds(i);
    const auto loss = evaluated.find(round.version());
    rows.push_back({absl::StrCat(round.version()), FormatMeasured(round.train_loss(), 4),
                    loss == evaluated.end() ? "" : absl::StrFormat("%.4f", loss->second),
                    WithThousands(round.tokens()), absl::StrCat(round.contributors()),
                    FormatSeconds(round.train_seconds()), UtilisationText(round.utilisation()),
                    ExchangeTime(round)});
  }
  return AlignColumns(rows, ">>>>>>><");
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
                    absl::StrCat(progress.step(), "/", progress.steps()),
                    FormatRate(progress.tokens_per_second()),
                    absl::StrCat(peer.rounds_contributed()),
                    FormatBytes(static_cast<double>(progress.exchange_bytes_sent())),
                    absl::StrCat(progress.version()), absl::StrCat(peer.pid()),
                    peer.member().region(), peer.member().address(), WhyIdle(peer)});
  }
  return AlignColumns(rows, "<<<<>>>>>><<<");
}

std::vector<std::string> PeerText(const v1::PeerStatus& peer) {
  const v1::Member& member = peer.member();
  const v1::PeerProgress& progress = peer.progress();
  const v1::Offer& offer = member.offer();
  std::vector<std::vector<std::string>> rows = {
      {"peer", member.peer()},
      {"role", RoleText(peer)},
      {"state",
       peer.why().empty() ? member.state() : absl::StrCat(member.state(), ": ", peer.why())},
      {"phase",
       absl::StrCat(progress.phase(), ", step ", progress.step(), " of ", progress.steps())},
      {"version", absl::StrCat(progress.version())},
      {"rounds contributed", absl::StrCat(peer.rounds_contributed())},
      {"updates scaled down", absl::StrCat(peer.updates_clipped())},
      {"updates refused", absl::StrCat(peer.updates_refused())},
      {"offence", peer.offence().empty() ? "none" : peer.offence()},
      {"tokens", WithThousands(peer.tokens())},
      {"tokens a second", FormatRate(progress.tokens_per_second())},
      {"sent in exchanges", FormatBytes(static_cast<double>(progress.exchange_bytes_sent()))},
      {"trained", FormatSeconds(progress.train_seconds())},
      {"held back", progress.held_back().empty() ? "no" : progress.held_back()},
      {"utilisation", UtilisationRow(peer.utilisation())},
      {"last ready after", FormatMeasured(peer.ready_seconds(), 2, " s")},
      {"share of the newest mean", absl::StrFormat("%.1f %%", 100 * peer.mean_share())},
      {"updates of bad data", absl::StrCat(peer.data_refused())},
      {"state digest",
       peer.state_digest().empty()
           ? "not reported"
           : absl::StrCat(Hex(peer.state_digest()), " of version ", peer.state_version())},
      {"device", peer.device()},
      {"line", LineText(peer)},
      {"its owner's limits", CapsText(peer)},
      {"clock", ClockText(peer)},
      {"address", member.address().empty() ? "dials out only" : member.address()},
      {"region", member.region().empty() ? "of its own" : member.region()},
      {"process", absl::StrCat("pid ", peer.pid())},
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

std::string JsonText(const Json& json) { return json.dump(2, ' ', true, kReplace) + "\n"; }
std::string JsonLine(const Json& json) { return json.dump(-1, ' ', true, kReplace) + "\n"; }

}  // namespace atolld
