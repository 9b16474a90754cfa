#include "daemon/cli/diagnosis.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "absl/base/casts.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "compression/base/words.h"
#include "daemon/config/config_sections.h"
#include "daemon/figures/figures.h"
#include "daemon/program/format.h"
#include "membership/run/ledger.h"
#include "optimizer/outer_advice.h"

namespace atolld {
namespace {

using Findings = std::vector<RunFinding>;

// As many rounds as are used to estimate the rate of a line; a join or a death does not move their
// median.
constexpr int kRoundsLookedAt = 8;

// A share of a round's time. Changing a run is not worth the trouble for less than a twentieth.
constexpr double kWorthTelling = 0.05;

// Exchanges may take this share of a round. With twice the inner steps, a run whose exchanges take
// a fifth would be a tenth faster; below that, changing the recipe costs more than it gains.
constexpr double kExchangeShare = 0.2;
// The share that more inner steps should reach.
constexpr double kWantedExchangeShare = 0.1;

// The most inner steps in DiLoCo's own runs (Douillard et al., 2023); with more of them a token
// teaches less.
constexpr double kMostSteps = 500;

// Measurements of lines of one kind lie within a factor of two of each other; a factor of three is
// another kind.
constexpr double kSlowLine = 3;
// In bytes a second. A peer with a gigabit is not told to get a faster line, and on one machine all
// rates are those of its processors.
constexpr double kFastLine = 125e6;
// A line that comes this close to its owner's cap is limited by the cap, not by itself.
constexpr double kNearCap = 0.75;

// The deadline of a round tolerates ready times within a half of each other (pace.h: 1.25 medians
// and a second).
constexpr double kStraggler = 1.5;

// Audits recompute a sixteenth of the chunks unless the run says otherwise: they should not take
// more than a tenth of a round's time.
constexpr double kAuditShare = 0.1;

// The noise scale grows several times while a run learns, so no peer should leave within a factor
// of four of it.
constexpr double kTokensBeyondNoise = 4;

// See entry_attempts.cc: the loss of guessing is several times a trained model's.
constexpr double kLossFactor = 2;
constexpr double kLossDistance = 1;
constexpr size_t kLeastToCompare = 3;

// In seconds. Certificates tolerate an hour; a clock that is off by more than this is set wrong,
// and may drift on.
constexpr double kClockOffset = 60;

// A snapshot is written beside the two that are kept, and the log grows meanwhile: with less room
// than three states the next snapshot may not fit. A state has eight bytes a parameter.
constexpr double kStatesFree = 3;
constexpr double kStateBytes = 8;
constexpr double kLeastDiskFree = 67108864;  // as `atoll check` has it: too little for any run

// A finding that costs no time yet is reported as well, after those that do.
constexpr double kToBeTold = 1e-6;

double MedianOf(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[(values.size() - 1) / 2];
}

bool IsHere(const v1::PeerStatus& peer) {
  return peer.member().state() == "live" || peer.member().state() == "joining";
}

bool Trains(const v1::PeerStatus& peer) { return IsHere(peer) && peer.role() != "aggregator"; }

// The input of all findings.
struct Scene {
  const v1::RunStatus& status;
  RoundTimes times;
  double trainers = 1;
  bool judged = false;  // times can be judged

