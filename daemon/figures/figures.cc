#include "daemon/figures/figures.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "compression/base/check.h"
#include "compression/base/number_words.h"
#include "daemon/program/format.h"
#include "membership/run/losses.h"
#include "membership/run/utilisation.h"

namespace atolld {
namespace {

using Json = nlohmann::ordered_json;
using Maybe = std::optional<double>;
using Unit = FigureUnit;
using v1::DataStatus;
using v1::EvaluationRecord;
using v1::LinkStatus;
using v1::NoiseStatus;
using v1::PeerProgress;
using v1::PeerStatus;
using v1::RoundRecord;
using v1::RunSpec;
using v1::RunStatus;
using v1::Utilisation;

// The sources of figures.
constexpr char kHeaders[] = "the signed headers";
constexpr char kConfig[] = "the run's recorded spec";
constexpr char kGenesis[] = "version 0";
constexpr char kCoordinator[] = "the coordinator's own count or clock";
constexpr char kPeers[] = "what peers tell of themselves";
constexpr char kWorkers[] = "what workers tell of their data";
constexpr char kPlanner[] = "the planner's prediction";
constexpr char kNoise[] = "the norms of peers' updates";
constexpr char kAccountant[] = "the privacy accountant";

// -- how units are written

struct UnitForm {
  FigureUnit unit;
  const char* name;
  bool whole;  // true if the values are integers in JSON
  std::string (*text)(double);
};

std::string CountText(double count) { return WithThousands(static_cast<uint64_t>(count)); }
std::string DigitsText(double number) { return absl::StrCat(static_cast<uint64_t>(number)); }
std::string FourDigits(double number) { return absl::StrFormat("%.4g", number); }
std::string LossNumber(double loss) { return LossText(loss); }

constexpr UnitForm kUnits[] = {
    {Unit::kCount, "count", true, CountText},
    {Unit::kOrdinal, "ordinal", true, DigitsText},
    {Unit::kFlag, "0 or 1", true, DigitsText},
    {Unit::kTokens, "tokens", true, CountText},
    {Unit::kSamples, "samples", true, CountText},
    {Unit::kBytes, "bytes", true, FormatBytes},
    {Unit::kTokensEstimated, "tokens, estimated", false, AboutTokens},
    {Unit::kSeconds, "seconds", false, FormatSeconds},
    {Unit::kUnixSeconds, "Unix seconds", false, DigitsText},
    {Unit::kBytesPerSecond, "bytes/s", false, FormatBitRate},
    {Unit::kTokensPerSecond, "tokens/s", false, FormatRate},
    {Unit::kShare, "share", false, FormatPercent},
    {Unit::kLoss, "loss", false, LossNumber},
    {Unit::kNumber, "number", false, FourDigits},
};

const UnitForm& FormOf(FigureUnit unit) {
  const auto* const form = std::find_if(std::begin(kUnits), std::end(kUnits),
                                        [&](const UnitForm& one) { return one.unit == unit; });
  CHECK(form != std::end(kUnits));
  return *form;
}

// -- when a field is known

// Returns the field that the getters lead to, each called on the result of the one before.
template <auto first, auto... rest, typename Of>
double Field(const Of& of) {
  if constexpr (sizeof...(rest) == 0) {
    return static_cast<double>((of.*first)());
  } else {
    return Field<rest...>((of.*first)());
  }
}

template <auto... path, typename Of>
Maybe Always(const Of& of) {
  return Field<path...>(of);
}

// Returns nothing for 0, which means unknown here: no value of this kind is 0.
template <auto... path, typename Of>
Maybe NotZero(const Of& of) {
  const double value = Field<path...>(of);
  return value == 0 ? std::nullopt : Maybe(value);
}

template <auto known, auto... path, typename Of>
Maybe Where(const Of& of) {
  return known(of) ? Maybe(Field<path...>(of)) : std::nullopt;
}

// Otherwise a run's folder gives the status, which knows less.
bool FromCoordinator(const RunStatus& run) { return run.epoch() > 0; }
bool TellsElapsed(const RunStatus& run) {
  return FromCoordinator(run) || run.elapsed_seconds() != 0;
}
// Private data belong to their owners: they are neither leased nor counted.
bool HasData(const RunStatus& run) {
  return (FromCoordinator(run) || run.has_data()) && !run.spec().data().private_();
}
bool HasLeases(const RunStatus& run) { return FromCoordinator(run) && HasData(run); }

// Returns true if the coordinator has led the exchange of the round; for an adopted round only the
// header is known.
bool Seen(const RoundRecord& round) {
  return round.revisions() > 0 || round.exchange_seconds() > 0;
}
bool Estimated(const RoundRecord& round) {
  return round.squared_gradient() != 0 || round.gradient_noise() != 0;
}

bool IsEvaluated(const EvaluationRecord& one) { return EvaluatedLoss(one).has_value(); }
bool HasParties(const EvaluationRecord& one) { return one.own_parties() > 0; }

// Returns true if the peer is on the coordinator's roster; less is known of one that only a folder
// names.
bool Listed(const PeerStatus& peer) {
  const absl::string_view state = peer.member().state();
  return !state.empty() && state != "running" && state != "ended" && state != "gone";
}
// A daemon that reports about itself says what it does.
bool TellsProgress(const PeerStatus& peer) { return !peer.progress().phase().empty(); }
bool TellsClock(const PeerStatus& peer) { return peer.progress().clock_seconds() > 0; }
bool TellsState(const PeerStatus& peer) { return !peer.state_digest().empty(); }
bool HasSteps(const PeerStatus& peer) { return peer.progress().steps() > 0; }

template <typename Of>
Maybe ShareOf(const Of& of) {
  return TrainedShare(of.utilisation());
}
template <typename Of>
bool TellsTimes(const Of& of) {
  return ShareOf(of).has_value();
}

// -- the lists

constexpr Figure<RunStatus> kRunFigures[] = {
    {"/version", nullptr, "atoll_run_version", "version", Unit::kOrdinal,
     "Newest committed version of the model", kHeaders, Always<&RunStatus::version>},
    {"/spec/rounds", nullptr, "atoll_run_rounds", nullptr, Unit::kCount,
     "Versions to commit before the run is sealed", kConfig,
     Always<&RunStatus::spec, &RunSpec::rounds>},
    {"/parameters", nullptr, "atoll_run_parameters", "parameters", Unit::kCount,
     "Parameters of the model", kGenesis, NotZero<&RunStatus::parameters>},
    {"/tokens", nullptr, "atoll_run_tokens_total", "tokens", Unit::kTokens,
     "Training tokens in committed rounds", kHeaders, Always<&RunStatus::tokens>},
    {"/elapsed_seconds", nullptr, "atoll_run_elapsed_seconds", "elapsed", Unit::kSeconds,
     "Time since the first round began", kCoordinator,
     Where<TellsElapsed, &RunStatus::elapsed_seconds>},
    {"/epoch", nullptr, "atoll_run_epoch", nullptr, Unit::kOrdinal,
     "Epoch of the coordinator: one more with each of its starts", kCoordinator,
     NotZero<&RunStatus::epoch>},
    {"/epoch_seconds", nullptr, nullptr, "coordinator epoch", Unit::kSeconds,
     "How long this epoch has lasted", kCoordinator,
     Where<FromCoordinator, &RunStatus::epoch_seconds>},
    {"/rounds_recorded", nullptr, nullptr, nullptr, Unit::kCount, "Rounds that can be asked for",
     kCoordinator, Always<&RunStatus::rounds_recorded>},
    {"/data/samples_a_pass", nullptr, nullptr, nullptr, Unit::kSamples,
     "Samples in one pass over the training data", kWorkers,
     NotZero<&RunStatus::data, &DataStatus::samples_a_pass>},
    {"/data/spent", nullptr, nullptr, "data", Unit::kSamples,
     "Samples that committed rounds were trained on", kHeaders,
     Where<HasData, &RunStatus::data, &DataStatus::spent>},
    {"/data/held", nullptr, nullptr, nullptr, Unit::kSamples, "Samples that are leased to peers",
     kCoordinator, Where<HasLeases, &RunStatus::data, &DataStatus::held>},
    {"/data/returned", nullptr, nullptr, nullptr, Unit::kSamples,
     "Samples that are leased again before fresh ones", kCoordinator,
     Where<HasLeases, &RunStatus::data, &DataStatus::returned>},
    {"/data/next", nullptr, nullptr, nullptr, Unit::kSamples,
     "The first sample that was never leased", kCoordinator,
     Where<HasLeases, &RunStatus::data, &DataStatus::next>},
    {"/noise/tokens", nullptr, "atoll_run_noise_scale_tokens", "gradient noise scale",
     Unit::kTokensEstimated, "Gradient noise scale", kNoise,
     NotZero<&RunStatus::noise, &NoiseStatus::tokens>},
    {"/noise/rounds", nullptr, nullptr, nullptr, Unit::kCount,
     "Rounds that the gradient noise scale comes from", kNoise,
     NotZero<&RunStatus::noise, &NoiseStatus::rounds>},
    {"/noise/round_tokens", nullptr, nullptr, nullptr, Unit::kTokens,
     "Tokens of the newest of those rounds", kNoise,
     NotZero<&RunStatus::noise, &NoiseStatus::round_tokens>},
    {"/unix_seconds", nullptr, nullptr, nullptr, Unit::kUnixSeconds,
     "The coordinator's clock when it told this, Unix time", kCoordinator,
     NotZero<&RunStatus::unix_seconds>},
    {"/predicted_end_unix_seconds", nullptr, "atoll_run_predicted_end_timestamp_seconds", nullptr,
     Unit::kUnixSeconds, "When it will be sealed at the pace of recent rounds, Unix time",
     kCoordinator, NotZero<&RunStatus::predicted_end_unix_seconds>},
    {nullptr, nullptr, "atoll_run_paused", nullptr, Unit::kFlag,
     "1 while an operator has paused it", kCoordinator, Always<&RunStatus::paused>},
    {nullptr, nullptr, "atoll_run_waiting", nullptr, Unit::kFlag, "1 while it waits for something",
     kCoordinator, [](const RunStatus& run) -> Maybe { return run.phase() == "waiting" ? 1 : 0; }},
    {nullptr, nullptr, "atoll_run_sealed", nullptr, Unit::kFlag, "1 once it is sealed", kHeaders,
     Always<&RunStatus::has_seal>},
};

constexpr Figure<RoundRecord> kRoundFigures[] = {
    {"/version", "version", nullptr, "round", Unit::kOrdinal, "Version that the round made",
     kHeaders, Always<&RoundRecord::version>},
    {"/elapsed_seconds", "time/elapsed_seconds", nullptr, nullptr, Unit::kSeconds,
     "Time of the run when the version was committed", kCoordinator,
     NotZero<&RoundRecord::elapsed_seconds>},
    {"/train_loss", "train/loss", "atoll_run_train_loss", "training loss", Unit::kLoss,
     "Mean training loss of the newest round", kPeers, NotZero<&RoundRecord::train_loss>},
    {"/tokens", "train/tokens", nullptr, nullptr, Unit::kTokens, "Training tokens of the round",
     kHeaders, Always<&RoundRecord::tokens>},
    {"/contributors", "train/contributors", "atoll_run_round_contributors", nullptr, Unit::kCount,
     "Peers whose updates count in the newest round", kHeaders,
     NotZero<&RoundRecord::contributors>},
    {"/parties", "train/parties", "atoll_run_round_parties", nullptr, Unit::kCount,
     "Parties behind the peers of the newest round", kPeers, NotZero<&RoundRecord::parties>},
    {"/train_seconds", "time/train_seconds", "atoll_run_round_train_seconds", nullptr,
     Unit::kSeconds, "Inner steps of the newest round, mean of its peers", kPeers,
     NotZero<&RoundRecord::train_seconds>},
    {"/exchange_seconds", "time/exchange_seconds", "atoll_run_round_exchange_seconds", "exchange",
     Unit::kSeconds, "Exchange of the newest round", kCoordinator,
     NotZero<&RoundRecord::exchange_seconds>},
    {"/predicted_seconds", "time/predicted_seconds", "atoll_run_round_predicted_seconds", nullptr,
     Unit::kSeconds, "What that exchange was predicted to take", kPlanner,
     NotZero<&RoundRecord::predicted_seconds>},
    {"/audit_seconds", "time/audit_seconds", "atoll_run_round_audit_seconds", nullptr,
     Unit::kSeconds, "Audit of the newest round", kCoordinator,
     Where<Seen, &RoundRecord::audit_seconds>},
    {"/utilisation/compute_utilization", "time/compute_utilization",
     "atoll_run_round_utilisation_ratio", "utilisation", Unit::kShare,
     "Share of its peers' time that was inner steps, of the newest round", kPeers,
     ShareOf<RoundRecord>},
    {"/utilisation/train_seconds", nullptr, nullptr, nullptr, Unit::kSeconds,
     "Time of its peers in inner steps", kPeers,
     Where<TellsTimes<RoundRecord>, &RoundRecord::utilisation, &Utilisation::train_seconds>},
    {"/utilisation/waited_seconds", nullptr, nullptr, nullptr, Unit::kSeconds,
     "Time of its peers outside inner steps", kPeers,
     Where<TellsTimes<RoundRecord>, &RoundRecord::utilisation, &Utilisation::waited_seconds>},
    {"/utilisation/hidden_bytes", "exchange/hidden_bytes", "atoll_run_round_hidden_bytes", nullptr,
     Unit::kBytes,
     "Bytes of the exchange before the newest round's that passed while workers trained", kPeers,
     Where<TellsTimes<RoundRecord>, &RoundRecord::utilisation, &Utilisation::hidden_bytes>},
    {"/utilisation/waited_bytes", "exchange/waited_bytes", "atoll_run_round_waited_bytes", nullptr,
     Unit::kBytes, "The same while workers waited", kPeers,
     Where<TellsTimes<RoundRecord>, &RoundRecord::utilisation, &Utilisation::waited_bytes>},
    {"/revisions", "exchange/revisions", nullptr, nullptr, Unit::kCount,
     "Plans that its exchange had", kCoordinator, NotZero<&RoundRecord::revisions>},
    {"/squared_gradient", nullptr, nullptr, nullptr, Unit::kNumber,
     "Estimate of the update's squared norm without noise", kNoise,
     Where<Estimated, &RoundRecord::squared_gradient>},
    {"/gradient_noise", nullptr, nullptr, nullptr, Unit::kNumber,
     "Estimate of the noise's squared norm at one token", kNoise,
     Where<Estimated, &RoundRecord::gradient_noise>},
    {"/noise_scale", "noise/scale_tokens", nullptr, nullptr, Unit::kTokensEstimated,
     "Gradient noise scale as known after the round", kNoise, NotZero<&RoundRecord::noise_scale>},
    {"/epsilon", "privacy/epsilon", "atoll_run_privacy_epsilon", "privacy", Unit::kNumber,
     "Epsilon of differential privacy that is spent", kAccountant, NotZero<&RoundRecord::epsilon>},
    {"/clip", "privacy/clip", nullptr, nullptr, Unit::kNumber,
     "Clip that follows a quantile, as it is after the round", kAccountant,
     NotZero<&RoundRecord::clip>},
};

constexpr Figure<EvaluationRecord> kEvaluationFigures[] = {
    {"/version", "version", nullptr, nullptr, Unit::kOrdinal, "Version that was evaluated",
     kHeaders, Always<&EvaluationRecord::version>},
    {"/loss", "validation/loss", "atoll_run_validation_loss", "validation loss", Unit::kLoss,
     "Validation loss of the newest version that has one", kWorkers, EvaluatedLoss},
    {"/tokens", nullptr, nullptr, nullptr, Unit::kTokens, "Tokens that it was evaluated on",
     kWorkers, NotZero<&EvaluationRecord::tokens>},
    {"/elapsed_seconds", "time/elapsed_seconds", nullptr, nullptr, Unit::kSeconds,
     "Time of the run when its version was committed", kCoordinator,
     Where<IsEvaluated, &EvaluationRecord::elapsed_seconds>},
    {"/own_mean", "validation/own_mean", "atoll_run_own_loss_mean", nullptr, Unit::kLoss,
     "Mean loss of the parties on what each has held out", kWorkers,
     Where<HasParties, &EvaluationRecord::own_mean>},
    {"/own_tenth", "validation/own_tenth", "atoll_run_own_loss_tenth", nullptr, Unit::kLoss,
     "10th percentile of the parties' own losses", kWorkers,
     Where<HasParties, &EvaluationRecord::own_tenth>},
    {"/own_ninetieth", "validation/own_ninetieth", "atoll_run_own_loss_ninetieth", nullptr,
     Unit::kLoss, "90th percentile of the parties' own losses", kWorkers,
     Where<HasParties, &EvaluationRecord::own_ninetieth>},
    {"/own_parties", nullptr, "atoll_run_own_loss_parties", nullptr, Unit::kCount,
     "Parties that have told a loss of their own", kWorkers,
     NotZero<&EvaluationRecord::own_parties>},
};

constexpr Figure<PeerStatus> kPeerFigures[] = {
    {nullptr, nullptr, "atoll_peer_up", nullptr, Unit::kFlag, "1 while the coordinator hears of it",
     kCoordinator,
     [](const PeerStatus& peer) -> Maybe {
       if (!Listed(peer)) return std::nullopt;
       return peer.member().state() == "live" ? 1 : 0;
     }},
    {"/rounds_contributed", nullptr, "atoll_peer_rounds_total", "rounds contributed", Unit::kCount,
     "Rounds that it contributed to", kHeaders, Always<&PeerStatus::rounds_contributed>},
    {"/tokens", nullptr, "atoll_peer_tokens_total", "tokens", Unit::kTokens,
     "Its training tokens in committed rounds", kHeaders, Always<&PeerStatus::tokens>},
    {"/mean_share", nullptr, "atoll_peer_mean_share_ratio", "share of the newest mean",
     Unit::kShare, "Share of its weight in the newest round's mean", kHeaders,
     Where<Listed, &PeerStatus::mean_share>},
    {"/ready_seconds", nullptr, "atoll_peer_ready_seconds", "last ready after", Unit::kSeconds,
     "From the start of its training to its update in the newest round", kCoordinator,
     NotZero<&PeerStatus::ready_seconds>},
    {"/utilisation/compute_utilization", nullptr, "atoll_peer_utilisation_ratio", "utilisation",
     Unit::kShare, "Share of the time that was inner steps, of its newest update", kPeers,
     ShareOf<PeerStatus>},
    {"/utilisation/train_seconds", nullptr, nullptr, nullptr, Unit::kSeconds,
     "Time in inner steps, of its newest update", kPeers,
     Where<TellsTimes<PeerStatus>, &PeerStatus::utilisation, &Utilisation::train_seconds>},
    {"/utilisation/waited_seconds", nullptr, nullptr, "waited before its newest update",
     Unit::kSeconds, "Time outside inner steps, of its newest update", kPeers,
     Where<TellsTimes<PeerStatus>, &PeerStatus::utilisation, &Utilisation::waited_seconds>},
    {"/utilisation/hidden_bytes", nullptr, "atoll_peer_hidden_bytes", "exchanged while it trained",
     Unit::kBytes, "Bytes that it exchanged while its worker trained, of its newest update", kPeers,
     Where<TellsTimes<PeerStatus>, &PeerStatus::utilisation, &Utilisation::hidden_bytes>},
    {"/utilisation/waited_bytes", nullptr, "atoll_peer_waited_bytes", "exchanged while it waited",
     Unit::kBytes, "The same while its worker waited", kPeers,
     Where<TellsTimes<PeerStatus>, &PeerStatus::utilisation, &Utilisation::waited_bytes>},
    {"/up_bytes_per_second", nullptr, "atoll_peer_up_bytes_per_second", "line up",
     Unit::kBytesPerSecond, "The most that its line was seen to send", kCoordinator,
     NotZero<&PeerStatus::up_bytes_per_second>},
    {"/down_bytes_per_second", nullptr, "atoll_peer_down_bytes_per_second", "line down",
     Unit::kBytesPerSecond, "The most that its line was seen to receive", kCoordinator,
     NotZero<&PeerStatus::down_bytes_per_second>},
    {"/up_cap_bytes_per_second", nullptr, "atoll_peer_up_cap_bytes_per_second", "allowed up",
     Unit::kBytesPerSecond, "What its owner lets it send", kPeers,
     NotZero<&PeerStatus::up_cap_bytes_per_second>},
    {"/down_cap_bytes_per_second", nullptr, "atoll_peer_down_cap_bytes_per_second", "allowed down",
     Unit::kBytesPerSecond, "What its owner lets it receive", kPeers,
     NotZero<&PeerStatus::down_cap_bytes_per_second>},
    {"/updates_refused", nullptr, "atoll_peer_updates_refused_total", "updates refused",
     Unit::kCount, "Chunks and updates of it that were refused", kCoordinator,
     Where<Listed, &PeerStatus::updates_refused>},
    {"/updates_clipped", nullptr, "atoll_peer_updates_clipped_total", "updates scaled down",
     Unit::kCount, "Updates of it that were scaled down", kCoordinator,
     Where<Listed, &PeerStatus::updates_clipped>},
    {"/data_refused", nullptr, "atoll_peer_data_refused_total", "updates of bad data", Unit::kCount,
     "Updates of it that were not finite, or losses far above the others'", kCoordinator,
     Where<Listed, &PeerStatus::data_refused>},
    {"/audits_failed", nullptr, "atoll_peer_audits_failed_total", nullptr, Unit::kCount,
     "Means that it made and that an audit found wrong", kCoordinator,
     Where<Listed, &PeerStatus::audits_failed>},
    {"/suspicions", nullptr, "atoll_peer_suspicions_total", nullptr, Unit::kCount,
     "Audits that named it or another, with no way to decide", kCoordinator,
     Where<Listed, &PeerStatus::suspicions>},
    {"/worker_failures", nullptr, "atoll_peer_worker_failures", nullptr, Unit::kCount,
     "How often in a row its worker has ended", kCoordinator,
     Where<Listed, &PeerStatus::worker_failures>},
    {"/parties", nullptr, nullptr, nullptr, Unit::kCount,
     "Parties that it hosts; 1 if it is one itself", kPeers,
     [](const PeerStatus& peer) -> Maybe { return std::max<uint32_t>(1, peer.parties()); }},
    {"/pid", nullptr, nullptr, "process", Unit::kOrdinal, "Its process", kPeers,
     NotZero<&PeerStatus::pid>},
    {"/state_version", nullptr, nullptr, nullptr, Unit::kOrdinal,
     "Version whose digest it has reported", kPeers, Where<TellsState, &PeerStatus::state_version>},
};

constexpr Figure<PeerStatus> kToldFigures[] = {
    {"/progress/version", nullptr, "atoll_peer_version", "version", Unit::kOrdinal,
     "Version of the model that it holds", kPeers,
     Always<&PeerStatus::progress, &PeerProgress::version>, "atoll_daemon_version"},
    {"/progress/step", nullptr, nullptr, nullptr, Unit::kOrdinal, "Inner step of the round", kPeers,
     Where<HasSteps, &PeerStatus::progress, &PeerProgress::step>, "atoll_daemon_step"},
    {"/progress/steps", nullptr, nullptr, nullptr, Unit::kCount, "Inner steps that the round has",
     kPeers, NotZero<&PeerStatus::progress, &PeerProgress::steps>, "atoll_daemon_steps"},
    {"/progress/loss", nullptr, nullptr, "loss of recent steps", Unit::kLoss,
     "Training loss of recent inner steps", kPeers,
     NotZero<&PeerStatus::progress, &PeerProgress::loss>, "atoll_daemon_loss"},
    {"/progress/tokens_per_second", nullptr, "atoll_peer_tokens_per_second", "tokens a second",
     Unit::kTokensPerSecond, "Speed of its inner steps", kPeers,
     NotZero<&PeerStatus::progress, &PeerProgress::tokens_per_second>,
     "atoll_daemon_tokens_per_second"},
    {"/progress/train_seconds", nullptr, "atoll_peer_train_seconds_total", "trained",
     Unit::kSeconds, "Its inner steps in this run", kPeers,
     Where<TellsProgress, &PeerStatus::progress, &PeerProgress::train_seconds>,
     "atoll_daemon_train_seconds_total"},
    {"/progress/exchange_bytes_sent", nullptr, "atoll_peer_exchange_sent_bytes_total",
     "sent in exchanges", Unit::kBytes, "Bytes that it sent in exchanges of this run", kPeers,
     Where<TellsProgress, &PeerStatus::progress, &PeerProgress::exchange_bytes_sent>,
     "atoll_daemon_exchange_sent_bytes_total"},
    {"/progress/exchange_bytes_received", nullptr, "atoll_peer_exchange_received_bytes_total",
     "received in exchanges", Unit::kBytes, "Bytes that it received in exchanges of this run",
     kPeers, Where<TellsProgress, &PeerStatus::progress, &PeerProgress::exchange_bytes_received>,
     "atoll_daemon_exchange_received_bytes_total"},
    {"/progress/resident_bytes", nullptr, "atoll_peer_resident_bytes", "memory of its daemon",
     Unit::kBytes, "Memory of its daemon", kPeers,
     NotZero<&PeerStatus::progress, &PeerProgress::resident_bytes>},
    {"/progress/disk_free_bytes", nullptr, "atoll_peer_disk_free_bytes", "disk free", Unit::kBytes,
     "Left on the disk of its replica", kPeers,
     NotZero<&PeerStatus::progress, &PeerProgress::disk_free_bytes>},
    {"/progress/memory_available_bytes", nullptr, "atoll_peer_memory_available_bytes",
     "memory free", Unit::kBytes, "Memory that its machine has left", kPeers,
     NotZero<&PeerStatus::progress, &PeerProgress::memory_available_bytes>},
    {"/progress/slow_sync_seconds", nullptr, nullptr, nullptr, Unit::kSeconds,
     "Its longest slow fsync of the last ten minutes; 0 if none was slow", kPeers,
     Where<TellsProgress, &PeerStatus::progress, &PeerProgress::slow_sync_seconds>},
    {"/clock_offset_seconds", nullptr, "atoll_peer_clock_offset_seconds", "clock", Unit::kSeconds,
     "Its clock minus the coordinator's", kCoordinator,
     Where<TellsClock, &PeerStatus::clock_offset_seconds>},
    {nullptr, nullptr, "atoll_peer_held_back", nullptr, Unit::kFlag,
     "1 while it does not train by its owner's will", kPeers,
     [](const PeerStatus& peer) -> Maybe {
       if (!TellsProgress(peer)) return std::nullopt;
       return peer.progress().held_back().empty() ? 0 : 1;
     }},
};

constexpr Figure<LinkStatus> kLinkFigures[] = {
    {"/predicted_bytes_per_second", nullptr, "atoll_link_predicted_bytes_per_second", nullptr,
     Unit::kBytesPerSecond,
     "What the newest plan counted on between two regions, the labels `from` and `to`", kPlanner,
     NotZero<&LinkStatus::predicted_bytes_per_second>},
    {"/measured_bytes_per_second", nullptr, "atoll_link_measured_bytes_per_second", nullptr,
     Unit::kBytesPerSecond, "What the newest exchange has shown there", kPeers,
     NotZero<&LinkStatus::measured_bytes_per_second>},
    {"/seconds", nullptr, "atoll_link_latency_seconds", nullptr, Unit::kSeconds,
     "How long a byte takes there", kPeers, NotZero<&LinkStatus::seconds>},
};

}  // namespace

FigureList<v1::RunStatus> RunFigures() { return kRunFigures; }
FigureList<v1::RoundRecord> RoundFigures() { return kRoundFigures; }
FigureList<v1::EvaluationRecord> EvaluationFigures() { return kEvaluationFigures; }
FigureList<v1::PeerStatus> PeerFigures() { return kPeerFigures; }
FigureList<v1::PeerStatus> ToldFigures() { return kToldFigures; }
FigureList<v1::LinkStatus> LinkFigures() { return kLinkFigures; }

const char* UnitName(FigureUnit unit) { return FormOf(unit).name; }

Json FigureJson(std::optional<double> value, FigureUnit unit) {
  if (!value) return nullptr;
  if (const char* const word = WordOf(*value)) return word;
  if (FormOf(unit).whole) return static_cast<uint64_t>(*value);
  return *value;
}

std::optional<double> FigureOf(const Json& json) {
  if (json.is_number()) return json.get<double>();
  if (json.is_string()) return ValueOfWord(json.get_ref<const std::string&>());
  return std::nullopt;
}

std::string KnownText(std::optional<double> value, std::string (*text)(double)) {
  return value ? text(*value) : "not known";
}

template <typename Of>
Json Figure<Of>::ToJson(const Of& of) const {
  return FigureJson(value(of), unit);
}

template <typename Of>
std::string Figure<Of>::Text(const Of& of, absl::string_view unknown) const {
  const std::optional<double> known = value(of);
  return known ? FormOf(unit).text(*known) : std::string(unknown);
}

template <typename Of>
std::vector<std::string> Figure<Of>::Row(const Of& of, absl::string_view unknown) const {
  return {title, Text(of, unknown)};
}

template <typename Of>
const Figure<Of>& FigureList<Of>::At(absl::string_view json) const {
  const auto found = std::find_if(this->begin(), this->end(), [&](const Figure<Of>& figure) {
    return figure.json != nullptr && json == figure.json;
  });
  CHECK(found != this->end());
  return *found;
}

template <typename Of>
void FigureList<Of>::Put(const Of& of, Json* json) const {
  for (const Figure<Of>& figure : *this) {
    if (figure.json != nullptr) (*json)[Json::json_pointer(figure.json)] = figure.ToJson(of);
  }
}

template struct Figure<v1::RunStatus>;
template struct Figure<v1::RoundRecord>;
template struct Figure<v1::EvaluationRecord>;
template struct Figure<v1::PeerStatus>;
template struct Figure<v1::LinkStatus>;
template class FigureList<v1::RunStatus>;
template class FigureList<v1::RoundRecord>;
template class FigureList<v1::EvaluationRecord>;
template class FigureList<v1::PeerStatus>;
template class FigureList<v1::LinkStatus>;

}  // namespace atolld