  explicit Scene(const v1::RunStatus& told) : status(told), times(UsualTimes(told)) {
    const auto trains = std::count_if(told.peers().begin(), told.peers().end(), Trains);
    trainers = std::max<double>(1, static_cast<double>(trains));
    judged = times.rounds >= kLeastRoundsToJudge && times.round > 0;
  }
  // Returns the share of a round's work that one peer does: by its weight, or as if all were alike.
  double ShareOf(const v1::PeerStatus& peer) const {
    return peer.mean_share() > 0 ? peer.mean_share() : 1 / trainers;
  }
  void Add(RunFinding finding, double share, Findings* findings) const {
    finding.share = std::clamp(share, 0.0, 1.0);
    finding.seconds = finding.share * times.round;
    findings->push_back(std::move(finding));
  }
  void AddSeconds(RunFinding finding, double seconds, Findings* findings) const {
    if (!judged || seconds < kWorthTelling * times.round) return;
    Add(std::move(finding), seconds / times.round, findings);
  }
};

std::string Minutes(double seconds) { return absl::StrFormat("%.3g minutes", seconds / 60); }

// -----------------------------------------------------------------------------------------------
// Causes that stop a run, or a peer

bool SpeaksOfDisk(const std::string& text) {
  const std::string lower = absl::AsciiStrToLower(text);
  return absl::StrContains(lower, "disk is full") || absl::StrContains(lower, "no space left") ||
         absl::StrContains(lower, "disk full");
}

void FindWaiting(const Scene& scene, Findings* findings) {
  const v1::RunStatus& status = scene.status;
  if (status.phase() != "waiting" || status.reason().empty()) return;
  RunFinding finding;
  finding.cause = SpeaksOfDisk(status.reason()) ? "disk" : "waiting";
  finding.what = absl::StrCat("the run waits: ", status.reason());
  finding.advice = finding.cause == "disk" ? "make room there: the run goes on by itself"
                                           : "it goes on by itself as soon as that is so";
  scene.Add(std::move(finding), 1, findings);
}

void FindFullDisks(const Scene& scene, Findings* findings) {
  const double states = kStatesFree * kStateBytes * static_cast<double>(scene.status.parameters());
  for (const v1::PeerStatus& peer : scene.status.peers()) {
    const auto free = static_cast<double>(peer.progress().disk_free_bytes());
    const bool full = free > 0 && free < std::max(states, kLeastDiskFree);
    if (!IsHere(peer) || (!full && !SpeaksOfDisk(peer.why()))) continue;
    RunFinding finding;
    finding.cause = "disk";
    finding.peer = peer.member().peer();
    finding.what =
        full ? absl::StrCat("the disk of ", finding.peer, " is nearly full: ", FormatBytes(free),
                            " are free, and ", FormatBytes(std::max(states, kLeastDiskFree)),
                            " are needed for the next snapshot and the log")
             : absl::StrCat("the disk of ", finding.peer, " is full: ", peer.why());
    finding.key = "[peer] keep_bytes";
    finding.value = FormatBytes(std::max(states, kLeastDiskFree));
    finding.advice = "make room, or keep less of the log";
    scene.Add(std::move(finding), scene.ShareOf(peer), findings);
  }
}

void FindSlowDisks(const Scene& scene, Findings* findings) {
  for (const v1::PeerStatus& peer : scene.status.peers()) {
    const double slow = peer.progress().slow_sync_seconds();
    if (!IsHere(peer) || slow <= 0) continue;
    RunFinding finding;
    finding.cause = "disk";
    finding.peer = peer.member().peer();
    finding.what =
        absl::StrFormat("the disk of %s is slow: an fsync took %.1f s, and a vote waits for one",
                        finding.peer, slow);
    finding.advice = "move its [peer] dir to a faster disk, or find out what else writes there";
    scene.AddSeconds(std::move(finding), slow, findings);
  }
}

void FindFailingWorkers(const Scene& scene, Findings* findings) {
  for (const v1::PeerStatus& peer : scene.status.peers()) {
    if (!Trains(peer) || !peer.progress().held_back().empty() || SpeaksOfDisk(peer.why())) continue;
    const bool idle = absl::StartsWith(peer.why(), "its worker does not train");
    if (peer.worker_failures() == 0 && !idle) continue;
    RunFinding finding;
    finding.cause = "worker";
    finding.peer = peer.member().peer();
    finding.what = absl::StrCat("the worker of ", finding.peer, " has failed ",
                                Counted(peer.worker_failures(), "time"), " in a row",
                                peer.why().empty() ? "" : absl::StrCat(": ", peer.why()));
    finding.advice =
        "the log of that peer says what its worker said last; `atoll check` there tries the "
        "machine";
    scene.Add(std::move(finding), 1 / scene.trainers, findings);
  }
}

void FindHeldBack(const Scene& scene, Findings* findings) {
  for (const v1::PeerStatus& peer : scene.status.peers()) {
    if (!Trains(peer) || peer.progress().held_back().empty()) continue;
    RunFinding finding;
    finding.cause = "limits";
    finding.peer = peer.member().peer();
    finding.what = absl::StrCat(finding.peer, " does not train because its owner holds it back: ",
                                peer.progress().held_back());
    finding.key = "[machine]";
    finding.advice = "its owner can change that there, with `atoll limits set` or `atoll resume`";
    scene.Add(std::move(finding), 1 / scene.trainers, findings);
  }
}

void FindWrongClocks(const Scene& scene, Findings* findings) {
  for (const v1::PeerStatus& peer : scene.status.peers()) {
    const double offset = peer.clock_offset_seconds();
    if (!IsHere(peer) || std::abs(offset) < kClockOffset) continue;
    RunFinding finding;
    finding.cause = "clock";
    finding.peer = peer.member().peer();
    finding.what = absl::StrCat("the clock of ", finding.peer, " is ", Minutes(std::abs(offset)),
                                offset > 0 ? " ahead of" : " behind",
                                " the coordinator's; from an hour on its certificates are refused");
    finding.advice =
        "set that machine's clock, and let a time service keep it (`timedatectl set-ntp true`)";
    scene.Add(std::move(finding), kToBeTold, findings);
  }
}

// -----------------------------------------------------------------------------------------------
// Peers whose work is wasted

void FindBadData(const Scene& scene, Findings* findings) {
  std::vector<double> losses;
  for (const v1::PeerStatus& peer : scene.status.peers()) {
    if (Trains(peer) && peer.progress().loss() > 0) losses.push_back(peer.progress().loss());
  }
  const double usual = MedianOf(losses);
  const double limit = std::max(kLossFactor * usual, usual + kLossDistance);
  for (const v1::PeerStatus& peer : scene.status.peers()) {
    if (!Trains(peer)) continue;
    const double loss = peer.progress().loss();
    const bool apart = losses.size() >= kLeastToCompare && loss > limit;
    if (!apart && peer.data_refused() == 0) continue;
    RunFinding finding;
    finding.cause = "data";
    finding.peer = peer.member().peer();
    finding.what =
        apart ? absl::StrFormat(
                    "the loss of %s is %.3g where the others have %.3g: its data is "
                    "not what theirs is, or it computes wrong",
                    finding.peer, loss, usual)
              : absl::StrCat(finding.peer, " has made ", Counted(peer.data_refused(), "update"),
                             " that were not finite, or of a loss far above the others'");
    finding.advice =
        absl::StrCat("look at its data (`atoll data inspect` there); `atoll peer drain ",
                     finding.peer, "` lets the run go on without it");
    scene.Add(std::move(finding), scene.ShareOf(peer), findings);
  }
}

void FindOffenders(const Scene& scene, Findings* findings) {
  for (const v1::PeerStatus& peer : scene.status.peers()) {
    const bool left_out = absl::StartsWith(peer.offence(), "left out");
    if (!Trains(peer) || !left_out || peer.data_refused() > 0) continue;
    RunFinding finding;
    finding.cause = "updates";
    finding.peer = peer.member().peer();
    finding.what = absl::StrCat("updates of ", finding.peer, " do not count: ", peer.offence());
    finding.advice = absl::StrCat("`atoll peer show ", finding.peer,
                                  "` tells the rest; if it is "
                                  "not to be trusted, evict it");
    scene.Add(std::move(finding), 1 / scene.trainers, findings);
  }
}

// Peers that say the same are named together, because all workers of a run usually do.
void FindStillTensors(const Scene& scene, Findings* findings) {
  std::map<std::string, std::vector<std::string>> peers_by_text;
  for (const v1::PeerStatus& peer : scene.status.peers()) {
    const std::string& still = peer.progress().still_tensors();
    if (Trains(peer) && !still.empty()) peers_by_text[still].push_back(peer.member().peer());
  }
  for (const auto& [still, peers] : peers_by_text) {
    RunFinding finding;
    finding.cause = "tensors";
    if (peers.size() == 1) finding.peer = peers[0];
    finding.what = absl::StrCat(
        "the training of ",
        peers.size() == 1 ? peers[0] : absl::StrCat(peers[0], " and ", peers.size() - 1, " more"),
        " leaves tensors as they are: ", still);
    finding.advice =
        "unless they are frozen on purpose, give the worker's optimiser the parameters "
        "themselves, not a copy";
    scene.Add(std::move(finding), kToBeTold, findings);
  }
}

void FindTooManyPeers(const Scene& scene, Findings* findings) {
  const v1::NoiseStatus& noise = scene.status.noise();
  const auto tokens = static_cast<double>(noise.round_tokens());
  if (noise.tokens() <= 0 || tokens <= kTokensBeyondNoise * noise.tokens()) return;
  // Progress a token goes with 1 / (1 + B / B_noise) (McCandlish et al., 2018); at the
  // noise scale itself it is half, which is the usual bargain.
  const double ratio = tokens / noise.tokens();
  const double share = 1 - 2 / (1 + ratio);
  const double enough = std::max(1.0, std::ceil(scene.trainers / ratio));
  RunFinding finding;
  finding.cause = "noise";
  finding.what = absl::StrFormat(
      "a round has %s tokens, %.3g times the gradient noise scale of %s tokens: most of what "
      "%s bring is the same",
      WithThousands(noise.round_tokens()), ratio, AboutTokens(noise.tokens()),
      Counted(static_cast<uint64_t>(scene.trainers), "peer"));
  finding.key = "[run] peers";
  finding.value = absl::StrFormat("%.0f", enough);
  finding.advice = "fewer peers, or a smaller [inner] batch, learn as much a round";
  scene.Add(std::move(finding), share, findings);
}

// -----------------------------------------------------------------------------------------------
// The parts of a round's time

struct SlowWay {
  RunFinding finding;
  double ratio = 1;  // how many times slower than the others'
};

std::optional<SlowWay> SlowestLine(const v1::RunStatus& status) {
  std::vector<std::pair<double, const v1::PeerStatus*>> lines;
  for (const v1::PeerStatus& peer : status.peers()) {
    const double rate = std::min(peer.up_bytes_per_second(), peer.down_bytes_per_second());
    if (Trains(peer) && rate > 0) lines.emplace_back(rate, &peer);
  }
  if (lines.size() < 2) return std::nullopt;
  std::sort(lines.begin(), lines.end());
  std::vector<double> others;
  for (size_t i = 1; i < lines.size(); ++i) others.push_back(lines[i].first);
  const auto& [rate, peer] = lines.front();
  const double usual = MedianOf(others);
  if (rate >= kFastLine || usual < kSlowLine * rate) return std::nullopt;
  SlowWay slow;
  slow.ratio = usual / rate;
  const bool up = peer->up_bytes_per_second() <= peer->down_bytes_per_second();
  const double cap = up ? peer->up_cap_bytes_per_second() : peer->down_cap_bytes_per_second();
  const bool capped = cap > 0 && rate >= kNearCap * cap;
  RunFinding& finding = slow.finding;
  finding.cause = capped ? "limits" : "link";
  finding.peer = peer->member().peer();
  finding.what =
      absl::StrCat("the line of ", finding.peer, " carries ", FormatBitRate(rate),
                   up ? " up" : " down", " where the others' carry ", FormatBitRate(usual),
                   capped ? ", which is what its owner allows" : "");
  if (capped) {
    finding.key = up ? "[peer] up_rate" : "[peer] down_rate";
    finding.value = absl::StrFormat("%.0fMbit", std::ceil(8e-6 * usual / kSlowLine));
    finding.advice = "its owner may allow more, or it is drained";
  } else {
    const bool weighted =
        status.rounds_size() > 0 && absl::StrContains(status.rounds().rbegin()->plan(), "weighted");
    finding.key = weighted ? "[exchange] codec" : "[exchange] plan";
    finding.value = weighted ? "int4" : "auto";
    finding.advice = absl::StrCat(
        weighted ? "the plan gives it little to reduce already; a smaller codec"
                 : "with that plan it reduces little or nothing; a smaller codec as well",
        ", or `atoll peer drain ", finding.peer, "`, saves the rest");
  }
  return slow;
}

std::optional<SlowWay> SlowestLink(const v1::RunStatus& status) {
  std::vector<double> lines;
  for (const v1::PeerStatus& peer : status.peers()) {
    const double rate = std::min(peer.up_bytes_per_second(), peer.down_bytes_per_second());
    if (Trains(peer) && rate > 0) lines.push_back(rate);
  }
  const double usual = MedianOf(lines);
  const v1::LinkStatus* slowest = nullptr;
  double slowest_rate = 0;
  for (const v1::LinkStatus& link : status.links()) {
    // What was carried may only be what was asked for; what is counted on is less than the lines
    // carry only where the link was seen to limit.
    const double rate = link.predicted_bytes_per_second();
    if (link.from() == link.to() || rate <= 0) continue;
    if (slowest != nullptr && rate >= slowest_rate) continue;
    slowest = &link;
    slowest_rate = rate;
  }
  if (slowest == nullptr || slowest_rate >= kFastLine || usual < kSlowLine * slowest_rate) {
    return std::nullopt;
  }
  SlowWay slow;
  slow.ratio = usual / slowest_rate;
  const bool by_region =
      status.rounds_size() > 0 && absl::StrContains(status.rounds().rbegin()->plan(), "regions");
  slow.finding.cause = "link";
  slow.finding.what = absl::StrCat("the link from ", slowest->from(), " to ", slowest->to(),
                                   " carries ", FormatBitRate(slowest_rate),
                                   " where peers' own lines carry ", FormatBitRate(usual));
  slow.finding.key = by_region ? "[exchange] upper_codec" : "[exchange] plan";
  slow.finding.value = by_region ? "int4" : "regions";
  slow.finding.advice = by_region
                            ? "each region averages first already; a smaller codec between them is "
                              "what is left, or more inner steps"
                            : "each region then averages first, and one copy crosses the link";
  return slow;
}

// Returns the bytes of one parameter. Sparse and mixed codecs, and smaller ones, count as small
// enough.
double CodecBytes(const std::string& codec) {
  if (absl::StartsWith(codec, "fp32")) return 4;
  if (absl::StartsWith(codec, "bf16") || absl::StartsWith(codec, "fp16")) return 2;
  return absl::StartsWith(codec, "int8") ? 1 : 0.5;
}

// Returns what the exchanges would still take without it.
double FindSlowWay(const Scene& scene, Findings* findings) {
  const double exchange = scene.times.exchange;
  std::optional<SlowWay> slow = SlowestLine(scene.status);
  std::optional<SlowWay> link = SlowestLink(scene.status);
  if (link && (!slow || link->ratio > slow->ratio)) slow = std::move(link);
  if (!slow) return exchange;
  const double saved = exchange * (1 - 1 / slow->ratio);
  absl::StrAppend(&slow->finding.what, ", and an exchange takes ", FormatFigure(exchange),
                  " of a round's ", FormatFigure(scene.times.round));
  scene.AddSeconds(std::move(slow->finding), saved, findings);
  return exchange - saved;
}

double FindLargeCodec(const Scene& scene, double exchange, Findings* findings) {
  const std::string& codec = scene.status.spec().exchange().codec();
  const double bytes = CodecBytes(codec);
  if (bytes <= 1 || exchange < kExchangeShare * scene.times.round) return exchange;
  const double saved = exchange * (1 - 1 / bytes);
  RunFinding finding;
  finding.cause = "codec";
  finding.what = absl::StrFormat(
      "exchanges take %s of a round's time (%s of %s), with %.3g bytes a parameter as %s",
      FormatShare(exchange / scene.times.round), FormatFigure(exchange),
      FormatFigure(scene.times.round), bytes, codec);
  finding.key = "[exchange] codec";
  finding.value = "int8";
  finding.advice =
      "one byte a parameter learns as well; a run's codec never changes, so take it in a branch "
      "(`atoll run branch`) or in the next run";
  scene.AddSeconds(std::move(finding), saved, findings);
  return exchange - saved;
}

void FindFewSteps(const Scene& scene, double saved, double exchange, Findings* findings) {
  const double round = scene.times.round - saved;
  if (round <= 0 || scene.times.train <= 0 || exchange < kExchangeShare * round) return;
  const double now = exchange / round;
  const auto steps = static_cast<double>(scene.status.spec().inner().steps());
  const double rest = round - exchange;
  // So that the exchange takes the wanted share of what the round takes then.
  const double wanted =
      steps * exchange * (1 - kWantedExchangeShare) / (kWantedExchangeShare * std::max(rest, 1e-9));
  const double told = std::max(std::min(wanted, kMostSteps), 2 * steps);
  const double digits = std::pow(10, std::floor(std::log10(told)) - 1);
  RunFinding finding;
  finding.cause = "inner_steps";
  finding.what = absl::StrFormat(
      "%.0f inner steps take %s, and the exchange after them %s: %s of a "
      "round's time",
      steps, FormatFigure(scene.times.train), FormatFigure(exchange), FormatShare(now));
  finding.key = "[inner] steps";
  finding.value = absl::StrFormat("%.0f", std::ceil(told / digits) * digits);
  finding.advice =
      wanted > kMostSteps
          ? "and a smaller codec, since beyond 500 steps a run learns less a token; in "
            "a branch (`atoll run branch`) or in the next run"
          : "a run's steps never change, so take them in a branch (`atoll run branch`) or in the "
            "next run";
  scene.AddSeconds(std::move(finding), round * (now - kWantedExchangeShare), findings);
}

void FindExchangeTime(const Scene& scene, Findings* findings) {
  if (!scene.judged || scene.times.exchange < kExchangeShare * scene.times.round) return;
  const double without_way = FindSlowWay(scene, findings);
  const double without_codec = FindLargeCodec(scene, without_way, findings);
  FindFewSteps(scene, scene.times.exchange - without_codec, without_codec, findings);
  for (const v1::PeerStatus& peer : scene.status.peers()) {
    if (!IsHere(peer) || peer.role() != "aggregator") continue;
    if (peer.progress().exchange_bytes_sent() > 0) continue;
    RunFinding finding;
    finding.cause = "reducer";
    finding.peer = peer.member().peer();
    finding.what =
        absl::StrCat("aggregator ", finding.peer, " has averaged nothing, while exchanges take ",
                     FormatShare(scene.times.exchange / scene.times.round), " of the time");
    finding.key = "[peer] advertise";
    finding.advice =
        "peers that can be dialled average themselves; where their lines are slow, "
        "let them dial out only (advertise = \"none\"), and it averages for them";
    scene.Add(std::move(finding), kToBeTold, findings);
  }
}

void FindStraggler(const Scene& scene, Findings* findings) {
  std::vector<std::pair<double, const v1::PeerStatus*>> ready;
  for (const v1::PeerStatus& peer : scene.status.peers()) {
    if (Trains(peer) && peer.ready_seconds() > 0) ready.emplace_back(peer.ready_seconds(), &peer);
  }
  if (!scene.judged || ready.size() < 2) return;
  std::sort(ready.begin(), ready.end());
  const auto [seconds, peer] = ready.back();
  ready.pop_back();
  std::vector<double> others;
  for (const auto& one : ready) others.push_back(one.first);
  const double usual = MedianOf(others);
  if (seconds < kStraggler * usual) return;
  // The round does not wait for a peer longer than the deadline; the peer's own work is then late.
  const double waited = scene.times.round - scene.times.exchange - scene.times.audit - usual;
  const double late = peer->mean_share() > 0 ? 0 : scene.times.round / scene.trainers;
  RunFinding finding;
  finding.cause = "straggler";
  finding.peer = peer->member().peer();
  finding.what = absl::StrCat(finding.peer, " was ready after ", FormatFigure(seconds),
                              " where the others were after ", FormatFigure(usual),
                              peer->mean_share() > 0 ? "" : ", too late for the round");
  finding.key = "[inner] pace";
  finding.value = "auto";
  finding.advice =
      "a slower peer then does fewer steps a round; set it in the coordinator's config and start "
      "the coordinator again";
  scene.AddSeconds(std::move(finding), std::max(std::min(seconds - usual, waited), late), findings);
}

// Reports one finding for each peer that others cannot reach, and one for each pair of two.
void FindNoWay(const Scene& scene, Findings* findings) {
  std::map<std::string, std::vector<const v1::ReachDoubt*>> doubts;
  for (const v1::ReachDoubt& doubt : scene.status.doubts()) doubts[doubt.to()].push_back(&doubt);
  for (const auto& [peer, of_peer] : doubts) {
    std::vector<std::string> who;
    double seconds = 0;
    for (const v1::ReachDoubt* const doubt : of_peer) {
      who.push_back(doubt->from().empty() ? "the coordinator" : doubt->from());
      seconds = std::max(seconds, doubt->seconds());
    }
    const bool port = of_peer.size() > 1 || of_peer.front()->from().empty();
    RunFinding finding;
    finding.cause = "reach";
    finding.peer = peer;
    finding.what = absl::StrCat(absl::StrJoin(who, ", "), " cannot reach ", peer, " for ",
                                FormatSeconds(seconds), Because(of_peer.front()->reason()));
    finding.key = port ? "[peer] advertise" : "";
    finding.value = port ? "none" : "";
    finding.advice =
        port
            ? "or let its firewall pass the port that it advertises; it averages nothing until then"
            : "look at the network between the two (a firewall, a route, an MTU); a third peer "
              "averages for them meanwhile";
    scene.Add(std::move(finding), kToBeTold, findings);
  }
}

void FindSlowAudits(const Scene& scene, Findings* findings) {
  if (!scene.judged || scene.times.audit < kAuditShare * scene.times.round) return;
  RunFinding finding;
  finding.cause = "audits";
  finding.what = absl::StrCat("audits of means take ", FormatFigure(scene.times.audit),
                              " of a round's ", FormatFigure(scene.times.round));
  finding.key = "[exchange] audit_share";
  finding.value = "0";
  finding.advice =
      "only where all peers are yours; otherwise take a smaller share than now. Change it in a "
      "branch (`atoll run branch`) or in the next run";
  scene.AddSeconds(std::move(finding), scene.times.audit, findings);
}

// -----------------------------------------------------------------------------------------------
// Settings that cost loss

double RateOfBits(uint32_t bits) { return double{absl::bit_cast<float>(bits)}; }

// Returns how many parties are in a round: in mode "async", whose entries are of a few, all that
// train. Returns 0 if too few rounds are known.
double PartiesOfRound(const Scene& scene) {
  const v1::RunStatus& status = scene.status;
  if (status.spec().mode().kind() == "async") return scene.trainers;
  std::vector<double> parties;
  for (int i = std::max(0, status.rounds_size() - kRoundsLookedAt); i < status.rounds_size(); ++i) {
    const v1::RoundRecord& round = status.rounds(i);
    const uint32_t count = round.parties() > 0 ? round.parties() : round.contributors();
    if (count > 0) parties.push_back(count);
  }
  return parties.size() < kLeastRoundsToJudge ? 0 : MedianOf(parties);
}

// As OuterSettingOf (config_defaults.h), from the run's record. The number of peers is that of its
// rounds.
OuterSetting OuterSettingOfRun(const Scene& scene) {
  const v1::RunStatus& status = scene.status;
  const v1::RunSpec& spec = status.spec();
  OuterSetting setting;
  if (spec.model().kind() == kStubKind) return setting;
  setting.rule = spec.outer().rule();
  setting.learning_rate = RateOfBits(spec.outer().learning_rate_bits());
  setting.momentum = RateOfBits(spec.outer().momentum_bits());
  if (!spec.mode().kind().empty()) setting.mode = spec.mode().kind();
  setting.gap_penalty = spec.mode().gap_penalty();
  setting.fragments = spec.mode().fragments();
  setting.overlap_steps = spec.mode().overlap_steps();
  setting.rates.peers = PartiesOfRound(scene);
  setting.rates.steps = spec.inner().epochs() > 0 ? 0 : spec.inner().steps();
  setting.rates.muon = spec.inner().optimizer() == "muon";
  // The default rates are made before "auto" chooses a mode.
  setting.rates.streaming = setting.mode == "streaming" && status.mode_because().empty();
  // As in a config, whose model of a foreign kind counts as small.
  if (!IsForeign(spec.model().kind())) {
    setting.rates.parameters = static_cast<double>(status.parameters());
  }
  return setting;
}

void FindCostlyOuterStep(const Scene& scene, Findings* findings) {
  for (const OuterAdvice& advice : AdviseOuterStep(OuterSettingOfRun(scene))) {
    RunFinding finding;
    finding.cause = "outer";
    finding.what = advice.what;
    finding.key = advice.changes.front().key;
    finding.value = advice.changes.front().value;
    for (size_t i = 1; i < advice.changes.size(); ++i) {
      absl::StrAppend(&finding.advice, "and ", advice.changes[i].key, " = ",
                      advice.changes[i].value, "; ");
    }
    absl::StrAppend(&finding.advice,
                    "a run's outer step and mode never change, so take it in a branch "
                    "(`atoll run branch`) or in the next run");
    scene.Add(std::move(finding), 0, findings);
  }
}

// Returns a line of a config; a value that is not a number is quoted.
std::string ConfigLine(const RunFinding& finding) {
  if (finding.value.empty()) return finding.key;
  double number = 0;
  const bool plain = absl::SimpleAtod(finding.value, &number);
  const char* const quote = plain ? "" : "\"";
  return absl::StrCat(finding.key, " = ", quote, finding.value, quote);
}

}  // namespace

RoundTimes UsualTimes(const v1::RunStatus& status) {
  std::vector<double> rounds;
  std::vector<double> trains;
  std::vector<double> exchanges;
  std::vector<double> audits;
  for (int i = std::max(0, status.rounds_size() - kRoundsLookedAt); i < status.rounds_size(); ++i) {
    const v1::RoundRecord& round = status.rounds(i);
    if (round.exchange_seconds() <= 0) continue;  // adopted, or nobody has told
    trains.push_back(round.train_seconds());
    exchanges.push_back(round.exchange_seconds());
    audits.push_back(round.audit_seconds());
    const double parts = round.train_seconds() + round.exchange_seconds() + round.audit_seconds();
    const bool follows = i > 0 && status.rounds(i - 1).version() + 1 == round.version();
    const double since =
        follows ? round.elapsed_seconds() - status.rounds(i - 1).elapsed_seconds() : 0;
    rounds.push_back(std::max(parts, since));
  }
  RoundTimes times;
  times.rounds = rounds.size();
  times.round = MedianOf(rounds);
  times.train = MedianOf(trains);
  times.exchange = MedianOf(exchanges);
  times.audit = MedianOf(audits);
  return times;
}

std::vector<RunFinding> Diagnose(const v1::RunStatus& status) {
  Findings findings;
  if (status.has_seal()) return findings;  // nothing slows what is over
  const Scene scene(status);
  for (const auto find :
       {FindWaiting, FindFullDisks, FindSlowDisks, FindFailingWorkers, FindHeldBack, FindBadData,
        FindOffenders, FindStillTensors, FindTooManyPeers, FindExchangeTime, FindStraggler,
        FindNoWay, FindSlowAudits, FindWrongClocks, FindCostlyOuterStep}) {
    find(scene, &findings);
  }
  std::stable_sort(findings.begin(), findings.end(),
                   [](const auto& a, const auto& b) { return a.share > b.share; });
  return findings;
}

nlohmann::ordered_json DiagnosisJson(const v1::RunStatus& status) {
  const RoundTimes times = UsualTimes(status);
  nlohmann::ordered_json json = {
      {"run_id", status.spec().run_id()}, {"version", status.version()}, {"rounds", times.rounds}};
  const std::pair<const char*, double> medians[] = {{"round_seconds", times.round},
                                                    {"train_seconds", times.train},
                                                    {"exchange_seconds", times.exchange},
                                                    {"audit_seconds", times.audit}};
  for (const auto& [name, seconds] : medians) {
    json[name] = FigureJson(times.rounds > 0 ? std::optional(seconds) : std::nullopt);
  }
  const std::vector<RunFinding> findings = Diagnose(status);
  json["healthy"] = findings.empty() && times.rounds >= kLeastRoundsToJudge;
  json["findings"] = nlohmann::ordered_json::array();
  for (const RunFinding& finding : findings) {
    nlohmann::ordered_json one = {
        {"cause", finding.cause}, {"peer", finding.peer}, {"what", finding.what}};
    if (finding.share > 0) {
      one["seconds"] = finding.seconds;
      one["share"] = finding.share;
    }
    one["key"] = finding.key;
    one["value"] = finding.value;
    one["advice"] = finding.advice;
    json["findings"].push_back(std::move(one));
  }
  return json;
}

std::vector<std::string> DiagnosisText(const v1::RunStatus& status) {
  const RoundTimes times = UsualTimes(status);
  std::vector<std::string> lines;
  if (times.rounds > 0) {
    lines.push_back(absl::StrCat(
        "run ", status.spec().run_id(), " at version ", status.version(), ": a round takes ",
        FormatFigure(times.round), " (training ", FormatFigure(times.train), ", exchange ",
        FormatFigure(times.exchange), ", audit ", FormatFigure(times.audit),
        "), by the medians of the last ", Counted(times.rounds, "round")));
  }
  const std::vector<RunFinding> findings = Diagnose(status);
  for (size_t i = 0; i < findings.size(); ++i) {
    const RunFinding& finding = findings[i];
    const bool costs = finding.share >= 0.001;
    lines.emplace_back();
    lines.push_back(absl::StrCat(
        i + 1, ". ", finding.what,
        costs ? absl::StrCat(" (costs ", FormatShare(finding.share),
                             finding.seconds > 0
                                 ? absl::StrCat(", ", FormatFigure(finding.seconds), " a round")
                                 : "",
                             ")")
              : ""));
    if (!finding.key.empty() && finding.key.back() != ']') {  // not a whole section
      lines.push_back(absl::StrCat("   ", ConfigLine(finding)));
    }
    lines.push_back(absl::StrCat("   ", finding.advice));
  }
  if (!findings.empty()) return lines;
  if (status.has_seal()) {
    lines.push_back("the run is sealed: nothing slows it any more");
  } else if (times.rounds < kLeastRoundsToJudge) {
    lines.push_back(absl::StrCat("too early to say: ", Counted(times.rounds, "round"),
                                 " of this run can be judged, and it takes ", kLeastRoundsToJudge));
  } else {
    lines.push_back("healthy: nothing costs a twentieth of the time or more");
  }
  return lines;
}

}  // namespace atolld
